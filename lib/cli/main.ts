#!/usr/bin/env node
// The command line: puts the commands together and turns errors into one line and an exit status. 0: done; 1: the answer is
// "no"; 2: bad usage or unreadable input. Knows nothing of what a command does.

import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { register as registerAnalyze } from './commands/analyze.js';
import { register as registerBuild } from './commands/build.js';
import { register as registerConf } from './commands/conf.js';
import { register as registerConvert } from './commands/convert.js';
import { register as registerDemo } from './commands/demo.js';
import { register as registerDiff } from './commands/diff.js';
import { register as registerDoctor } from './commands/doctor.js';
import { register as registerRedact } from './commands/redact.js';
import { register as registerReplay } from './commands/replay.js';
import { register as registerTune } from './commands/tune.js';
import { register as registerView } from './commands/view.js';

const STATUS_BAD_INPUT = 2;

function createProgram(): Command {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  const { version } = JSON.parse(manifest) as { version: string };
  const program = new Command('cudalloc')
    .description('GPU memory for Node: allocate, see, explain')
    .version(version)
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(oneLine(text.replace(/^error: /, ''))) })
    .addHelpText('after', '\nSizes are bytes or have a unit: 20971520, 20MiB, 1.5GiB; MB and GB are decimal.');
  for (const register of [
    registerDemo,
    registerAnalyze,
    registerView,
    registerReplay,
    registerTune,
    registerConf,
    registerDiff,
    registerConvert,
    registerRedact,
    registerDoctor,
    registerBuild,
  ])
    register(program);
  return program;
}

function oneLine(message: string): string {
  return `cudalloc: ${message.trim().replace(/\s*\n\s*/g, ' ')}\n`;
}

function report(error: unknown): number {
  // Commander has printed its own message (or the help text that was asked for).
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : STATUS_BAD_INPUT;
  const message = error instanceof Error ? error.message : String(error);
  process.stderr.write(oneLine(message));
  if (process.env.DEBUG && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  return STATUS_BAD_INPUT;
}

// A reader that has seen enough (`cudalloc ... | head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

try {
  await createProgram().parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

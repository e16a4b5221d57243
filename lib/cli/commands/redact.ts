// `cudalloc redact`: a copy of a snapshot without names and paths. Knows options and wording; what is replaced is snapshot/redact.ts.

import type { Command } from 'commander';
import {
  formatSnapshot,
  readSnapshot,
  SNAPSHOT_ENDINGS,
  type SnapshotFormat,
  snapshotFormatOf,
} from '../../snapshot/files.js';
import { redact } from '../../snapshot/redact.js';
import { outputOf, STDOUT, writeOutput } from '../output-file.js';
import { formatCount } from '../render/style.js';

interface Options {
  readonly output?: string;
  readonly salvage?: boolean;
  readonly json?: boolean;
}

/** What was written. Snake case: it is printed as it is. */
interface Redacted {
  readonly input: string;
  readonly output: string;
  readonly format: SnapshotFormat;
  readonly bytes: number;
  readonly frames: number;
  readonly stacks: number;
  readonly events: number;
  readonly salvaged: string | null;
}

const HELP = `
Replaced by tokens, the same name always by the same one: functions (frame_12), files (file_3.py), annotations, metadata, every
other text. Bytes become zeros, and times are moved to a constant beginning. Sizes, addresses, line numbers, streams and the shape
of stacks are kept, so that the copy replays and analyses as the original does. Look at the copy before you share it.

Without -o the copy is written beside the input as <name>.redacted.pickle (.json where the input is JSON); a file that is there
already is not replaced. A name ending in .json makes it JSON, one ending in .gz gzip. -o - is standard output.

Exit status: 0 done; 2 bad input.`;

export function register(program: Command): void {
  program
    .command('redact')
    .description('a copy of a snapshot without names and paths, to share; it replays identically')
    .argument('<snapshot>', "PyTorch's pickle, or ours; plain or gzip")
    .option('-o, --output <file>', 'the file to write')
    .option('--salvage', 'of a damaged snapshot, use what can be read')
    .option('--json', 'print what was written as one JSON document on stdout')
    .addHelpText('after', HELP)
    .action((path: string, options: Options) => runRedact(path, options));
}

async function runRedact(input: string, options: Options): Promise<void> {
  const output = outputOf(input, `.redacted${SNAPSHOT_ENDINGS[snapshotFormatOf(input)]}`, options);
  const snapshot = redact(readSnapshot(input, { salvage: options.salvage ?? false }));
  const format = snapshotFormatOf(output === STDOUT ? input : output);
  const bytes = await writeOutput(formatSnapshot(snapshot, format), output, { binary: format !== 'json' });
  const { stacks, deviceTraces, salvaged = null } = snapshot;
  const redacted: Redacted = {
    input,
    output,
    format,
    bytes,
    frames: stacks.frameCount,
    stacks: stacks.size,
    events: deviceTraces.reduce((sum, { length }) => sum + length, 0),
    salvaged,
  };
  const text = options.json ? `${JSON.stringify(redacted)}\n` : `${render(redacted)}\n`;
  (output === STDOUT ? process.stderr : process.stdout).write(text);
}

function render({ output, format, bytes, frames, stacks, events }: Redacted): string {
  const where = output === STDOUT ? 'standard output' : output;
  return (
    `${where}: ${format}, ${formatCount(bytes)} bytes\n` +
    `${formatCount(frames)} frames in ${formatCount(stacks)} stacks have tokens for names; ${formatCount(events)} events are as they were`
  );
}

// `cudalloc build`: builds the addon from the package's own sources, for machines that no prebuilt one fits. Knows the tools it
// needs and nothing of what it builds.

import { spawnSync } from 'node:child_process';
import type { Command } from 'commander';
import { addonPath, loadAddon, PACKAGE_ROOT } from '../../device/native-addon.js';

const CMAKE_JS = 'cmake-js@8.0.0';

interface Outcome {
  readonly built: boolean;
  readonly addon: string;
  readonly reason: string;
}

export function register(program: Command): void {
  program
    .command('build')
    .description("builds the native addon from the package's sources (needs CMake and a C++17 compiler)")
    .option('--json', 'print one JSON document on stdout')
    .action((options: { json?: boolean }) => {
      const outcome = build();
      const text = outcome.built ? `built ${outcome.addon}` : `cudalloc build: ${outcome.reason}`;
      if (options.json) process.stdout.write(`${JSON.stringify(outcome, null, 2)}\n`);
      else (outcome.built ? process.stdout : process.stderr).write(`${text}\n`);
      if (!outcome.built) process.exitCode = 1;
    });
}

function build(): Outcome {
  const lacking = missingTools();
  if (lacking.length > 0)
    return failed(`${lacking.join(' and ')} cannot be found; install it and run this command again`);

  // Everything the tools print goes to stderr: stdout is for the answer.
  const result = spawnSync('npx', ['--yes', CMAKE_JS, 'compile'], { cwd: PACKAGE_ROOT, stdio: ['ignore', 2, 2] });
  if (result.error !== undefined) return failed(`npx could not be started: ${result.error.message}`);
  if (result.status !== 0)
    return failed(`cmake-js ended with ${result.signal ?? `status ${result.status}`}; its output above says why`);
  try {
    loadAddon();
    return { built: true, addon: addonPath(), reason: '' };
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error));
  }
}

function missingTools(): string[] {
  const compilers = [process.env.CXX, 'c++', 'g++', 'clang++'].filter((name) => name !== undefined && name !== '');
  const lacking: string[] = [];
  if (!runs('cmake')) lacking.push('CMake (cmake)');
  if (!compilers.some((name) => runs(name as string))) lacking.push(`a C++17 compiler (${compilers.join(', ')})`);
  return lacking;
}

function runs(tool: string): boolean {
  return spawnSync(tool, ['--version'], { stdio: 'ignore' }).status === 0;
}

function failed(reason: string): Outcome {
  return { built: false, addon: '', reason };
}

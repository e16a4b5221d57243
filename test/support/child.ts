// Runs a program in a process of its own and says how it ended. Programs are ES modules written to a temporary folder that import
// the compiled package, so that they run as a user's would.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

const folders: string[] = [];

afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A folder of its own under the system's temporary one; removed after the test file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'cudalloc-test-'));
  folders.push(folder);
  return folder;
}

/** Address of a compiled module, for an `import` in a program. */
export function compiled(path: string, root = ROOT): string {
  return JSON.stringify(new URL(`file://${join(root, 'dist', path)}`).href);
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly args?: readonly string[];
  readonly timeoutMs?: number;
}

/** Runs the text of an ES module. */
export function runProgram(text: string, options: RunOptions = {}): Promise<Ended> {
  const file = join(temporaryFolder(), 'program.mjs');
  writeFileSync(file, text);
  return runNode([...(options.args ?? []), file], options);
}

/** Runs Node with arguments. A process that does not end in time is killed and shows as ended by a signal. */
export function runNode(args: readonly string[], { env = {}, timeoutMs = 60_000 }: RunOptions = {}): Promise<Ended> {
  // What the test runner sets for its own processes is not what a user's process sees.
  const { NODE_OPTIONS: _options, VITEST: _vitest, NODE_ENV: _env, ...inherited } = process.env;
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { env: { ...inherited, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, stdout, stderr });
    });
  });
}

// Runs the compiled command line as a user does.

import { join } from 'node:path';
import { type Ended, ROOT, type RunOptions, runNode } from './child.js';

export const MAIN = join(ROOT, 'dist', 'cli', 'main.js');

/** A trace of the golden rules. */
export function rule(name: string): string {
  return join(ROOT, 'test', 'golden', 'data', 'rules', name, 'trace.txt');
}

/** Neither colours nor stacks are asked for, whatever the environment of the tests says. */
const PLAIN = {
  NO_COLOR: undefined,
  FORCE_COLOR: undefined,
  DEBUG: undefined,
  CI: undefined,
  CUDALLOC_BACKEND: undefined,
};

export function cli(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return runNode([MAIN, ...args], { timeoutMs: 120_000, ...options, env: { ...PLAIN, ...options.env } });
}

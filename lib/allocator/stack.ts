// JavaScript stacks as frames. Must not know who asks.

import type { Frame } from '../snapshot/model.js';

/** `at name (file:line:column)` or `at file:line:column`. */
const FRAME = /^\s*at (?:(?:async )?(.*?) \()?(.*?):(\d+):\d+\)?$/;

/** Frames of this package itself are of no interest to the caller. */
const OWN = /[\\/](?:lib|dist)[\\/]allocator[\\/]/;

/** The stack of the caller, innermost first, without this package's own frames. Costs microseconds. */
export function captureFrames(): readonly Frame[] {
  const holder: { stack?: string } = {};
  Error.captureStackTrace(holder, captureFrames);
  return parseStack(holder.stack ?? '');
}

export function parseStack(stack: string): readonly Frame[] {
  const frames: Frame[] = [];
  for (const line of stack.split('\n')) {
    const match = FRAME.exec(line);
    if (match === null) continue;
    const [, name, filename, number] = match;
    if (filename !== undefined && !OWN.test(filename))
      frames.push({ name: name ?? '<anonymous>', filename, line: Number(number) });
  }
  return frames;
}

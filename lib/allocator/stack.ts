// JavaScript stacks as frames. Must not know who asks.

import type { Frame } from '../snapshot/model.js';

/** `at name (file:line:column)` or `at file:line:column`. */
const FRAME = /^\s*at (?:(?:async )?(.*?) \()?(.*?):(\d+):\d+\)?$/;

/** The folder of this file, whose frames are of no interest to the caller; none when it was bundled into another file. */
const OWN_FOLDER = /^(.*\/)stack\.[jt]s$/.exec(import.meta.url)?.[1];

/** The stack of the caller, innermost first, without the allocator's own frames. Costs microseconds. Never throws. */
export function captureFrames(): readonly Frame[] {
  // A program may have its own way of preparing stacks, which need not give text.
  const { prepareStackTrace } = Error;
  try {
    (Error as { prepareStackTrace?: unknown }).prepareStackTrace = undefined;
    return parseStack(new Error().stack ?? '');
  } finally {
    (Error as { prepareStackTrace?: unknown }).prepareStackTrace = prepareStackTrace;
  }
}

export function parseStack(stack: string): readonly Frame[] {
  const frames: Frame[] = [];
  for (const line of stack.split('\n')) {
    const match = FRAME.exec(line);
    if (match === null) continue;
    const [, name, filename, number] = match;
    if (filename !== undefined && !isOwn(filename))
      frames.push({ name: name ?? '<anonymous>', filename, line: Number(number) });
  }
  return frames;
}

function isOwn(filename: string): boolean {
  if (OWN_FOLDER === undefined) return false;
  // Some runtimes give paths instead of URLs.
  return filename.startsWith(OWN_FOLDER) || filename.startsWith(OWN_FOLDER.replace(/^file:\/\//, ''));
}

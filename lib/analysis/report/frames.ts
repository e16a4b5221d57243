// Stacks in the form in which reports print them. Must not know what they belong to.

import type { StackTable } from '../../snapshot/model.js';
import type { ReportFrame } from './format.js';

/** The frames of a stack, innermost first. A line beyond 2^53 is rounded. Linear in its depth. */
export function reportFrames(stacks: StackTable, stack: number): ReportFrame[] {
  return stacks.frames(stack).map(({ name, filename, line }) => ({ name, filename, line: Number(line) }));
}

/** The same for equal stacks, whatever table they are in. */
export function stackKey(frames: readonly ReportFrame[]): string {
  return frames.map(({ name, filename, line }) => `${filename}\0${line}\0${name}`).join('\x01');
}

// What kind of work a stack belongs to, told by the files and names in it: a rough division, for colours. Must not know sizes.

import { EMPTY_STACK, type StackTable } from '../snapshot/model.js';

/** In the order in which they are tried; the last but one is everything else that has a stack. */
export const CATEGORIES = [
  'optimizer',
  'backward pass',
  'communication',
  'compiled code',
  'data loading',
  'forward pass',
  'other code',
  'no stack',
] as const;

const OTHER = CATEGORIES.indexOf('other code');
const NONE = CATEGORIES.indexOf('no stack');

/** One for each category but the last two, matched against `filename name` of a frame. */
const SIGNS: readonly RegExp[] = [
  /[\\/]optim[\\/]|\boptimizer\b|_foreach_(?:add|mul|adam|zeros)/i,
  /\bautograd::(?:Engine|python::PythonEngine|generated::\w*Backward)|_engine_run_backward|\bbackward\b/,
  /[\\/]distributed[\\/]|\bc10d::|\bnccl/i,
  /[\\/]_inductor[\\/]|torchinductor|[\\/]_dynamo[\\/]/,
  /[\\/]utils[\\/]data[\\/]|\bdataloader\b|pin_memory/i,
  /[\\/]nn[\\/]modules[\\/]|\bforward\b/,
];

/** Position in CATEGORIES. Linear in the depth of the stack. */
export function categoryOf(stacks: StackTable, stack: number): number {
  if (stack === EMPTY_STACK) return NONE;
  const lines = stacks.frames(stack).map(({ filename, name }) => `${filename} ${name}`);
  const found = SIGNS.findIndex((sign) => lines.some((line) => sign.test(line)));
  return found === -1 ? OTHER : found;
}

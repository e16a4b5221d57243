// What kind of work a stack belongs to, told by the files and names in it: a rough division, for colours. Must not know sizes.

import type { Frame } from '../snapshot/model.js';

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

/** One for each category but the last two, matched against `filename name` of a frame. */
const SIGNS: readonly RegExp[] = [
  /[\\/]optim[\\/]|\boptimizer\b|_foreach_(?:add|mul|adam|zeros)/i,
  /\bautograd::(?:Engine|python::PythonEngine|generated::\w*Backward)|_engine_run_backward|\bbackward\b/,
  /[\\/]distributed[\\/]|\bc10d::|\bnccl/i,
  /[\\/]_inductor[\\/]|torchinductor|[\\/]_dynamo[\\/]/,
  /[\\/]utils[\\/]data[\\/]|\bdataloader\b|pin_memory/i,
  /[\\/]nn[\\/]modules[\\/]|\bforward\b/,
];

/** Which signs a frame bears, one bit each. */
export function signsOf({ filename, name }: Pick<Frame, 'filename' | 'name'>): number {
  const text = `${filename} ${name}`;
  return SIGNS.reduce((bits, sign, i) => (sign.test(text) ? bits | (1 << i) : bits), 0);
}

/** Position in CATEGORIES of a stack whose frames together bear these signs: the first of them. */
export function categoryOf(signs: number): number {
  return signs === 0 ? OTHER : 31 - Math.clz32(signs & -signs);
}

/** Position in CATEGORIES of what has no stack. */
export const NO_STACK = CATEGORIES.indexOf('no stack');

// Which blocks are shown: those of a stream, of a pool, and those whose stack has a text in it; and their sums. Must not know how they are drawn.

import type { Frame, StackTable } from '../snapshot/model.js';
import type { DeviceHistory } from './device-history.js';

/** Null or '': everything. */
export interface Filter {
  readonly search: string;
  readonly stream: number | null;
  /** As `poolName` writes it. */
  readonly pool: string | null;
}

export interface Sum {
  readonly bytes: number;
  readonly count: number;
}

/** 1 for each row that passes; null when all do. Linear in rows and in the frames of all stacks. */
export function rowsPassing(history: DeviceHistory, { search, stream, pool }: Filter): Uint8Array | null {
  if (search === '' && stream === null && pool === null) return null;
  const { blocks } = history.lifetimes;
  const stacks = search === '' ? null : stacksWith(history.snapshot.stacks, search);
  const passing = new Uint8Array(blocks.length);
  for (let row = 0; row < blocks.length; row++) {
    if (stream !== null && blocks.streams[row] !== stream) continue;
    if (pool !== null && poolOfBlock(history, row) !== pool) continue;
    if (stacks !== null && stacks[blocks.stacks[row] as number] === 0) continue;
    passing[row] = 1;
  }
  return passing;
}

/** 1 for each stack that has a frame whose name or `filename:line` contains the text, whatever its case. Linear in frames and stacks. */
export function stacksWith(stacks: StackTable, text: string): Uint8Array {
  const wanted = text.toLowerCase();
  const frames = Uint8Array.from({ length: stacks.frameCount }, (_, i) =>
    Number(frameText(stacks.frame(i)).includes(wanted)),
  );
  const found = new Uint8Array(stacks.size);
  for (let stack = 0; stack < stacks.size; stack++)
    for (let i = stacks.depth(stack) - 1; i >= 0; i--)
      if (frames[stacks.frameNumber(stack, i)] === 1) {
        found[stack] = 1;
        break;
      }
  return found;
}

/** With a blank at its end, so that a search for line 12 need not find line 120. */
function frameText({ name, filename, line }: Frame): string {
  return `${name} ${filename}:${line} `.toLowerCase();
}

/** Allocated bytes and blocks after an event, of the rows that pass. Linear in rows. */
export function allocatedAfter(
  { lifetimes: { blocks } }: DeviceHistory,
  event: number,
  passing: Uint8Array | null,
): Sum {
  let bytes = 0;
  let count = 0;
  for (let row = 0; row < blocks.length; row++) {
    if ((blocks.starts[row] as number) > event) break;
    if ((blocks.freed[row] as number) <= event || (passing !== null && passing[row] === 0)) continue;
    bytes += blocks.sizes[row] as number;
    count++;
  }
  return { bytes, count };
}

/** `small`, `large`, and `large of pool 1, 2` for a private one; `unknown` where the block began in no known segment. */
export function poolOfBlock({ lifetimes: { blocks, ranges } }: DeviceHistory, row: number): string {
  const range = blocks.ranges[row] as number;
  const pool = range === -1 ? undefined : ranges.pools[ranges.poolOf[range] as number];
  return pool === undefined ? 'unknown' : poolName(pool);
}

export function poolName({
  segmentType,
  poolId,
}: {
  readonly segmentType: string;
  readonly poolId: readonly [number, number];
}): string {
  return poolId.some((part) => part !== 0) ? `${segmentType} of pool ${poolId.join(', ')}` : segmentType;
}

// What the reserved memory of a device consists of after an event: runs of addresses, each of one kind, without holes. Must not know where
// they are drawn.

import { blocksAfter, type Lifetimes, rangesAfter } from '../../analysis/recording/lifetimes.js';

export type RunKind = 'allocated' | 'pending' | 'stuck' | 'wholly_free';

export interface Run {
  readonly address: number;
  readonly size: number;
  readonly kind: RunKind;
  /** Of the block; -1 for free memory. */
  readonly row: number;
  /** Position among the segments. */
  readonly segment: number;
}

/** A segment, or stretches of an expandable one that touch. */
export interface SegmentState {
  readonly address: number;
  readonly size: number;
  readonly stream: number;
  /** A row of the ranges that it consists of. */
  readonly range: number;
  readonly allocated: number;
  readonly pending: number;
  readonly free: number;
  readonly largestHole: number;
  /** Rows of its blocks, by address. */
  readonly blocks: readonly number[];
}

export interface MapState {
  readonly runs: readonly Run[];
  readonly segments: readonly SegmentState[];
  /** Bytes by kind; together they are what is reserved. */
  readonly sums: Readonly<Record<RunKind, number>>;
}

interface Stretch {
  readonly address: number;
  end: number;
  readonly range: number;
}

/** Linear in rows, and sorts those that are there. */
export function mapState(lifetimes: Lifetimes, event: number): MapState {
  const { blocks } = lifetimes;
  const rows = blocksAfter(lifetimes, event);
  const runs: Run[] = [];
  const segments: SegmentState[] = [];
  const sums = { allocated: 0, pending: 0, stuck: 0, wholly_free: 0 };
  let at = 0;
  for (const { address, end, range } of stretches(lifetimes, event)) {
    const inside: number[] = [];
    for (; at < rows.length && (blocks.addresses[rows[at] as number] as number) < end; at++)
      inside.push(rows[at] as number);
    const segment = segments.length;
    const counts = { allocated: 0, pending: 0, free: 0, largestHole: 0 };
    const free = inside.length === 0 ? 'wholly_free' : 'stuck';
    const add = (from: number, size: number, kind: RunKind, row: number): void => {
      if (size <= 0) return;
      runs.push({ address: from, size, kind, row, segment });
      sums[kind] += size;
      if (row === -1) {
        counts.free += size;
        counts.largestHole = Math.max(counts.largestHole, size);
      } else counts[kind as 'allocated' | 'pending'] += size;
    };
    let from = address;
    for (const row of inside) {
      const begin = blocks.addresses[row] as number;
      const size = blocks.sizes[row] as number;
      add(from, begin - from, free, -1);
      add(begin, size, event < (blocks.freed[row] as number) ? 'allocated' : 'pending', row);
      from = begin + size;
    }
    add(from, end - from, free, -1);
    segments.push({
      address,
      size: end - address,
      stream: lifetimes.ranges.streams[range] as number,
      range,
      blocks: inside,
      ...counts,
    });
  }
  return { runs, segments, sums };
}

/** What is reserved, with the stretches of an expandable segment joined that touch. */
function stretches(lifetimes: Lifetimes, event: number): Stretch[] {
  const { addresses, sizes, streams, expandable, poolOf } = lifetimes.ranges;
  const found: Stretch[] = [];
  for (const row of rangesAfter(lifetimes, event)) {
    const address = addresses[row] as number;
    const last = found.at(-1);
    const joins =
      last !== undefined &&
      last.end === address &&
      expandable[row] === 1 &&
      expandable[last.range] === 1 &&
      streams[row] === streams[last.range] &&
      poolOf[row] === poolOf[last.range];
    if (joins) last.end = address + (sizes[row] as number);
    else found.push({ address, end: address + (sizes[row] as number), range: row });
  }
  return found;
}

/** Rows of the blocks that keep a segment from being given back, the largest first. */
export function pinnersOf({ blocks }: Lifetimes, { blocks: rows }: SegmentState): number[] {
  return [...rows].sort((a, b) => (blocks.sizes[b] as number) - (blocks.sizes[a] as number));
}

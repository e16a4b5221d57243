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
  /** Blocks, and parts of them, that the recording places outside of what is reserved or over each other: no run shows them. */
  readonly outside: { readonly count: number; readonly bytes: number };
}

interface Stretch {
  readonly address: number;
  end: number;
  readonly range: number;
}

/**
 * Linear in rows, and sorts those that are there.
 * @param passing 1 for each row of the ranges that is shown; null: all
 */
export function mapState(lifetimes: Lifetimes, event: number, passing: Uint8Array | null = null): MapState {
  const { addresses, sizes } = lifetimes.blocks;
  const rows = blocksAfter(lifetimes, event);
  const builder = new MapBuilder(lifetimes, event);
  let at = 0;
  for (const stretch of stretches(lifetimes, event)) {
    const isShown = passing === null || passing[stretch.range] === 1;
    const inside: number[] = [];
    for (; at < rows.length && (addresses[rows[at] as number] as number) < stretch.end; at++) {
      const row = rows[at] as number;
      if ((addresses[row] as number) + (sizes[row] as number) > stretch.address) inside.push(row);
      else if (isShown) builder.leaveOut(sizes[row] as number);
    }
    if (isShown) builder.add(stretch, inside);
  }
  if (passing === null) for (; at < rows.length; at++) builder.leaveOut(sizes[rows[at] as number] as number);
  return builder;
}

class MapBuilder implements MapState {
  readonly runs: Run[] = [];
  readonly segments: SegmentState[] = [];
  readonly sums = { allocated: 0, pending: 0, stuck: 0, wholly_free: 0 };
  readonly outside = { count: 0, bytes: 0 };
  readonly #lifetimes: Lifetimes;
  readonly #event: number;

  constructor(lifetimes: Lifetimes, event: number) {
    this.#lifetimes = lifetimes;
    this.#event = event;
  }

  leaveOut(bytes: number): void {
    this.outside.count++;
    this.outside.bytes += bytes;
  }

  /** @param blocks rows of those that begin before its end and end behind its start, by address */
  add({ address, end, range }: Stretch, blocks: readonly number[]): void {
    const { addresses, sizes, freed } = this.#lifetimes.blocks;
    const counts = { allocated: 0, pending: 0, free: 0, largestHole: 0 };
    const kindOfHoles = blocks.length === 0 ? 'wholly_free' : 'stuck';
    const hole = (from: number, size: number): void => {
      this.#run(from, size, kindOfHoles, -1);
      counts.free += size;
      counts.largestHole = Math.max(counts.largestHole, size);
    };
    let from = address;
    for (const row of blocks) {
      const start = addresses[row] as number;
      const size = sizes[row] as number;
      const begin = Math.max(from, start);
      const shown = Math.max(0, Math.min(end, start + size) - begin);
      if (shown < size) this.leaveOut(size - shown);
      if (shown === 0) continue;
      if (begin > from) hole(from, begin - from);
      const kind = this.#event < (freed[row] as number) ? 'allocated' : 'pending';
      this.#run(begin, shown, kind, row);
      counts[kind] += shown;
      from = begin + shown;
    }
    if (end > from) hole(from, end - from);
    const stream = this.#lifetimes.ranges.streams[range] as number;
    this.segments.push({ address, size: end - address, stream, range, blocks, ...counts });
  }

  #run(address: number, size: number, kind: RunKind, row: number): void {
    this.runs.push({ address, size, kind, row, segment: this.segments.length });
    this.sums[kind] += size;
  }
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

/** Rows of the blocks that keep a segment from being given back, the largest first. Sorts them. */
export function pinnersOf({ blocks }: Lifetimes, { blocks: rows }: SegmentState): number[] {
  return [...rows].sort((a, b) => (blocks.sizes[b] as number) - (blocks.sizes[a] as number));
}

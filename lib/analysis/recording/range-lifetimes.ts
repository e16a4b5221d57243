// When each piece of memory from the driver began and ended: segments, and the mapped stretches of expandable ones. Must not know blocks.

import type { Config } from '../../allocator/config.js';
import {
  type DeviceTrace,
  EMPTY_STACK,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
  type SnapshotSegment,
} from '../../snapshot/model.js';
import type { AddressIndex } from './address-index.js';
import { segmentTypeOf } from './segment-type.js';
import type { StartSegment } from './start-state.js';

export interface RangePool {
  readonly segmentType: 'small' | 'large';
  /** `[0, 0]` for the default pools. */
  readonly poolId: readonly [number, number];
}

/**
 * A segment, or a mapped stretch of an expandable one. Rows in the order of `starts`, then by address; never two that overlap at a time. Where
 * a part of a stretch is unmapped, its row ends and what is left goes on as rows of its own.
 */
export interface RangeLifetimes {
  readonly length: number;
  readonly addresses: Float64Array;
  readonly sizes: Float64Array;
  readonly streams: Float64Array;
  readonly stacks: Uint32Array;
  /** Reserved after e: starts <= e < ends. */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
  /** 1 or 0. */
  readonly expandable: Uint8Array;
  /** Positions in `pools`. */
  readonly poolOf: Uint16Array;
  readonly pools: readonly RangePool[];
}

interface Row {
  segmentType: RangePool['segmentType'];
  poolId: RangePool['poolId'];
  readonly address: number;
  readonly size: number;
  readonly stream: number;
  stack: number;
  readonly start: number;
  end: number;
  readonly isExpandable: boolean;
}

/** Takes events in order. */
export class RangeTable {
  readonly #trace: DeviceTrace;
  readonly #config: Config;
  readonly #index: AddressIndex;
  /** Those of the end, by address: only they say which pool they are of, and who made those that were there before. */
  readonly #final: readonly SnapshotSegment[];
  readonly #rows: Row[] = [];
  /** Rows of what is reserved now, by address. */
  readonly #open: number[] = [];

  /** @param start by address @param final segments of the device at the end */
  constructor(
    trace: DeviceTrace,
    {
      start,
      final,
      config,
      index,
    }: {
      readonly start: readonly StartSegment[];
      readonly final: readonly SnapshotSegment[];
      readonly config: Config;
      readonly index: AddressIndex;
    },
  ) {
    this.#trace = trace;
    this.#config = config;
    this.#index = index;
    this.#final = [...final].sort((a, b) => a.address - b.address);
    for (const { address, size, stream, segmentType, poolId, isExpandable } of start) {
      this.#open.push(
        this.#add({
          address,
          size,
          stream,
          stack: EMPTY_STACK,
          start: -1,
          end: trace.length,
          isExpandable,
          segmentType,
          poolId,
        }),
      );
    }
  }

  /** Constant for events of blocks; of segments, linear in what is reserved. */
  take(event: number): void {
    const { actions, addresses, sizes, streams, stacks, length } = this.#trace;
    const action = actions[event] as number;
    if (action < SEGMENT_ALLOC || action > SEGMENT_UNMAP) return;
    const address = addresses[event] as number;
    const size = sizes[event] as number;
    this.#close(event, address, address + size);
    if (action === SEGMENT_FREE || action === SEGMENT_UNMAP) return;
    const isExpandable = action === SEGMENT_MAP;
    const row = this.#add({
      address,
      size,
      stream: streams[event] as number,
      stack: stacks[event] as number,
      start: event,
      end: length,
      isExpandable,
      segmentType: segmentTypeOf(this.#index, { address, size, isExpandable }, this.#config),
      poolId: [0, 0],
    });
    this.#open.splice(this.#indexAfter(address), 0, row);
  }

  /** Number of the range that an address lies in now; -1: none. `finish` says which row it becomes. Logarithmic. */
  at(address: number): number {
    const row = this.#open[this.#indexAfter(address) - 1];
    return row !== undefined && address < endOf(this.#rows[row] as Row) ? row : -1;
  }

  /** After the last event what is reserved is what the segments say, whatever events say. Sorts the rows. */
  finish(): { readonly ranges: RangeLifetimes; readonly rowOf: Int32Array } {
    const last = Math.max(-1, this.#trace.length - 1);
    let from = 0;
    for (const { address, totalSize } of this.#final) {
      this.#close(last, from, address);
      from = address + totalSize;
      for (const gap of this.#gaps(address, from)) this.#addFinal(last, gap.start, gap.end);
    }
    this.#close(last, from, Number.POSITIVE_INFINITY);
    this.#nameAsFinal();
    return columnsOf(this.#rows);
  }

  #add(row: Row): number {
    return this.#rows.push(row) - 1;
  }

  /** What is still there: its segment says of which pool it is, and who made it. So it does for earlier stretches of an expandable one. */
  #nameAsFinal(): void {
    for (const row of this.#rows) {
      if (row.end < this.#trace.length && !row.isExpandable) continue;
      const segment = this.#finalAt(row.address);
      if (segment === undefined || segment.isExpandable !== row.isExpandable) continue;
      row.segmentType = segment.segmentType;
      row.poolId = segment.segmentPoolId;
      if (row.stack === EMPTY_STACK) row.stack = segment.stack;
    }
  }

  /** Memory that no event made: since when it is there is not known. */
  #addFinal(event: number, start: number, end: number): void {
    const segment = this.#finalAt(start);
    if (segment === undefined) return;
    const { stream, stack, segmentType, segmentPoolId: poolId, isExpandable } = segment;
    const row = {
      address: start,
      size: end - start,
      stream,
      stack,
      start: event,
      end: this.#trace.length,
      isExpandable,
      segmentType,
      poolId,
    };
    this.#open.splice(this.#indexAfter(start), 0, this.#add(row));
  }

  /** Ends what is reserved in a stretch; what sticks out of it goes on. */
  #close(event: number, start: number, end: number): void {
    let first = this.#indexAfter(start);
    if (first > 0 && endOf(this.#rows[this.#open[first - 1] as number] as Row) > start) first--;
    let after = first;
    while (after < this.#open.length && (this.#rows[this.#open[after] as number] as Row).address < end) after++;
    if (after === first) return;
    const rests: number[] = [];
    for (const number of this.#open.slice(first, after)) {
      const row = this.#rows[number] as Row;
      row.end = event;
      const rest = { ...row, start: event, end: this.#trace.length };
      if (row.address < start) rests.push(this.#add({ ...rest, size: start - row.address }));
      if (endOf(row) > end) rests.push(this.#add({ ...rest, address: end, size: endOf(row) - end }));
    }
    this.#open.splice(first, after - first, ...rests);
  }

  #gaps(start: number, end: number): { readonly start: number; readonly end: number }[] {
    const gaps: { start: number; end: number }[] = [];
    let from = start;
    let index = Math.max(0, this.#indexAfter(start) - 1);
    for (; index < this.#open.length; index++) {
      const row = this.#rows[this.#open[index] as number] as Row;
      if (row.address >= end) break;
      if (endOf(row) <= from) continue;
      if (row.address > from) gaps.push({ start: from, end: row.address });
      from = endOf(row);
    }
    if (from < end) gaps.push({ start: from, end });
    return gaps;
  }

  /** Index among the open ones of the first that starts above an address. */
  #indexAfter(address: number): number {
    let low = 0;
    let high = this.#open.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#rows[this.#open[middle] as number] as Row).address <= address) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #finalAt(address: number): SnapshotSegment | undefined {
    let low = 0;
    let high = this.#final.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#final[middle] as SnapshotSegment).address <= address) low = middle + 1;
      else high = middle;
    }
    const segment = this.#final[low - 1];
    return segment !== undefined && address < segment.address + segment.totalSize ? segment : undefined;
  }
}

function endOf({ address, size }: Row): number {
  return address + size;
}

/** Rows by their start, then by address; `rowOf` says where each number that `at` gave has gone, -1: it never was at any event. */
function columnsOf(rows: readonly Row[]): { readonly ranges: RangeLifetimes; readonly rowOf: Int32Array } {
  const order = [...rows.keys()].filter((number) => (rows[number] as Row).start < (rows[number] as Row).end);
  order.sort(
    (a, b) => (rows[a] as Row).start - (rows[b] as Row).start || (rows[a] as Row).address - (rows[b] as Row).address,
  );
  const rowOf = new Int32Array(rows.length).fill(-1);
  order.forEach((number, row) => {
    rowOf[number] = row;
  });
  const sorted = order.map((number) => rows[number] as Row);
  const pools: RangePool[] = [];
  const numbers = new Map<string, number>();
  const poolOf = Uint16Array.from(sorted, ({ segmentType, poolId }) => {
    const key = `${segmentType} ${poolId.join()}`;
    const known = numbers.get(key) ?? pools.push({ segmentType, poolId }) - 1;
    numbers.set(key, known);
    return known;
  });
  const ranges = {
    length: sorted.length,
    addresses: Float64Array.from(sorted, ({ address }) => address),
    sizes: Float64Array.from(sorted, ({ size }) => size),
    streams: Float64Array.from(sorted, ({ stream }) => stream),
    stacks: Uint32Array.from(sorted, ({ stack }) => stack),
    starts: Int32Array.from(sorted, ({ start }) => start),
    ends: Int32Array.from(sorted, ({ end }) => end),
    expandable: Uint8Array.from(sorted, ({ isExpandable }) => Number(isExpandable)),
    poolOf,
    pools,
  };
  return { ranges, rowOf };
}

// When each block and each piece of memory from the driver began and ended: a recording as two tables, from which the state after any event
// can be read without undoing or repeating events. Must not know what is shown of it.

import { type Config, DEFAULT_CONFIG } from '../../allocator/config.js';
import {
  ALLOC,
  type DeviceTrace,
  DeviceTraceBuilder,
  EMPTY_STACK,
  FREE_COMPLETED,
  FREE_REQUESTED,
  type Snapshot,
  type SnapshotBlock,
  type SnapshotSegment,
} from '../../snapshot/model.js';
import { AddressIndex } from './address-index.js';
import { blockSizes } from './block-sizes.js';
import { type RangeLifetimes, RangeTable } from './range-lifetimes.js';
import { type StartState, stateBefore } from './start-state.js';

/** Rows in the order of `starts`; those from before the recording first, by address. Columns are indexed by row. */
export interface BlockLifetimes {
  readonly length: number;
  readonly addresses: Float64Array;
  /** Bytes of the block, an unsplit rest included. */
  readonly sizes: Float64Array;
  readonly requested: Float64Array;
  readonly streams: Float64Array;
  /** Numbers in the snapshot's stack table; EMPTY_STACK where not known. */
  readonly stacks: Uint32Array;
  /** Event that allocated it; -1: it was there before the recording. */
  readonly starts: Int32Array;
  /** Event that requested its free; -1: one before the recording; number of events: never. Allocated after e: starts <= e < freed. */
  readonly freed: Int32Array;
  /** Event that completed its free; number of events: never. Pending after e: freed <= e < ends. */
  readonly ends: Int32Array;
  /** Row of the range that it began in; -1: none is known. */
  readonly ranges: Int32Array;
}

export interface Lifetimes {
  readonly device: number;
  /** Number of events of the device. */
  readonly events: number;
  readonly blocks: BlockLifetimes;
  readonly ranges: RangeLifetimes;
  /** Bytes after event e at index e + 1; index 0: before the first event. */
  readonly allocated: Float64Array;
  readonly active: Float64Array;
  readonly reserved: Float64Array;
}

/** Linear in events and blocks, times the logarithm of segments. */
export function lifetimesOf(snapshot: Snapshot, device: number, config: Config = DEFAULT_CONFIG): Lifetimes {
  const trace = snapshot.deviceTraces[device] ?? new DeviceTraceBuilder(1).build();
  const events = trace.length;
  const final = snapshot.segments.filter((segment) => segment.device === device);
  const index = new AddressIndex(trace);
  const start = stateBefore(0, snapshot, device, config, index);
  const rangeTable = new RangeTable(trace, { start: start.segments, final, config, index });
  const blockTable = new BlockTable(trace, start, rangeTable, blockSizes(snapshot, device, config, start.segments));
  for (let event = 0; event < events; event++) {
    rangeTable.take(event);
    blockTable.take(event);
  }
  const { ranges, rowOf } = rangeTable.finish();
  const blocks = blockTable.finish(final, rowOf);
  return {
    device,
    events,
    blocks,
    ranges,
    allocated: along(events, blocks, blocks.freed),
    active: along(events, blocks, blocks.ends),
    reserved: along(events, ranges, ranges.ends),
  };
}

class BlockTable {
  readonly #trace: DeviceTrace;
  readonly #ranges: RangeTable;
  readonly #sizes: Float64Array;
  readonly #blocks: { -readonly [K in keyof BlockLifetimes]: BlockLifetimes[K] };
  /** Row of each block in use, by address. */
  readonly #open = new Map<number, number>();

  /** @param sizes of the block of each event */
  constructor(trace: DeviceTrace, start: StartState, ranges: RangeTable, sizes: Float64Array) {
    this.#trace = trace;
    this.#ranges = ranges;
    this.#sizes = sizes;
    let allocations = 0;
    for (let event = 0; event < trace.length; event++) if (trace.actions[event] === ALLOC) allocations++;
    const rows = start.liveWithoutEvent + allocations;
    this.#blocks = {
      length: 0,
      addresses: new Float64Array(rows),
      sizes: new Float64Array(rows),
      requested: new Float64Array(rows),
      streams: new Float64Array(rows),
      stacks: new Uint32Array(rows),
      starts: new Int32Array(rows),
      freed: new Int32Array(rows).fill(trace.length),
      ends: new Int32Array(rows).fill(trace.length),
      ranges: new Int32Array(rows),
    };
    for (const { blocks, stream } of start.segments) {
      for (const { address, size, requested, stack, state } of blocks) {
        const row = this.#add(-1, { address, size, requested, stream, stack });
        // Its free was requested before the first event.
        if (state === 'active_pending_free') this.#blocks.freed[row] = -1;
      }
    }
  }

  /** The ranges must have taken it in before. */
  take(event: number): void {
    const { actions, addresses, sizes, streams, stacks } = this.#trace;
    const address = addresses[event] as number;
    switch (actions[event]) {
      case ALLOC: {
        const before = this.#open.get(address);
        // Its free was not recorded.
        if (before !== undefined) this.#close(before, event);
        this.#add(event, {
          address,
          size: this.#sizes[event] as number,
          requested: sizes[event] as number,
          stream: streams[event] as number,
          stack: stacks[event] as number,
        });
        return;
      }
      case FREE_REQUESTED: {
        const row = this.#open.get(address);
        if (row !== undefined) this.#blocks.freed[row] = Math.min(this.#blocks.freed[row] as number, event);
        return;
      }
      case FREE_COMPLETED: {
        const row = this.#open.get(address);
        if (row === undefined) return;
        this.#close(row, event);
        this.#open.delete(address);
      }
    }
  }

  /** After the last event the state is that of the segments, whatever events say. Linear in their blocks. */
  finish(final: readonly SnapshotSegment[], rowOfRange: Int32Array): BlockLifetimes {
    const last = this.#trace.length - 1;
    const there = new Set<number>();
    const missing: (() => void)[] = [];
    const agree = (row: number, { size, state, stack }: SnapshotBlock): void => {
      const { sizes, freed, stacks } = this.#blocks;
      sizes[row] = size;
      // Programs may record stacks for what is in use and none for events.
      if (stack !== EMPTY_STACK) stacks[row] = stack;
      freed[row] = state === 'active_allocated' ? last + 1 : Math.min(freed[row] as number, last);
    };
    for (const { stream, blocks } of final) {
      for (const block of blocks) {
        if (block.state === 'inactive') continue;
        const { address, size, stack, requestedSize: requested } = block;
        const row = this.#open.get(address);
        there.add(address);
        if (row !== undefined) agree(row, block);
        else missing.push(() => agree(this.#add(last, { address, size, requested, stream, stack }), block));
      }
    }
    for (const [address, row] of this.#open) if (!there.has(address)) this.#close(row, last);
    // No event says since when these are there.
    this.#grow(missing.length);
    for (const add of missing) add();
    const { ranges, length } = this.#blocks;
    for (let row = 0; row < length; row++) ranges[row] = rowOfRange[ranges[row] as number] ?? -1;
    return this.#blocks;
  }

  #grow(more: number): void {
    if (more === 0) return;
    const blocks = this.#blocks;
    const longer = <T extends Float64Array | Int32Array | Uint32Array>(column: T, rest: number): T => {
      const grown = new (column.constructor as new (length: number) => T)(column.length + more);
      grown.set(column);
      return grown.fill(rest, column.length) as T;
    };
    blocks.addresses = longer(blocks.addresses, 0);
    blocks.sizes = longer(blocks.sizes, 0);
    blocks.requested = longer(blocks.requested, 0);
    blocks.streams = longer(blocks.streams, 0);
    blocks.stacks = longer(blocks.stacks, 0);
    blocks.starts = longer(blocks.starts, 0);
    blocks.freed = longer(blocks.freed, this.#trace.length);
    blocks.ends = longer(blocks.ends, this.#trace.length);
    blocks.ranges = longer(blocks.ranges, 0);
  }

  #close(row: number, event: number): void {
    const { freed, ends } = this.#blocks;
    freed[row] = Math.min(freed[row] as number, event);
    ends[row] = event;
  }

  #add(
    event: number,
    block: {
      readonly address: number;
      readonly size: number;
      readonly requested: number;
      readonly stream: number;
      readonly stack: number;
    },
  ): number {
    const blocks = this.#blocks;
    const row = blocks.length++;
    blocks.addresses[row] = block.address;
    blocks.sizes[row] = block.size;
    blocks.requested[row] = block.requested;
    blocks.streams[row] = block.stream;
    blocks.stacks[row] = block.stack;
    blocks.starts[row] = event;
    blocks.ranges[row] = this.#ranges.at(block.address);
    this.#open.set(block.address, row);
    return row;
  }
}

/** Bytes of the rows that have begun and not ended, by event + 1. */
function along(
  events: number,
  { length, sizes, starts }: { readonly length: number; readonly sizes: Float64Array; readonly starts: Int32Array },
  ends: Int32Array,
): Float64Array {
  const bytes = new Float64Array(events + 1);
  for (let row = 0; row < length; row++) {
    const size = sizes[row] as number;
    const [start, end] = [(starts[row] as number) + 1, (ends[row] as number) + 1];
    if (start >= end) continue;
    bytes[start] = (bytes[start] as number) + size;
    if (end <= events) bytes[end] = (bytes[end] as number) - size;
  }
  for (let i = 1; i <= events; i++) bytes[i] = (bytes[i] as number) + (bytes[i - 1] as number);
  return bytes;
}

/** Rows of the blocks allocated or pending after an event, by address. Linear in rows, and sorts those. */
export function blocksAfter({ blocks }: Lifetimes, event: number): Uint32Array {
  return rowsAfter(blocks, blocks.ends, event);
}

/** Rows of the ranges reserved after an event, by address. Linear in rows, and sorts those. */
export function rangesAfter({ ranges }: Lifetimes, event: number): Uint32Array {
  return rowsAfter(ranges, ranges.ends, event);
}

function rowsAfter(
  {
    length,
    starts,
    addresses,
  }: { readonly length: number; readonly starts: Int32Array; readonly addresses: Float64Array },
  ends: Int32Array,
  event: number,
): Uint32Array {
  let count = 0;
  for (let row = 0; row < length && (starts[row] as number) <= event; row++) if ((ends[row] as number) > event) count++;
  const rows = new Uint32Array(count);
  let at = 0;
  for (let row = 0; at < count; row++) if ((ends[row] as number) > event) rows[at++] = row;
  return rows.sort((a, b) => (addresses[a] as number) - (addresses[b] as number));
}

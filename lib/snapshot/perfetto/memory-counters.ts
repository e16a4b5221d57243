// How many bytes a device had reserved, allocated and active at each event of its recording. Must not know where that is shown.

import {
  ALLOC,
  type DeviceTrace,
  FREE_COMPLETED,
  FREE_REQUESTED,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
  type SnapshotSegment,
} from '../model.js';

/** Sizes of blocks are multiples of this. */
const BLOCK_BYTES = 512;

/**
 * Counts from the state before the first event to that of the snapshot. A recording does not have the size that a block took, only what
 * was asked for: that is counted rounded to 512 bytes, and for blocks that are there at the end their exact size. So the last figures are
 * those of the snapshot, and earlier ones may lack the unsplit rests of large blocks.
 */
export class MemoryCounters {
  readonly #trace: DeviceTrace;
  /** Exact bytes of blocks that are there at the end, by the event that allocated them. */
  readonly #exactBytes: ReadonlyMap<number, number>;
  readonly #bytesAt = new Map<number, number>();
  reserved = 0;
  allocated = 0;
  active = 0;

  /** Linear in events and blocks. @param segments those of the device. */
  constructor(trace: DeviceTrace, segments: readonly SnapshotSegment[]) {
    this.#trace = trace;
    this.#exactBytes = exactBytes(trace, segments);
    for (let event = 0; event < trace.length; event++) this.take(event);
    const { reserved, allocated, active } = this;
    const sum = (pick: (segment: SnapshotSegment) => number): number =>
      segments.reduce((total, segment) => total + pick(segment), 0);
    this.reserved = sum(({ totalSize }) => totalSize) - reserved;
    this.allocated = sum(({ allocatedSize }) => allocatedSize) - allocated;
    this.active = sum(({ activeSize }) => activeSize) - active;
    this.#bytesAt.clear();
  }

  /** Counts an event. They must come in order. */
  take(event: number): void {
    const address = this.#trace.addresses[event] as number;
    const size = this.#trace.sizes[event] as number;
    switch (this.#trace.actions[event]) {
      case ALLOC: {
        const bytes = this.#exactBytes.get(event) ?? rounded(size);
        this.#bytesAt.set(address, bytes);
        this.allocated += bytes;
        this.active += bytes;
        return;
      }
      case FREE_REQUESTED:
        this.allocated -= this.#bytesAt.get(address) ?? rounded(size);
        return;
      case FREE_COMPLETED:
        this.active -= this.#bytesAt.get(address) ?? rounded(size);
        this.#bytesAt.delete(address);
        return;
      case SEGMENT_ALLOC:
      case SEGMENT_MAP:
        this.reserved += size;
        return;
      case SEGMENT_FREE:
      case SEGMENT_UNMAP:
        this.reserved -= size;
    }
  }
}

function rounded(size: number): number {
  return Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
}

function exactBytes(trace: DeviceTrace, segments: readonly SnapshotSegment[]): ReadonlyMap<number, number> {
  const eventAt = new Map<number, number>();
  for (let event = 0; event < trace.length; event++) {
    const address = trace.addresses[event] as number;
    if (trace.actions[event] === ALLOC) eventAt.set(address, event);
    else if (trace.actions[event] === FREE_COMPLETED) eventAt.delete(address);
  }
  const exact = new Map<number, number>();
  for (const { address, size, state } of segments.flatMap(({ blocks }) => blocks)) {
    const event = eventAt.get(address);
    if (state !== 'inactive' && event !== undefined) exact.set(event, size);
  }
  return exact;
}

// Ties the segments of a replay to those of a recording: a new segment lies where the recorded one that the same request made lies, so
// that the order of segments is that of the recorded addresses. Only segments get an address from the recording; where a block goes is
// the allocator's own decision. Must not know how the replay is run.

import { UNIT } from '../allocator/block.js';
import type { SegmentOrder } from '../allocator/heap.js';
import { type DeviceTrace, SEGMENT_ALLOC, SEGMENT_MAP } from '../snapshot/model.js';

/** Segments that the recording does not have come after all that it has. */
const BEYOND = 2 ** 40;

export interface RestoredPlace {
  readonly address: number;
  readonly size: number;
}

export class RecordedPlaces {
  readonly #trace: DeviceTrace;
  /** Recorded stream of a stream's id. */
  readonly #streamOf: (id: number) => number;
  /** Recorded start of each segment, by creation number; null: the recording has none such. */
  readonly #bases: (number | null)[] = [];
  readonly #restored: readonly number[];
  /** Recorded events that made plain segments and have not been met yet. */
  readonly #unmet: number[] = [];
  /** Recorded events that mapped memory for the present request. */
  #maps: number[] = [];
  /** The first event that has not been looked at. */
  #next = 0;
  readonly #origin: number;

  /** @param restored starts of the segments that are there already, in the order in which they are restored. */
  constructor(trace: DeviceTrace, restored: readonly number[], streamOf: (id: number) => number) {
    this.#trace = trace;
    this.#restored = restored;
    this.#streamOf = streamOf;
    this.#origin = restored.reduce((least, address) => Math.min(least, address), firstAddress(trace));
  }

  /** The replay is about to repeat this event: segments made up to it can be met. */
  advance(event: number): void {
    if (this.#next <= event) this.#maps = [];
    for (; this.#next <= event; this.#next++) {
      const action = this.#trace.actions[this.#next];
      if (action === SEGMENT_ALLOC) this.#unmet.push(this.#next);
      else if (action === SEGMENT_MAP) this.#maps.push(this.#next);
    }
  }

  readonly order: SegmentOrder = ({ sequence, size, stream, isExpandable }) => {
    const base = this.#restored[sequence] ?? this.#meet(size, this.#streamOf(stream.id), isExpandable);
    this.#bases[sequence] = base;
    return base === null ? BEYOND + sequence : (base - this.#origin) / UNIT;
  };

  /** The recorded address that corresponds to a place of the replay; null in a segment that the recording does not have. */
  addressOf(range: number, offset: number): number | null {
    const base = this.#bases[range] ?? null;
    return base === null ? null : base + offset;
  }

  #meet(size: number, stream: number, isExpandable: boolean): number | null {
    const { streams, sizes, addresses } = this.#trace;
    // The size of a range is not recorded; where it starts is where its first pages are mapped.
    const candidates = isExpandable ? this.#maps : this.#unmet;
    const at = candidates.findIndex((event) => streams[event] === stream && (isExpandable || sizes[event] === size));
    if (at === -1) return null;
    const [event] = candidates.splice(at, 1) as [number];
    return addresses[event] as number;
  }
}

function firstAddress(trace: DeviceTrace): number {
  let first = Number.POSITIVE_INFINITY;
  for (let event = 0; event < trace.length; event++) {
    const action = trace.actions[event];
    if (action === SEGMENT_ALLOC || action === SEGMENT_MAP) first = Math.min(first, trace.addresses[event] as number);
  }
  return first === Number.POSITIVE_INFINITY ? 0 : first;
}

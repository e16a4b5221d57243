// Ties the segments of a replay to those of a recording: a new segment lies where the recorded one that the same request made lies, so
// that the order of segments is that of the recorded addresses. Only segments get an address from the recording; where a block goes is
// the allocator's own decision. Must not know how the replay is run.

import { UNIT } from '../../allocator/block.js';
import type { Config } from '../../allocator/config.js';
import type { SegmentOrder } from '../../allocator/heap.js';
import { type DeviceTrace, SEGMENT_ALLOC, SEGMENT_MAP } from '../../snapshot/model.js';
import { AddressIndex } from './address-index.js';
import { segmentTypeOf } from './segment-type.js';

/** Segments that the recording does not have come after all that it has. */
const BEYOND = 2 ** 40;

export class RecordedPlaces {
  readonly #trace: DeviceTrace;
  /** Recorded stream of a stream's id. */
  readonly #streamOf: (id: number) => number;
  /** Recorded start of each segment, by creation number; null: the recording has none such. */
  readonly #bases: (number | null)[] = [];
  readonly #restored: readonly number[];
  /** Recorded events that made plain segments and have not been met yet. */
  readonly #unmet: number[] = [];
  readonly #index: AddressIndex;
  readonly #config: Config;
  /** The first event of the present request, and the first that has not been looked at. */
  #since = 0;
  #next = 0;
  readonly #origin: number;

  /** @param restored starts of the segments that are there already, in the order in which they are restored. */
  constructor(
    trace: DeviceTrace,
    restored: readonly number[],
    options: { readonly streamOf: (id: number) => number; readonly config: Config },
  ) {
    this.#trace = trace;
    this.#index = new AddressIndex(trace);
    this.#restored = restored;
    this.#streamOf = options.streamOf;
    this.#config = options.config;
    this.#origin = restored.reduce((least, address) => Math.min(least, address), firstAddress(trace));
  }

  /** The replay is about to repeat this event: segments made up to it can be met. */
  advance(event: number): void {
    if (this.#next <= event) this.#since = this.#next;
    for (; this.#next <= event; this.#next++) {
      if (this.#trace.actions[this.#next] === SEGMENT_ALLOC) this.#unmet.push(this.#next);
    }
  }

  readonly order: SegmentOrder = (segment) => {
    const stream = this.#streamOf(segment.stream.id);
    const base =
      this.#restored[segment.sequence] ??
      (segment.isExpandable ? this.#rangeStart(stream, segment.segmentType) : this.#segmentStart(stream, segment.size));
    this.#bases[segment.sequence] = base;
    return base === null ? BEYOND + segment.sequence : (base - this.#origin) / UNIT;
  };

  /** The recorded address that corresponds to a place of the replay; null in a segment that the recording does not have. */
  addressOf(range: number, offset: number): number | null {
    const base = this.#bases[range] ?? null;
    return base === null ? null : base + offset;
  }

  #segmentStart(stream: number, size: number): number | null {
    const { streams, sizes, addresses } = this.#trace;
    const at = this.#unmet.findIndex((event) => streams[event] === stream && sizes[event] === size);
    if (at === -1) return null;
    const [event] = this.#unmet.splice(at, 1) as [number];
    return addresses[event] as number;
  }

  /**
   * A reservation is not recorded; it starts where the first of its pages are mapped, by the request that made it, or by a later one where
   * that failed.
   */
  #rangeStart(stream: number, type: 'small' | 'large'): number | null {
    const { actions, streams, sizes, addresses, length } = this.#trace;
    for (let event = this.#since; event < length; event++) {
      if (actions[event] !== SEGMENT_MAP || streams[event] !== stream) continue;
      const stretch = { address: addresses[event] as number, size: sizes[event] as number, isExpandable: true };
      if (segmentTypeOf(this.#index, stretch, this.#config) === type) return stretch.address;
    }
    return null;
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

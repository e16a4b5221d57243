// The recorded events of one device, in columns: a million of them take tens of megabytes and no object each. Must not know where
// they come from.

import type { Frame, StackTable } from './stacks.js';
import type { PyValue } from './values.js';

/** What happened, in PyTorch's words. The positions are the codes in `DeviceTrace.actions`. */
export const ACTIONS = [
  'alloc',
  'free_requested',
  'free_completed',
  'segment_alloc',
  'segment_free',
  'segment_map',
  'segment_unmap',
  'oom',
  'snapshot',
] as const;

export type Action = (typeof ACTIONS)[number];

/** Codes of the actions: positions in ACTIONS. */
export const ALLOC = 0;
export const FREE_REQUESTED = 1;
export const FREE_COMPLETED = 2;
export const SEGMENT_ALLOC = 3;
export const SEGMENT_FREE = 4;
export const SEGMENT_MAP = 5;
export const SEGMENT_UNMAP = 6;
export const OOM = 7;
export const SNAPSHOT = 8;

/** One event as an object. */
export interface TraceEntry {
  /** One of ACTIONS, or a later PyTorch's word. */
  readonly action: string;
  /** For `oom`: the free bytes that the device reported. */
  readonly address: number;
  /** Requested bytes for `alloc` and the frees, bytes from the driver for segments, rounded request for `oom`, allocated bytes for `snapshot`. */
  readonly size: number;
  readonly stream: number;
  /** Microseconds since the epoch; null where it was not recorded. */
  readonly timeUs: number | null;
  readonly frames: readonly Frame[];
}

/** Values of a key that not every file has, as codes into a table; code 0: the event has no such key. */
export interface ExtraColumn {
  readonly codes: Uint32Array;
  readonly values: readonly PyValue[];
}

/** Keys of an event in the order in which PyTorch writes them today. */
export const EVENT_LAYOUT: readonly string[] = ['action', 'addr', 'size', 'stream', 'time_us', 'frames'];

/** Columns are indexed by event, oldest first. They may be longer than `length`. */
export class DeviceTrace {
  readonly length: number;
  /** Positions in `actionNames`, whose first are ACTIONS. */
  readonly actions: Uint8Array;
  readonly actionNames: readonly string[];
  readonly addresses: Float64Array;
  readonly sizes: Float64Array;
  readonly streams: Float64Array;
  /** Microseconds since the epoch; NaN where the event has none. */
  readonly times: Float64Array;
  /** Numbers in the snapshot's stack table. */
  readonly stacks: Uint32Array;
  /** Other keys than those above, by name. */
  readonly extras: ReadonlyMap<string, ExtraColumn>;
  /** Values of the known keys that do not fit their column (a size beyond 2^53, say), by event and key. */
  readonly odd: ReadonlyMap<number, ReadonlyMap<string, PyValue>>;
  /** The different rows of keys that events have, as read. */
  readonly layouts: readonly (readonly string[])[];
  /** Position in `layouts` by event; null when there is only one. */
  readonly layoutOf: Uint16Array | null;

  constructor(columns: Columns) {
    this.length = columns.length;
    this.actions = columns.actions;
    this.actionNames = columns.actionNames;
    this.addresses = columns.addresses;
    this.sizes = columns.sizes;
    this.streams = columns.streams;
    this.times = columns.times;
    this.stacks = columns.stacks;
    this.extras = columns.extras;
    this.odd = columns.odd;
    this.layouts = columns.layouts;
    this.layoutOf = columns.layoutOf;
  }

  /** One event as an object. Constant. @throws RangeError */
  entry(event: number, stacks: StackTable): TraceEntry {
    if (!(event >= 0 && event < this.length)) throw new RangeError(`there is no event ${event}`);
    const time = this.times[event] as number;
    return {
      action: this.actionNames[this.actions[event] as number] as string,
      address: this.addresses[event] as number,
      size: this.sizes[event] as number,
      stream: this.streams[event] as number,
      timeUs: Number.isNaN(time) ? null : time,
      frames: stacks.frames(this.stacks[event] as number),
    };
  }

  /** The events from `from` up to before `to`, over the same memory. Constant, but linear in the odd values. */
  slice(from: number, to: number): DeviceTrace {
    return new DeviceTrace({
      length: to - from,
      actions: this.actions.subarray(from, to),
      actionNames: this.actionNames,
      addresses: this.addresses.subarray(from, to),
      sizes: this.sizes.subarray(from, to),
      streams: this.streams.subarray(from, to),
      times: this.times.subarray(from, to),
      stacks: this.stacks.subarray(from, to),
      extras: new Map(
        [...this.extras].map(([key, { codes, values }]) => [key, { codes: codes.subarray(from, to), values }]),
      ),
      odd: new Map(
        [...this.odd].filter(([event]) => event >= from && event < to).map(([event, values]) => [event - from, values]),
      ),
      layouts: this.layouts,
      layoutOf: this.layoutOf?.subarray(from, to) ?? null,
    });
  }

  /** All events as objects. Linear; for small traces. */
  entries(stacks: StackTable): TraceEntry[] {
    return Array.from({ length: this.length }, (_, event) => this.entry(event, stacks));
  }
}

type Columns = { readonly [K in Exclude<keyof DeviceTrace, 'entry' | 'slice' | 'entries'>]: DeviceTrace[K] };

const FIRST_CAPACITY = 1024;

/** Collects events. */
export class DeviceTraceBuilder {
  length = 0;
  #capacity: number;
  #actions: Uint8Array<ArrayBuffer>;
  #addresses: Float64Array<ArrayBuffer>;
  #sizes: Float64Array<ArrayBuffer>;
  #streams: Float64Array<ArrayBuffer>;
  #times: Float64Array<ArrayBuffer>;
  #stacks: Uint32Array<ArrayBuffer>;
  #layoutOf: Uint16Array<ArrayBuffer> | null = null;
  readonly #actionNames: string[] = [...ACTIONS];
  readonly #actionCodes = new Map<string, number>(ACTIONS.map((name, code) => [name, code]));
  readonly #layouts: (readonly string[])[] = [];
  readonly #extras = new Map<
    string,
    { codes: Uint32Array<ArrayBuffer>; values: PyValue[]; known: Map<PyValue, number>; last: number }
  >();
  readonly #odd = new Map<number, Map<string, PyValue>>();

  /** @param expected how many events will come, where that is known; it saves growing. */
  constructor(expected = FIRST_CAPACITY) {
    this.#capacity = Math.max(1, expected);
    this.#actions = new Uint8Array(this.#capacity);
    this.#addresses = new Float64Array(this.#capacity);
    this.#sizes = new Float64Array(this.#capacity);
    this.#streams = new Float64Array(this.#capacity);
    this.#times = new Float64Array(this.#capacity);
    this.#stacks = new Uint32Array(this.#capacity);
  }

  /** Code of an action's name; a new one is added. @throws RangeError beyond 256 different ones */
  actionCode(name: string): number {
    const known = this.#actionCodes.get(name);
    if (known !== undefined) return known;
    const code = this.#actionNames.length;
    if (code > 255) throw new RangeError('more than 256 different actions');
    this.#actionNames.push(name);
    this.#actionCodes.set(name, code);
    return code;
  }

  /** Adds an event; returns its number. @param timeUs NaN where it has none. Constant, amortised. */
  push(action: number, address: number, size: number, stream: number, timeUs: number, stack: number): number {
    const at = this.length;
    if (at === this.#capacity) this.#grow();
    this.#actions[at] = action;
    this.#addresses[at] = address;
    this.#sizes[at] = size;
    this.#streams[at] = stream;
    this.#times[at] = timeUs;
    this.#stacks[at] = stack;
    return this.length++;
  }

  /** Number of a row of keys, to be given to `setLayout`; compared by content. */
  layout(keys: readonly string[]): number {
    const found = this.#layouts.findIndex(
      (known) => known.length === keys.length && known.every((key, i) => key === keys[i]),
    );
    if (found !== -1) return found;
    if (this.#layouts.length > 0xffff) throw new RangeError('more than 65,536 different rows of keys');
    return this.#layouts.push(keys) - 1;
  }

  /** Says which keys an event has; without it, the first row that was named. */
  setLayout(event: number, layout: number): void {
    if (layout === 0 && this.#layoutOf === null) return;
    this.#layoutOf ??= new Uint16Array(this.#capacity);
    this.#layoutOf[event] = layout;
  }

  /** Sets the value of another key. Equal strings and numbers are stored once. */
  setExtra(event: number, key: string, value: PyValue): void {
    let column = this.#extras.get(key);
    if (column === undefined) {
      column = { codes: new Uint32Array(this.#capacity), values: [null], known: new Map(), last: 0 };
      this.#extras.set(key, column);
    }
    // Most events have the value of the one before.
    if (column.last === 0 || column.values[column.last] !== value) {
      const known = column.known.get(value);
      column.last = known ?? column.values.push(value) - 1;
      if (known === undefined) column.known.set(value, column.last);
    }
    column.codes[event] = column.last;
  }

  /** Keeps a value of a known key that does not fit its column. */
  setOdd(event: number, key: string, value: PyValue): void {
    const values = this.#odd.get(event) ?? new Map<string, PyValue>();
    values.set(key, value);
    this.#odd.set(event, values);
  }

  /** The events so far, over the builder's own memory: no event may be added to it while that is used. Constant. */
  build(): DeviceTrace {
    return new DeviceTrace({
      length: this.length,
      actions: this.#actions,
      actionNames: this.#actionNames,
      addresses: this.#addresses,
      sizes: this.#sizes,
      streams: this.#streams,
      times: this.#times,
      stacks: this.#stacks,
      extras: new Map([...this.#extras].map(([key, { codes, values }]) => [key, { codes, values }])),
      odd: this.#odd,
      layouts: this.#layouts.length === 0 ? [EVENT_LAYOUT] : this.#layouts,
      layoutOf: this.#layoutOf,
    });
  }

  #grow(): void {
    this.#capacity = Math.ceil(this.#capacity * 1.5) + 16;
    const grow = <T extends Uint8Array | Uint16Array | Uint32Array | Float64Array>(from: T, to: T): T => {
      to.set(from);
      return to;
    };
    this.#actions = grow(this.#actions, new Uint8Array(this.#capacity));
    this.#addresses = grow(this.#addresses, new Float64Array(this.#capacity));
    this.#sizes = grow(this.#sizes, new Float64Array(this.#capacity));
    this.#streams = grow(this.#streams, new Float64Array(this.#capacity));
    this.#times = grow(this.#times, new Float64Array(this.#capacity));
    this.#stacks = grow(this.#stacks, new Uint32Array(this.#capacity));
    if (this.#layoutOf !== null) this.#layoutOf = grow(this.#layoutOf, new Uint16Array(this.#capacity));
    for (const column of this.#extras.values()) column.codes = grow(column.codes, new Uint32Array(this.#capacity));
  }
}

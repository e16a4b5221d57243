// The history of an allocator: a bounded ring of events in columns, so that recording costs no objects. Must not know why it is kept.

import { ConfigError } from '../errors.js';
import {
  ACTIONS,
  type Action,
  DeviceTraceBuilder,
  type Frame,
  type StackTable,
  type TraceEntry,
} from '../snapshot/model.js';
import { StackRecorder } from './stack.js';

/** Codes of the actions. */
export {
  ALLOC as RECORD_ALLOC,
  FREE_COMPLETED as RECORD_FREE_COMPLETED,
  FREE_REQUESTED as RECORD_FREE_REQUESTED,
  OOM as RECORD_OOM,
  SEGMENT_ALLOC as RECORD_SEGMENT_ALLOC,
  SEGMENT_FREE as RECORD_SEGMENT_FREE,
  SEGMENT_MAP as RECORD_SEGMENT_MAP,
  SEGMENT_UNMAP as RECORD_SEGMENT_UNMAP,
} from '../snapshot/model.js';

export interface HistoryOptions {
  /** Entries kept, the newest. Default 100,000; Infinity keeps all. */
  readonly maxEntries?: number;
  /**
   * Record the JavaScript stack of every entry, up to `Error.stackTraceLimit` frames of the caller's. Costs microseconds each. Default
   * false.
   */
  readonly stacks?: boolean;
}

/** An event, and where it happened whatever the addresses are. */
export interface HistoryEntry extends TraceEntry {
  readonly action: Action;
  readonly timeUs: number;
  /** Number of the range (one `cudaMalloc` or one address reservation) in the order of creation; -1 for `oom` and `snapshot`. */
  readonly segment: number;
  /** Start within that range. */
  readonly offset: number;
}

const FIRST_CAPACITY = 1024;
const NO_FRAMES: readonly Frame[] = [];

export class MemoryHistory {
  readonly maxEntries: number;
  readonly stacks: boolean;
  readonly #recorder = new StackRecorder();
  #capacity: number;
  #total = 0;
  #next = 0;
  #actions: Uint8Array;
  #addresses: Float64Array;
  #sizes: Float64Array;
  #streams: Int32Array;
  #segments: Int32Array;
  #offsets: Float64Array;
  #times: Float64Array;
  /** Empty unless stacks are recorded. */
  #frames: (readonly Frame[])[] = [];

  constructor(options: HistoryOptions = {}) {
    this.maxEntries = options.maxEntries ?? 100_000;
    if (!(this.maxEntries >= 1) || this.maxEntries !== Math.floor(this.maxEntries)) {
      throw new ConfigError(`maxEntries is ${this.maxEntries}; accepted is a whole number from 1 on, or Infinity`, {
        key: 'maxEntries',
        value: String(this.maxEntries),
      });
    }
    this.stacks = options.stacks ?? false;
    if (typeof this.stacks !== 'boolean') {
      throw new ConfigError(`stacks is ${String(this.stacks)}; accepted is true or false`, {
        key: 'stacks',
        value: String(this.stacks),
      });
    }
    this.#capacity = Math.min(this.maxEntries, FIRST_CAPACITY);
    this.#actions = new Uint8Array(this.#capacity);
    this.#addresses = new Float64Array(this.#capacity);
    this.#sizes = new Float64Array(this.#capacity);
    this.#streams = new Int32Array(this.#capacity);
    this.#segments = new Int32Array(this.#capacity);
    this.#offsets = new Float64Array(this.#capacity);
    this.#times = new Float64Array(this.#capacity);
  }

  /** Entries ever recorded; those with an index below `total - length` are gone. */
  get total(): number {
    return this.#total;
  }

  /** Entries still there. */
  get length(): number {
    return Math.min(this.#total, this.maxEntries);
  }

  /** The stack of the caller for an entry; null when none are recorded. */
  captureFrames(): readonly Frame[] | null {
    return this.stacks ? this.#recorder.capture() : null;
  }

  record(
    action: number,
    address: number,
    size: number,
    stream: number,
    segment: number,
    offset: number,
    timeUs: number,
    frames: readonly Frame[] | null,
  ): void {
    if (this.#next === this.#capacity) this.#wrapOrGrow();
    const at = this.#next++;
    this.#actions[at] = action;
    this.#addresses[at] = address;
    this.#sizes[at] = size;
    this.#streams[at] = stream;
    this.#segments[at] = segment;
    this.#offsets[at] = offset;
    this.#times[at] = timeUs;
    if (this.stacks) this.#frames[at] = frames ?? NO_FRAMES;
    this.#total++;
  }

  /**
   * The entry number `index`, counted from the first ever recorded. Constant.
   * @throws RangeError when it was never recorded or is gone
   */
  entry(index: number): HistoryEntry {
    if (!Number.isInteger(index) || index < this.#total - this.length || index >= this.#total) {
      throw new RangeError(`entry ${index} is not in the history (${this.#total - this.length} to ${this.#total - 1})`);
    }
    const at = index % this.maxEntries;
    return {
      action: ACTIONS[this.#actions[at] as number] as Action,
      address: this.#addresses[at] as number,
      size: this.#sizes[at] as number,
      stream: this.#streams[at] as number,
      segment: this.#segments[at] as number,
      offset: this.#offsets[at] as number,
      timeUs: this.#times[at] as number,
      frames: this.#frames[at] ?? NO_FRAMES,
    };
  }

  /** All entries still there, oldest first. Linear. */
  entries(): HistoryEntry[] {
    const oldest = this.#total - this.length;
    return Array.from({ length: this.length }, (_, i) => this.entry(oldest + i));
  }

  /** The events still there as a snapshot holds them, those before the entry number `end`; their stacks in `stacks`, times in whole microseconds. Linear. */
  toTrace(stacks: StackTable, end = this.#total): DeviceTraceBuilder {
    const trace = new DeviceTraceBuilder(this.length + 1);
    for (let index = this.#total - this.length; index < end; index++) {
      const at = index % this.maxEntries;
      trace.push(
        this.#actions[at] as number,
        this.#addresses[at] as number,
        this.#sizes[at] as number,
        this.#streams[at] as number,
        Math.trunc(this.#times[at] as number),
        stacks.internFrames(this.#frames[at] ?? NO_FRAMES),
      );
    }
    return trace;
  }

  #wrapOrGrow(): void {
    if (this.#capacity >= this.maxEntries) {
      this.#next = 0;
      return;
    }
    this.#capacity = Math.min(this.#capacity * 2, this.maxEntries);
    const grown = <T extends Uint8Array | Int32Array | Float64Array>(from: T, to: T): T => {
      to.set(from);
      return to;
    };
    this.#actions = grown(this.#actions, new Uint8Array(this.#capacity));
    this.#addresses = grown(this.#addresses, new Float64Array(this.#capacity));
    this.#sizes = grown(this.#sizes, new Float64Array(this.#capacity));
    this.#streams = grown(this.#streams, new Int32Array(this.#capacity));
    this.#segments = grown(this.#segments, new Int32Array(this.#capacity));
    this.#offsets = grown(this.#offsets, new Float64Array(this.#capacity));
    this.#times = grown(this.#times, new Float64Array(this.#capacity));
  }
}

// Carries out the operations of a trace on an allocator, one by one. Must not know what is recorded of it.

import { CachingAllocator } from '../../allocator/caching-allocator.js';
import type { SegmentOrder } from '../../allocator/heap.js';
import type { MemPool } from '../../allocator/mem-pool.js';
import type { PolicyName } from '../../allocator/policy.js';
import type { RestoredSegment } from '../../allocator/restore.js';
import type { Device, Stream } from '../../device/types.js';
import { UnsupportedError } from '../../errors.js';
import { formatOperation, type Trace, TraceOp } from '../../snapshot/trace.js';

/** What was there before the first operation of a trace. */
export interface Restoration {
  /** In the order in which they are made. */
  readonly segments: readonly RestorationSegment[];
  /** Called once for each segment, these first. */
  readonly segmentOrder: SegmentOrder;
}

/** A segment, with the number of its stream in the trace, that of its pool, and for each block its number among the allocations. */
export interface RestorationSegment extends Omit<RestoredSegment, 'stream' | 'blocks'> {
  readonly stream: number;
  readonly pool: number;
  readonly blocks: readonly (RestoredSegment['blocks'][number] & { readonly slot: number })[];
}

/** Which allocations are served from private pools. */
export interface PoolUse {
  /** How many pools there are, the default ones, number 0, included. */
  readonly pools: number;
  /** Number of the pool by number of the allocation. */
  readonly poolOf: Int32Array;
}

export interface TraceRunnerOptions {
  readonly device: Device;
  /** Settings string; none when left out (the environment is not asked). */
  readonly conf?: string;
  /** Default `pytorch`. */
  readonly policy?: PolicyName;
  /** What there is already; left out: nothing. */
  readonly restore?: Restoration;
  /** Left out: all are served from the default pools. */
  readonly poolUse?: PoolUse;
}

/** What the operations `b` and `c` answer. */
export type Answer = { readonly base: number; readonly size: number } | { readonly largestBlock: number };

/** The allocator, the streams and the live blocks of a trace under way. */
export class TraceRunner {
  readonly trace: Trace;
  readonly device: Device;
  readonly allocator: CachingAllocator;
  /** Address by number of the allocation (`trace.slots`); 0 when it is not live. */
  readonly addresses: Float64Array;
  readonly #streams = new Map<number, Stream>();
  readonly #numberOfStream = new Map<number, number>();
  #lastNumber = 0;
  #lastStream: Stream;
  /** By number; the default ones have no object. */
  readonly #pools: (MemPool | undefined)[] = [];
  readonly #poolOf: Int32Array | null;

  /**
   * Creates the trace's streams in the order of their numbers, so that the allocator orders them alike.
   * @throws UnsupportedError when the trace holds back events and the device cannot.
   */
  constructor(trace: Trace, options: TraceRunnerOptions) {
    this.trace = trace;
    this.device = options.device;
    if (this.device.mock === undefined) refuseEventOperations(trace, this.device);
    this.allocator = new CachingAllocator({
      device: this.device,
      conf: options.conf ?? '',
      policy: options.policy ?? 'pytorch',
      ...(options.restore !== undefined && { segmentOrder: options.restore.segmentOrder }),
    });
    this.addresses = new Float64Array(trace.allocations);
    this.#lastStream = this.device.defaultStream;
    for (const number of streamNumbers(trace)) {
      const stream = number === 0 ? this.device.defaultStream : this.device.createStream();
      this.#streams.set(number, stream);
      this.#numberOfStream.set(stream.id, number);
    }
    this.#poolOf = options.poolUse?.poolOf ?? null;
    for (let pool = 1; pool < (options.poolUse?.pools ?? 1); pool++) this.#pools[pool] = this.allocator.createMemPool();
    if (options.restore !== undefined) this.#restore(options.restore);
  }

  /** Carries out one operation. @throws what the allocator throws; the trace can go on with the next one. */
  apply(op: number): Answer | null {
    const { trace, allocator, addresses } = this;
    const slot = trace.slots[op] as number;
    switch (trace.codes[op]) {
      case TraceOp.Allocate:
        addresses[slot] = this.#allocate(slot, trace.values[op] as number, this.#streamOf(op));
        return null;
      case TraceOp.Free: {
        const address = this.addressAt(op);
        if (address === 0) return null;
        addresses[slot] = 0;
        allocator.free(address);
        return null;
      }
      case TraceOp.RecordStream: {
        const address = this.addressAt(op);
        if (address !== 0) allocator.recordStream(address, this.#streamOf(op));
        return null;
      }
      case TraceOp.BaseAllocation: {
        const address = this.addressAt(op);
        return address === 0 ? null : allocator.baseAllocation(address);
      }
      case TraceOp.CacheInfo:
        return allocator.cacheInfo();
      default:
        this.#applyControl(op);
        return null;
    }
  }

  /** Address of the block that an `f`, `r` or `b` is about; 0 when it is not live. */
  addressAt(op: number): number {
    const slot = this.trace.slots[op] ?? -1;
    return slot < 0 ? 0 : (this.addresses[slot] ?? 0);
  }

  /** The trace's number of a stream. */
  streamNumber(id: number): number {
    return this.#numberOfStream.get(id) ?? id;
  }

  /** Gives everything back to the device and destroys the streams. */
  close(): void {
    this.device.mock?.releaseEvents();
    this.allocator.close();
    for (const [number, stream] of this.#streams) if (number !== 0) stream.destroy();
  }

  #allocate(slot: number, bytes: number, stream: Stream): number {
    const pool = this.#poolOf === null ? undefined : this.#pools[this.#poolOf[slot] as number];
    if (pool === undefined) return this.allocator.malloc(bytes, stream);
    return this.allocator.withMemPool(pool, () => this.allocator.malloc(bytes, stream));
  }

  #restore({ segments }: Restoration): void {
    for (const { stream, pool, ...segment } of segments) {
      const at = this.#streams.get(stream) ?? this.device.defaultStream;
      const restored = this.allocator.restore({ ...segment, stream: at }, this.#pools[pool]);
      restored.forEach((address, i) => {
        this.addresses[segment.blocks[i]?.slot as number] = address;
      });
    }
    this.allocator.resetAccumulatedMemoryStats();
    this.allocator.resetPeakMemoryStats();
  }

  #applyControl(op: number): void {
    const { trace, allocator } = this;
    const { mock } = this.device;
    switch (trace.codes[op]) {
      case TraceOp.EmptyCache:
        return allocator.emptyCache();
      case TraceOp.HoldEvents:
        return mock?.holdEvents();
      case TraceOp.ReleaseEvents:
        return mock?.releaseEvents();
      case TraceOp.CompleteEvents:
        return (trace.streams[op] as number) < 0 ? mock?.completeEvents() : mock?.completeEvents(this.#streamOf(op));
      case TraceOp.MemoryFraction:
        return allocator.setPerProcessMemoryFraction(trace.values[op] as number);
      case TraceOp.Configure:
        return allocator.setConf(trace.texts.get(op) ?? '');
      case TraceOp.ResetPeak:
        return allocator.resetPeakMemoryStats();
      case TraceOp.ResetAccumulated:
        return allocator.resetAccumulatedMemoryStats();
    }
  }

  #streamOf(op: number): Stream {
    const number = this.trace.streams[op] as number;
    // Mostly the stream of the operation before.
    if (number !== this.#lastNumber) {
      this.#lastNumber = number;
      this.#lastStream = this.#streams.get(number) as Stream;
    }
    return this.#lastStream;
  }
}

function streamNumbers(trace: Trace): number[] {
  const numbers = new Set(trace.streams);
  numbers.delete(-1);
  return [...numbers].sort((a, b) => a - b);
}

function refuseEventOperations(trace: Trace, device: Device): void {
  const held: ReadonlySet<number> = new Set([TraceOp.HoldEvents, TraceOp.ReleaseEvents, TraceOp.CompleteEvents]);
  const op = trace.codes.findIndex((code) => held.has(code));
  if (op < 0) return;
  throw new UnsupportedError(
    `operation ${op} of the trace ("${formatOperation(trace, op)}") decides when events complete, which ${device.name} ` +
      `(${device.backend}) does not allow; replay this trace on the simulated device or the mock`,
  );
}

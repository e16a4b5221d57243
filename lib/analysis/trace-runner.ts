// Carries out the operations of a trace on an allocator, one by one. Must not know what is recorded of it.

import { CachingAllocator } from '../allocator/caching-allocator.js';
import type { Device, Stream } from '../device/types.js';
import { UnsupportedError } from '../errors.js';
import { formatOperation, type Trace, TraceOp } from '../snapshot/trace.js';

export interface TraceRunnerOptions {
  readonly device: Device;
  /** Settings string; none when left out (the environment is not asked). */
  readonly conf?: string;
  /** Default `pytorch`. */
  readonly policy?: 'pytorch' | 'default';
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
    });
    this.addresses = new Float64Array(trace.allocations);
    this.#lastStream = this.device.defaultStream;
    for (const number of streamNumbers(trace)) {
      const stream = number === 0 ? this.device.defaultStream : this.device.createStream();
      this.#streams.set(number, stream);
      this.#numberOfStream.set(stream.id, number);
    }
  }

  /** Carries out one operation. @throws what the allocator throws; the trace can go on with the next one. */
  apply(op: number): Answer | null {
    const { trace, allocator, addresses } = this;
    const slot = trace.slots[op] as number;
    switch (trace.codes[op]) {
      case TraceOp.Allocate:
        addresses[slot] = allocator.malloc(trace.values[op] as number, this.#streamOf(op));
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

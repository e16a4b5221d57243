// The events of a snapshot as a trace of the requests that caused them, which an allocator can be given again. Must not know what is done
// with it.

import type { Config } from '../../allocator/config.js';
import {
  ALLOC,
  type DeviceTrace,
  EMPTY_STACK,
  FREE_COMPLETED,
  FREE_REQUESTED,
  OOM,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
  type Snapshot,
} from '../../snapshot/model.js';
import { type Trace, TraceOp } from '../../snapshot/trace.js';
import { isRelease, releaseRun } from './release-run.js';
import { SegmentUse } from './segment-use.js';
import type { StartState } from './start-state.js';

/**
 * How a recording becomes a trace. `restored`: the blocks of the start state are there already, as the first allocations that frees may
 * name, and everything is repeated as it was. `allocated`: they are allocated first, by address, and only what the program asked for is
 * repeated, since under other settings other requests run short. A request that ran out of memory is repeated in both; where it fits now,
 * it is freed at once.
 */
export type SnapshotTraceStart = 'restored' | 'allocated';

/** A trace with what ties it to the recording. */
export interface SnapshotTrace {
  readonly trace: Trace;
  /** The event behind each operation; -1 for the blocks of the start state. */
  readonly events: Int32Array;
  /** Recorded address by number of the allocation; -1 for a request that had failed. */
  readonly addresses: Float64Array;
  /** Position in `pools` by number of the allocation. A trace cannot say it: other pools than the default ones are the program's `MemPool`s. */
  readonly poolOf: Int32Array;
  /** Pool ids; the first is that of the default pools. */
  readonly pools: readonly (readonly [number, number])[];
  /** The recorded stream of each stream number; numbers beyond stand for streams that a freed block waited for. */
  readonly streams: readonly number[];
  /** Bytes that were free on the device at operations that ran short, by operation. */
  readonly shortages: ReadonlyMap<number, number>;
  /** Frees of blocks that neither the start state nor an event allocated; left out. */
  readonly unknownFrees: number;
}

/** Linear in events, times the logarithm of segments. */
export function snapshotTrace(
  snapshot: Snapshot,
  device: number,
  start: StartState,
  options: { readonly config: Config; readonly start: SnapshotTraceStart },
): SnapshotTrace {
  const trace = snapshot.deviceTraces[device];
  const compiler = new Compiler(start, snapshot, device, options);
  compiler.begin();
  if (trace !== undefined) for (let event = 0; event < trace.length; ) event = compiler.take(trace, event);
  return compiler.finish();
}

const DEFAULT_POOL = [0, 0] as const;

class Compiler {
  readonly #config: Config;
  readonly #restored: boolean;
  readonly #start: StartState;
  readonly #streams: number[];
  readonly #numbers: ReadonlyMap<number, number>;
  readonly #uses: SegmentUse;
  readonly #slotAt = new Map<number, number>();
  /** The made-up stream that a freed block waits for, by address. */
  readonly #awaited = new Map<number, number>();
  readonly #spareStreams: number[] = [];
  #nextStream: number;
  #unknownFrees = 0;
  #holding = false;
  /** What was free on the device for the next request; null when nothing is known of it. */
  #shortage: number | null = null;
  readonly #shortages = new Map<number, number>();
  readonly #codes: number[] = [];
  readonly #slots: number[] = [];
  readonly #values: number[] = [];
  readonly #streamOf: number[] = [];
  readonly #events: number[] = [];
  readonly #addresses: number[] = [];
  readonly #poolOf: number[] = [];
  readonly #pools: (readonly [number, number])[] = [[0, 0]];

  constructor(
    start: StartState,
    snapshot: Snapshot,
    device: number,
    options: { readonly config: Config; readonly start: SnapshotTraceStart },
  ) {
    this.#start = start;
    this.#config = options.config;
    this.#restored = options.start === 'restored';
    this.#streams = streamsOf(start, snapshot.deviceTraces[device]);
    this.#numbers = new Map(this.#streams.map((stream, number) => [stream, number]));
    this.#nextStream = this.#streams.length;
    this.#uses = new SegmentUse(start, snapshot, device);
  }

  /** The blocks that were there before the first event. */
  begin(): void {
    for (const { stream, blocks, poolId } of this.#start.segments) {
      for (const block of blocks) {
        const slot = this.#addSlot(block.address, poolId);
        this.#slotAt.set(block.address, slot);
        if (!this.#restored) this.#op(TraceOp.Allocate, -1, slot, this.#number(stream), block.requested);
      }
    }
    for (const { blocks } of this.#start.segments) {
      for (const { state, address } of blocks) if (state === 'active_pending_free') this.#freeLater(-1, address);
    }
  }

  /** Takes in one event, or several that belong together; returns the next. */
  take(trace: DeviceTrace, event: number): number {
    const address = trace.addresses[event] as number;
    const size = trace.sizes[event] as number;
    switch (trace.actions[event]) {
      case ALLOC:
        this.#allocate(event, address, size, trace.streams[event] as number);
        break;
      case FREE_REQUESTED:
        return this.#free(trace, event, address);
      case FREE_COMPLETED:
        return this.#complete(trace, event);
      case SEGMENT_ALLOC:
      case SEGMENT_MAP:
        this.#uses.addSegment(address, size);
        break;
      case SEGMENT_FREE:
      case SEGMENT_UNMAP:
        return this.#release(trace, event);
      case OOM:
        this.#fail(event, address, size, trace.streams[event] as number);
    }
    return event + 1;
  }

  finish(): SnapshotTrace {
    const trace: Trace = {
      ops: this.#codes.length,
      codes: Uint8Array.from(this.#codes),
      ids: Float64Array.from(this.#slots, (slot) => slot + 1),
      slots: Int32Array.from(this.#slots),
      values: Float64Array.from(this.#values),
      streams: Int32Array.from(this.#streamOf),
      texts: new Map(),
      comments: [],
      allocations: this.#addresses.length,
    };
    return {
      trace,
      events: Int32Array.from(this.#events),
      addresses: Float64Array.from(this.#addresses),
      poolOf: Int32Array.from(this.#poolOf),
      pools: this.#pools,
      streams: this.#streams,
      shortages: this.#shortages,
      unknownFrees: this.#unknownFrees,
    };
  }

  #allocate(event: number, address: number, size: number, stream: number): void {
    const slot = this.#addSlot(address, this.#uses.poolAt(address));
    this.#slotAt.set(address, slot);
    this.#uses.use(address);
    this.#op(TraceOp.Allocate, event, slot, this.#number(stream), size);
  }

  /** A request that had failed: how long it would have lived is not known. */
  #fail(event: number, deviceFree: number, size: number, stream: number): void {
    this.#shortage ??= deviceFree;
    const slot = this.#addSlot(-1, DEFAULT_POOL);
    this.#op(TraceOp.Allocate, event, slot, this.#number(stream), size);
    this.#op(TraceOp.Free, event, slot);
  }

  #free(trace: DeviceTrace, event: number, address: number): number {
    const next = event + 1;
    const atOnce = next < trace.length && completesAtOnce(trace, event);
    if (!this.#slotAt.has(address)) {
      this.#unknownFrees++;
      return atOnce ? next + 1 : next;
    }
    if (!atOnce) {
      this.#freeLater(event, address);
      return next;
    }
    this.#op(TraceOp.Free, event, this.#slotAt.get(address) as number);
    this.#slotAt.delete(address);
    this.#uses.unuse(address);
    return next + 1;
  }

  /** Another stream still used it. Which one is not recorded; a made-up one stands for it, with nothing else on it. */
  #freeLater(event: number, address: number): void {
    const slot = this.#slotAt.get(address) as number;
    if (!this.#holding) this.#op(TraceOp.HoldEvents, event);
    this.#holding = true;
    const stream = this.#spareStreams.pop() ?? this.#nextStream++;
    this.#op(TraceOp.RecordStream, event, slot, stream);
    this.#op(TraceOp.Free, event, slot);
    this.#slotAt.delete(address);
    this.#awaited.set(address, stream);
  }

  /** Frees that complete in a row. Where a request ran short after them, it may have waited for them itself, as a repeated one does. */
  #complete(trace: DeviceTrace, first: number): number {
    let end = first;
    while (end < trace.length && trace.actions[end] === FREE_COMPLETED) end++;
    const waits = end < trace.length && this.#waits(trace, end);
    const waiting = end - first === this.#awaited.size;
    for (let event = first; event < end; event++) {
      this.#completed(event, trace.addresses[event] as number, !(this.#restored && waits && waiting));
    }
    return end;
  }

  /** @param told by an operation of the trace; otherwise a request waits for it itself. */
  #completed(event: number, address: number, told: boolean): void {
    const stream = this.#awaited.get(address);
    if (stream === undefined) {
      this.#unknownFrees++;
      return;
    }
    this.#awaited.delete(address);
    this.#uses.unuse(address);
    this.#spareStreams.push(stream);
    if (told) this.#op(TraceOp.CompleteEvents, event, -1, stream);
  }

  /** Whether what follows is of a request that waited for pending frees. */
  #waits(trace: DeviceTrace, event: number): boolean {
    if (trace.actions[event] === OOM) return true;
    return isRelease(trace.actions[event]) && releaseRun(trace, event, this.#config).waited;
  }

  #release(trace: DeviceTrace, first: number): number {
    const { end, freeBefore } = releaseRun(trace, first, this.#config);
    for (let event = first; event < end; event++) {
      const address = trace.addresses[event] as number;
      // A free that completes in between was waited for by the request.
      if (isRelease(trace.actions[event])) this.#uses.removeSegment(address, trace.sizes[event] as number);
      else this.#completed(event, address, !this.#restored);
    }
    if (freeBefore === null) this.#op(TraceOp.EmptyCache, first);
    // A request may release oversize blocks first, and then everything.
    else this.#shortage ??= freeBefore;
    return end;
  }

  #number(stream: number): number {
    return this.#numbers.get(stream) as number;
  }

  /** Numbers an allocation. */
  #addSlot(address: number, poolId: readonly [number, number]): number {
    let pool = this.#pools.findIndex(([a, b]) => a === poolId[0] && b === poolId[1]);
    if (pool === -1) pool = this.#pools.push(poolId) - 1;
    this.#poolOf.push(pool);
    return this.#addresses.push(address) - 1;
  }

  #op(code: number, event: number, slot = -1, stream = -1, value = 0): void {
    if (code === TraceOp.Allocate && this.#shortage !== null) {
      if (this.#restored) this.#shortages.set(this.#codes.length, this.#shortage);
      this.#shortage = null;
    }
    this.#codes.push(code);
    this.#events.push(event);
    this.#slots.push(slot);
    this.#streamOf.push(stream);
    this.#values.push(value);
  }
}

/** Whether a free had nothing to wait for: its completion follows, of the same call. One that comes of the next request has that one's stack. */
export function completesAtOnce({ actions, addresses, stacks }: DeviceTrace, event: number): boolean {
  const next = event + 1;
  if (actions[next] !== FREE_COMPLETED || addresses[next] !== addresses[event]) return false;
  return stacks[next] === stacks[event] || stacks[next] === EMPTY_STACK || stacks[event] === EMPTY_STACK;
}

/** The streams in ascending order, the default stream first: their position is their number. */
export function streamsOf(start: StartState, trace: DeviceTrace | undefined): number[] {
  const streams = new Set([0, ...start.segments.map(({ stream }) => stream)]);
  for (let event = 0; event < (trace?.length ?? 0); event++)
    streams.add((trace as DeviceTrace).streams[event] as number);
  return [...streams].sort((a, b) => a - b);
}

// A recorded sequence of requests that can be run again under any settings, and what comes of it: the form in which the search for
// settings sees recordings. Must not know how a recording was read, nor what an outcome is used for.

import type { PolicyName } from '../../allocator/policy.js';
import { SimDevice } from '../../device/sim.js';
import type { DriverCallCounts } from '../../device/types.js';
import { CudallocError, DriverError, OutOfMemoryError } from '../../errors.js';
import { type Trace, TraceOp } from '../../snapshot/trace.js';
import { difference } from '../replay/own-calls.js';
import { TraceRunner, type TraceRunnerOptions } from '../replay/trace-runner.js';

/** A request that follows the recording. */
export interface FollowingRequest {
  readonly bytes: number;
  /** As the recording numbers its streams. */
  readonly stream: number;
}

export interface WorkloadOptions {
  /** Settings string, in force from the start to the end. */
  readonly conf: string;
  readonly policy: PolicyName;
  /** Bytes of the device. */
  readonly capacity: number;
  /** End the run there; otherwise it goes on with the next request. */
  readonly stopAtOutOfMemory?: boolean;
  /** One more request at the end. */
  readonly following?: FollowingRequest;
}

/** What came of a run. Bytes. */
export interface WorkloadOutcome {
  /** Whether every request was served. */
  readonly survived: boolean;
  readonly peakReserved: number;
  readonly peakAllocated: number;
  readonly peakRequested: number;
  readonly retries: number;
  readonly outOfMemories: number;
  /** Segments, or maps into expandable ones, that were made. */
  readonly segments: number;
  /** Calls of all functions, failed ones included. */
  readonly driverCalls: number;
  /** `memoryStats()` at the end. */
  readonly stats: Readonly<Record<string, number>>;
  readonly firstOutOfMemory: OutOfMemoryError | null;
}

export interface Workload {
  /** Number of requests. */
  readonly allocations: number;
  /** Requested bytes of each of them, in order. */
  readonly sizes: Float64Array;
  /** Settings under which it was recorded; `''` when unknown. */
  readonly conf: string;
  /** How much of the recording a replay reproduces; null for traces, which record no placements. */
  readonly fidelity: { readonly allocations: number; readonly exact: number } | null;
  /** Runs it on a simulated device of its own. Linear in the operations. */
  run(options: WorkloadOptions): WorkloadOutcome;
}

/**
 * A trace as a workload. What a trace says about settings, statistics and queries is left out: the settings of a run hold throughout, the
 * peaks are those of the whole run, and no driver call is made but the allocator's. A memory fraction is kept.
 * @param pools which requests are served from private pools, which a trace cannot say.
 */
export function traceWorkload(trace: Trace, pools: Pick<TraceRunnerOptions, 'poolUse'> = {}): Workload {
  return {
    allocations: trace.allocations,
    sizes: trace.values.filter((_, op) => trace.codes[op] === TraceOp.Allocate),
    conf: firstSettings(trace),
    fidelity: null,
    run: (options) =>
      runTrace(options.following === undefined ? trace : withRequest(trace, options.following), options, pools),
  };
}

const LEFT_OUT: ReadonlySet<number> = new Set([
  TraceOp.Configure,
  TraceOp.ResetPeak,
  TraceOp.ResetAccumulated,
  TraceOp.Checkpoint,
  TraceOp.BaseAllocation,
  TraceOp.CacheInfo,
]);

function runTrace(trace: Trace, options: WorkloadOptions, pools: Pick<TraceRunnerOptions, 'poolUse'>): WorkloadOutcome {
  const device = new SimDevice({ capacity: options.capacity });
  const runner = new TraceRunner(trace, { device, conf: options.conf, policy: options.policy, ...pools });
  const before = device.driverCalls();
  let first: OutOfMemoryError | null = null;
  try {
    for (let op = 0; op < trace.ops; op++) {
      if (LEFT_OUT.has(trace.codes[op] as number)) continue;
      try {
        runner.apply(op);
      } catch (error) {
        if (!(error instanceof CudallocError) || error instanceof DriverError) throw error;
        if (!(error instanceof OutOfMemoryError)) continue;
        first ??= error;
        if (options.stopAtOutOfMemory) break;
      }
    }
    const calls = difference(device.driverCalls(), before);
    return outcome(runner.allocator.memoryStats(), calls, first);
  } finally {
    runner.close();
    device.close();
  }
}

/** The figures of a run from its statistics and driver calls. */
export function outcome(
  stats: Readonly<Record<string, number>>,
  calls: DriverCallCounts,
  firstOutOfMemory: OutOfMemoryError | null,
): WorkloadOutcome {
  const stat = (key: string): number => stats[key] ?? 0;
  return {
    survived: firstOutOfMemory === null,
    peakReserved: stat('reserved_bytes.all.peak'),
    peakAllocated: stat('allocated_bytes.all.peak'),
    peakRequested: stat('requested_bytes.all.peak'),
    retries: stat('num_alloc_retries'),
    outOfMemories: stat('num_ooms'),
    segments: stat('num_device_alloc'),
    driverCalls: Object.values(calls).reduce((sum, count) => sum + count, 0),
    stats,
    firstOutOfMemory,
  };
}

/** The trace with one more request at its end. */
function withRequest(trace: Trace, { bytes, stream }: FollowingRequest): Trace {
  const appended = <T extends Uint8Array | Int32Array | Float64Array>(column: T, value: number): T => {
    const longer = new (column.constructor as new (length: number) => T)(trace.ops + 1);
    longer.set(column);
    longer[trace.ops] = value;
    return longer;
  };
  return {
    ...trace,
    ops: trace.ops + 1,
    codes: appended(trace.codes, TraceOp.Allocate),
    ids: appended(trace.ids, trace.ids.reduce((largest, id) => Math.max(largest, id), 0) + 1),
    slots: appended(trace.slots, trace.allocations),
    values: appended(trace.values, bytes),
    streams: appended(trace.streams, stream),
    allocations: trace.allocations + 1,
  };
}

/** The settings that a trace sets before its first request. */
function firstSettings(trace: Trace): string {
  const op = trace.codes.findIndex((code) => code === TraceOp.Configure || code === TraceOp.Allocate);
  return trace.texts.get(op) ?? '';
}

// Takes down what happens during a replay and writes it in the report's format. Must not know how operations are carried out.

import type { MemoryHistory } from '../../allocator/history.js';
import type { CudallocError, OutOfMemoryError } from '../../errors.js';
import type { Trace } from '../../snapshot/trace.js';
import {
  DRIVER_CALLS,
  type Place,
  type ReplayCheckpoint,
  type ReplayError,
  type ReplayQuery,
  type ReplayReport,
  type ReplaySegment,
  type ReplayStats,
  TIMELINE_FIELDS,
  TRACE_ACTIONS,
  TRACE_FIELDS,
  type TraceAction,
} from './format.js';
import type { OwnCalls } from './own-calls.js';
import type { Range } from './range-log.js';
import type { Stamps } from './stamps.js';
import { reportSegments, reportStats } from './state.js';
import type { Answer, TraceRunner } from './trace-runner.js';

const MAX_ERRORS = 64;
const MAX_RANGES = 5000;
/** The statistics behind TIMELINE_FIELDS, after the operation's number. */
const TIMELINE_STATS = [
  'requested_bytes.all.current',
  'allocated_bytes.all.current',
  'active_bytes.all.current',
  'reserved_bytes.all.current',
  'num_device_alloc',
  'num_device_free',
];

/** What the report needs beside the events. */
export interface ReplaySummaryInput {
  readonly options: { readonly conf?: string; readonly policy?: string };
  readonly from: number;
  readonly to: number;
  readonly driverCalls: Readonly<Record<string, number>>;
  readonly stamps: Stamps | null;
}

export class ReplayReporter {
  firstOutOfMemory: { op: number; error: OutOfMemoryError } | null = null;
  readonly #runner: TraceRunner;
  readonly #trace: Trace;
  readonly #own: OwnCalls;
  readonly #ranges: readonly Range[];
  readonly #history: MemoryHistory;
  readonly #maxSplitSize: number;
  /** By number of the allocation. */
  readonly #rangeOf: Int32Array;
  readonly #offsetOf: Float64Array;
  readonly #requestedOf: Float64Array;
  /** History entries recorded by the end of each operation. */
  readonly #ends: Float64Array;
  readonly #allocs: ReplayReport['allocs'][number][] = [];
  readonly #errors: ReplayError[] = [];
  readonly #queries: ReplayQuery[] = [];
  readonly #checkpoints: ReplayCheckpoint[] = [];
  readonly #timeline: number[][] = [];
  #reporting = false;
  #historyStart = 0;
  #errorsTotal = 0;
  #ooms = 0;
  /** The operation that failed last, and how. */
  #failure: Pick<ReplayError, 'op' | 'kind'> | null = null;
  #observed: { allocSize: number; limit: number; deviceFree: number } | null = null;

  constructor(runner: TraceRunner, own: OwnCalls, ranges: readonly Range[]) {
    this.#runner = runner;
    this.#trace = runner.trace;
    this.#own = own;
    this.#ranges = ranges;
    const { ops, allocations } = runner.trace;
    this.#rangeOf = new Int32Array(allocations);
    this.#offsetOf = new Float64Array(allocations);
    this.#requestedOf = new Float64Array(allocations);
    this.#ends = new Float64Array(ops);
    this.#maxSplitSize = runner.allocator.memoryStats().max_split_size ?? -1;
    runner.allocator.recordMemoryHistory({ maxEntries: Number.POSITIVE_INFINITY });
    this.#history = runner.allocator.history as MemoryHistory;
    runner.allocator.onOutOfMemory((info) => {
      this.#observed = info;
    });
  }

  /** From now on everything goes into the report. */
  start(from: number): void {
    this.#reporting = true;
    this.#historyStart = this.#history.total;
    this.#ends.fill(this.#historyStart, 0, from);
  }

  /** After an `a`: where the block is; null when there is none. */
  endAllocation(op: number): Place | null {
    const slot = this.#trace.slots[op] as number;
    if (this.#runner.addresses[slot] === 0) {
      if (this.#reporting) this.#allocs.push(this.#failure?.op === op ? this.#failure.kind : null);
      return null;
    }
    const history = this.#history;
    let entry = history.entry(history.total - 1);
    for (let at = history.total - 2; entry.action !== 'alloc'; at--) entry = history.entry(at);
    this.#rangeOf[slot] = entry.segment;
    this.#offsetOf[slot] = entry.offset;
    this.#requestedOf[slot] = this.#trace.values[op] as number;
    const place: Place = [entry.segment, entry.offset];
    if (this.#reporting) this.#allocs.push(place);
    return place;
  }

  endOperation(op: number): void {
    this.#ends[op] = this.#history.total;
  }

  /** Bytes of a live allocation, by its number. */
  requestedBytes(slot: number): number {
    return this.#requestedOf[slot] ?? 0;
  }

  addAnswer(op: number, answer: Answer): void {
    if (!this.#reporting) return;
    if ('largestBlock' in answer) {
      this.#queries.push({ op, largest_block: answer.largestBlock });
      return;
    }
    const slot = this.#trace.slots[op] as number;
    const distance = this.#runner.addressAt(op) - answer.base;
    const base: Place = [this.#rangeOf[slot] as number, (this.#offsetOf[slot] as number) - distance];
    this.#queries.push({ op, base, size: answer.size });
  }

  addError(op: number, error: CudallocError): void {
    this.#failure = { op, kind: isOutOfMemory(error) ? 'oom' : 'error' };
    if (!this.#reporting) return;
    this.#errorsTotal++;
    const entry = isOutOfMemory(error) ? this.#outOfMemory(op, error) : ({ op, kind: 'error' } as const);
    if (this.#errors.length < MAX_ERRORS) this.#errors.push(entry);
  }

  addCheckpoint(op: number): void {
    if (!this.#reporting) return;
    this.#checkpoints.push({ op, stats: this.#stats(), segments: this.#segments(), device_used: this.#deviceUsed() });
  }

  addTimelinePoint(op: number): void {
    const stats = this.#runner.allocator.memoryStats();
    this.#timeline.push([op, ...TIMELINE_STATS.map((key) => stats[key] as number)]);
  }

  finish(input: ReplaySummaryInput): ReplayReport {
    const { options, from, to, driverCalls, stamps } = input;
    const { device } = this.#runner;
    const trace = this.#events(from, to);
    const counts = Object.fromEntries(TRACE_ACTIONS.map((action) => [action, 0])) as Record<TraceAction, number>;
    for (const [, action] of trace) counts[action]++;
    return {
      format: 1,
      config: options.conf ?? '',
      capacity: device.totalMemory,
      ops: to - from,
      policy: options.policy ?? 'pytorch',
      backend: device.backend,
      from,
      to,
      allocs: this.#allocs,
      errors: this.#errors,
      errors_total: this.#errorsTotal,
      ooms: this.#ooms,
      queries: this.#queries,
      checkpoints: this.#checkpoints,
      timeline_fields: TIMELINE_FIELDS,
      timeline: this.#timeline,
      trace_counts: counts,
      trace_complete: true,
      trace_fields: TRACE_FIELDS,
      trace,
      driver_calls: Object.fromEntries(
        DRIVER_CALLS.map((fn) => [fn, driverCalls[fn] ?? 0]),
      ) as ReplayReport['driver_calls'],
      device_used: this.#deviceUsed(),
      ranges: this.#ranges.length > MAX_RANGES ? null : this.#ranges.map(({ kind, size, live }) => [kind, size, live]),
      stats: this.#stats(),
      segments: this.#segments(),
      ...(stamps === null ? {} : { data_checks: dataChecks(stamps) }),
    };
  }

  #events(from: number, to: number): ReplayReport['trace'] {
    const history = this.#history;
    const events: ReplayReport['trace'][number][] = [];
    let at = this.#historyStart;
    for (let op = from; op < to; op++) {
      for (const end = this.#ends[op] as number; at < end; at++) {
        const { action, segment, offset, address, size, stream } = history.entry(at);
        if (action === 'snapshot') continue;
        const place = action === 'oom' ? address : offset;
        events.push([op, action, segment, place, size, this.#runner.streamNumber(stream)]);
      }
    }
    return events;
  }

  #outOfMemory(op: number, error: OutOfMemoryError): ReplayError {
    this.#ooms++;
    this.firstOutOfMemory ??= { op, error };
    const observed = this.#observed;
    if (observed === null) throw new Error(`operation ${op} ran out of memory without telling its observers`);
    const { allocSize, limit, deviceFree } = observed;
    this.#observed = null;
    const observer = { alloc_size: allocSize, limit, device_free: deviceFree };
    return { op, kind: 'oom', figures: error.details.figures, observer };
  }

  #stats(): ReplayStats {
    return reportStats(this.#runner.allocator.memoryStats(), this.#maxSplitSize);
  }

  #segments(): ReplaySegment[] {
    return reportSegments(this.#runner.allocator.memorySnapshot(), (id) => this.#runner.streamNumber(id));
  }

  #deviceUsed(): number {
    const { free, total } = this.#own.run('memGetInfo', () => this.#runner.device.memGetInfo());
    return total - free;
  }
}

function isOutOfMemory(error: CudallocError): error is OutOfMemoryError {
  return error.code === 'ERR_CUDALLOC_OUT_OF_MEMORY';
}

function dataChecks(stamps: Stamps): NonNullable<ReplayReport['data_checks']> {
  return {
    blocks: stamps.blocksChecked,
    bytes: stamps.bytesChecked,
    mismatches_total: stamps.mismatchesTotal,
    mismatches: stamps.mismatches,
  };
}

// Replays a trace: what the allocator does with a recorded sequence of operations under given settings on a given device.
// Decides when to look and what to keep; how it is written down is replay-report.ts. Must not know files or terminals.

import type { Device } from '../../device/types.js';
import { CudallocError, DriverError, type OutOfMemoryError } from '../../errors.js';
import { type Trace, TraceOp } from '../../snapshot/trace.js';
import type { ReplayReport } from './format.js';
import { difference, OwnCalls } from './own-calls.js';
import { RangeLog } from './range-log.js';
import { ReplayReporter } from './report.js';
import { Stamps } from './stamps.js';
import { TraceRunner, type TraceRunnerOptions } from './trace-runner.js';

export interface ReplayOptions extends TraceRunnerOptions {
  /**
   * First operation of the results, default 0. Earlier ones are carried out, unreported; then peak and accumulated statistics
   * are reset, as the operations `P` and `A` do, so that statistics and counts are those of the reported part.
   */
  readonly from?: number;
  /** Operation to stop before. Default: all. */
  readonly to?: number;
  /** Write bytes into every block and compare them when it is freed and at the end. Needs a device that holds bytes. */
  readonly checkData?: boolean;
  /** Told before each operation. */
  readonly onOperation?: (op: number) => void;
  /** Told where an allocation was placed: range in the order of creation, and offset in it. */
  readonly onPlaced?: (op: number, range: number, offset: number) => void;
  /** Told how many operations are done, every few thousand. */
  readonly onProgress?: (done: number, total: number) => void;
}

export interface ReplayResult {
  readonly report: ReplayReport;
  /** The first out of memory of the reported part, with its explanation. */
  readonly firstOutOfMemory: { readonly op: number; readonly error: OutOfMemoryError } | null;
  /** Milliseconds for the reported operations: the history included, data checks, checkpoints and the timeline not. */
  readonly elapsedMs: number;
}

const PROGRESS_STEP = 4096;
/** The timeline has about this many points. */
const TIMELINE_POINTS = 200;

/**
 * Runs a trace through an allocator of its own on `device`, which is left as it was found. Linear in the operations.
 * Out of memory and refused operations go into the report; the replay goes on after them.
 * @throws DriverError when the device fails in another way than running out of memory
 * @throws UnsupportedError when the trace or the checks need what the device cannot do
 */
export function replay(trace: Trace, options: ReplayOptions): ReplayResult {
  const run = new ReplayRun(trace, options);
  try {
    return run.run();
  } finally {
    run.close();
  }
}

class ReplayRun {
  readonly #trace: Trace;
  readonly #options: ReplayOptions;
  readonly #device: Device;
  readonly #from: number;
  readonly #to: number;
  readonly #ranges: RangeLog;
  readonly #own: OwnCalls;
  readonly #runner: TraceRunner;
  readonly #stamps: Stamps | null;
  readonly #reporter: ReplayReporter;
  /** Whether `r` named the allocation, by its number. */
  readonly #shared: Uint8Array;
  /** Time spent on looking instead of allocating. */
  #asideMs = 0;

  constructor(trace: Trace, options: ReplayOptions) {
    this.#trace = trace;
    // Before anything is restored, whose segments count.
    this.#ranges = new RangeLog(options.device);
    this.#options = options;
    this.#device = options.device;
    this.#to = Math.min(options.to ?? trace.ops, trace.ops);
    this.#from = Math.min(options.from ?? 0, this.#to);
    this.#shared = new Uint8Array(trace.allocations);
    this.#own = new OwnCalls(this.#device);
    try {
      this.#runner = new TraceRunner(trace, options);
    } catch (error) {
      this.#ranges.stop();
      throw error;
    }
    // After the trace's streams, whose order counts.
    this.#stamps = options.checkData ? new Stamps(this.#device, this.#own) : null;
    this.#reporter = new ReplayReporter(this.#runner, this.#own, this.#ranges.ranges);
  }

  run(): ReplayResult {
    const from = this.#from;
    const to = this.#to;
    const step = Math.ceil((to - from) / TIMELINE_POINTS);
    const reporter = this.#reporter;
    for (let op = 0; op < from; op++) {
      this.#apply(op);
      this.#progress(op);
    }
    if (from > 0) {
      this.#runner.allocator.resetPeakMemoryStats();
      this.#runner.allocator.resetAccumulatedMemoryStats();
    }
    const callsBefore = this.#own.others();
    reporter.start(from);
    const asideBefore = this.#asideMs;
    const start = performance.now();
    for (let op = from; op < to; op++) {
      this.#apply(op);
      reporter.endOperation(op);
      if ((op + 1) % step === 0 || op === to - 1) this.#aside(() => reporter.addTimelinePoint(op));
      this.#progress(op);
    }
    const elapsedMs = performance.now() - start - (this.#asideMs - asideBefore);
    if (this.#stamps !== null) this.#verifyLive(this.#stamps, to);
    const driverCalls = difference(this.#own.others(), callsBefore);
    const report = reporter.finish({ options: this.#options, from, to, driverCalls, stamps: this.#stamps });
    return { report, firstOutOfMemory: reporter.firstOutOfMemory, elapsedMs };
  }

  close(): void {
    this.#ranges.stop();
    this.#stamps?.close();
    this.#runner.close();
  }

  #apply(op: number): void {
    const code = this.#trace.codes[op];
    this.#options.onOperation?.(op);
    if (this.#stamps !== null && code === TraceOp.Free) this.#compare(this.#stamps, op);
    try {
      const answer = this.#runner.apply(op);
      if (answer !== null) this.#reporter.addAnswer(op, answer);
    } catch (error) {
      if (!(error instanceof CudallocError) || error instanceof DriverError) throw error;
      this.#reporter.addError(op, error);
    }
    if (code === TraceOp.Allocate) {
      const place = this.#reporter.endAllocation(op);
      if (place !== null) this.#options.onPlaced?.(op, place[0], place[1]);
      if (this.#stamps !== null) this.#fill(this.#stamps, op);
    } else if (code === TraceOp.Checkpoint) {
      this.#aside(() => this.#reporter.addCheckpoint(op));
    } else {
      this.#settle(op, code);
    }
  }

  /** The golden rule of an idle device is that events are complete at once; a real one needs a moment for it. */
  #settle(op: number, code: number | undefined): void {
    if (this.#device.mock !== undefined) return;
    const slot = this.#trace.slots[op] ?? -1;
    if (slot < 0) return;
    if (code === TraceOp.RecordStream) this.#shared[slot] = 1;
    else if (code === TraceOp.Free && this.#shared[slot] === 1) {
      this.#shared[slot] = 0;
      this.#own.run('synchronize', () => this.#device.synchronize());
    }
  }

  #progress(op: number): void {
    if ((op + 1) % PROGRESS_STEP === 0) this.#options.onProgress?.(op + 1, this.#to);
  }

  #fill(stamps: Stamps, op: number): void {
    const { ids, slots, values } = this.#trace;
    const address = this.#runner.addresses[slots[op] as number] as number;
    if (address !== 0) this.#aside(() => stamps.write(ids[op] as number, address, values[op] as number));
  }

  #compare(stamps: Stamps, op: number): void {
    const address = this.#runner.addressAt(op);
    const bytes = this.#reporter.requestedBytes(this.#trace.slots[op] as number);
    if (address !== 0) this.#aside(() => stamps.verify(op, this.#trace.ids[op] as number, address, bytes));
  }

  #verifyLive(stamps: Stamps, to: number): void {
    const { codes, ids, slots, values } = this.#trace;
    for (let op = 0; op < to; op++) {
      if (codes[op] !== TraceOp.Allocate) continue;
      const address = this.#runner.addresses[slots[op] as number] as number;
      if (address !== 0) stamps.verify(to, ids[op] as number, address, values[op] as number);
    }
  }

  #aside(look: () => void): void {
    const start = performance.now();
    look();
    this.#asideMs += performance.now() - start;
  }
}

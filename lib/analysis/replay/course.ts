// How much memory a recording's requests take along the recorded events under given settings, in few enough points to be drawn, with the
// highest of each stretch so that no peak is lost. Must not know how it is drawn, nor where the requests come from.

import type { PolicyName } from '../../allocator/policy.js';
import { SimDevice } from '../../device/sim.js';
import { CudallocError, DriverError, OutOfMemoryError } from '../../errors.js';
import { TraceOp } from '../../snapshot/trace.js';
import type { SnapshotTrace } from '../recording/snapshot-trace.js';
import { outcome, type WorkloadOutcome } from '../tune/workload.js';
import { difference } from './own-calls.js';
import { TraceRunner } from './trace-runner.js';

/** Points that are made of a recording at most. */
export const COURSE_POINTS = 4000;
/** Failures whose events are kept; all are counted. */
const FAILURES_KEPT = 1000;
const PROGRESS_STEP = 16384;

/**
 * Bytes by stretches of events, all as long as the first. Moments are events, the state after each; -1 is the state before the first. Two
 * courses over as many events have the same stretches.
 */
export interface Course {
  /** First moment of each stretch, ascending. */
  readonly moments: Float64Array;
  /** The highest in each stretch. */
  readonly allocated: Float64Array;
  readonly reserved: Float64Array;
}

export interface RequestCourse extends Course {
  readonly outcome: WorkloadOutcome;
  /** Events of requests that failed, -1 for one of the start state; of many the first thousand. */
  readonly failures: readonly number[];
}

export interface CourseOptions {
  readonly conf: string;
  readonly policy: PolicyName;
  /** Bytes of the device. */
  readonly capacity: number;
  /** Told how many operations are done, every few thousand. */
  readonly onProgress?: (done: number, total: number) => void;
}

/**
 * Runs the requests of a recording on a simulated device of its own; after one that fails it goes on with the next. Linear in operations.
 * @param events number of recorded events
 * @throws ConfigError for settings or a capacity that are refused
 */
export function courseOfRequests(requests: SnapshotTrace, events: number, options: CourseOptions): RequestCourse {
  const { trace, events: eventOf, pools, poolOf } = requests;
  const { conf, policy, capacity, onProgress } = options;
  const device = new SimDevice({ capacity });
  const sampler = new HighestSampler(events);
  const failures: number[] = [];
  let first: OutOfMemoryError | null = null;
  const poolUse = { pools: pools.length, poolOf };
  let runner: TraceRunner | null = null;
  try {
    runner = new TraceRunner(trace, { device, conf, policy, poolUse });
    const { allocator } = runner;
    const before = device.driverCalls();
    for (let op = 0; op < trace.ops; op++) {
      const event = eventOf[op] as number;
      try {
        runner.apply(op);
      } catch (error) {
        if (!(error instanceof CudallocError) || error instanceof DriverError) throw error;
        if (error instanceof OutOfMemoryError) {
          first ??= error;
          if (failures.length < FAILURES_KEPT) failures.push(event);
        }
      }
      // Of an event with several operations the last tells its state; a request that had failed is freed at once and counts before that.
      if (trace.codes[op] === TraceOp.Allocate || eventOf[op + 1] !== event) {
        sampler.take(event, allocator.memoryAllocated(), allocator.memoryReserved());
      }
      if ((op + 1) % PROGRESS_STEP === 0) onProgress?.(op + 1, trace.ops);
    }
    const figures = outcome(allocator.memoryStats(), difference(device.driverCalls(), before), first);
    return { ...sampler.finish(), outcome: figures, failures };
  } finally {
    runner?.close();
    device.close();
  }
}

/** A course that is already known at every moment. @param allocated bytes after event e at index e + 1. Linear in events. */
export function courseOfBytes(allocated: Float64Array, reserved: Float64Array): Course {
  const sampler = new HighestSampler(allocated.length - 1);
  for (let i = 0; i < allocated.length; i++) {
    sampler.take(i - 1, allocated[i] as number, reserved[i] as number);
  }
  return sampler.finish();
}

class HighestSampler {
  /** Moments in a stretch. */
  readonly #step: number;
  readonly #allocated: Float64Array;
  readonly #reserved: Float64Array;
  #stretch = 0;
  #lastAllocated = 0;
  #lastReserved = 0;

  constructor(events: number) {
    this.#step = Math.ceil((events + 1) / COURSE_POINTS);
    const length = Math.ceil((events + 1) / this.#step);
    this.#allocated = new Float64Array(length);
    this.#reserved = new Float64Array(length);
  }

  /** The state after an event; it holds until the next that is told. */
  take(event: number, allocated: number, reserved: number): void {
    const moment = event + 1;
    const stretch = Math.floor(moment / this.#step);
    if (stretch > this.#stretch) {
      this.#holdUntil(stretch);
      this.#stretch = stretch;
      // What was before reaches into this stretch, unless it changes at its first moment.
      if (moment > stretch * this.#step) this.#lift(stretch, this.#lastAllocated, this.#lastReserved);
    }
    this.#lift(this.#stretch, allocated, reserved);
    this.#lastAllocated = allocated;
    this.#lastReserved = reserved;
  }

  finish(): Course {
    const { length } = this.#allocated;
    this.#holdUntil(length);
    return {
      moments: Float64Array.from({ length }, (_, stretch) => stretch * this.#step - 1),
      allocated: this.#allocated,
      reserved: this.#reserved,
    };
  }

  #holdUntil(stretch: number): void {
    this.#allocated.fill(this.#lastAllocated, this.#stretch + 1, stretch);
    this.#reserved.fill(this.#lastReserved, this.#stretch + 1, stretch);
  }

  #lift(stretch: number, allocated: number, reserved: number): void {
    if (allocated > (this.#allocated[stretch] as number)) this.#allocated[stretch] = allocated;
    if (reserved > (this.#reserved[stretch] as number)) this.#reserved[stretch] = reserved;
  }
}

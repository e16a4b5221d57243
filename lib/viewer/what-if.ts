// A recording under other settings: the memory that its requests would have needed along the recorded events, beside what they need under the
// recorded ones. Must not know how it is drawn, nor that it runs in a worker.

import { parseConfig } from '../allocator/config-parser.js';
import type { PolicyName } from '../allocator/policy.js';
import type { SnapshotTrace } from '../analysis/recording/snapshot-trace.js';
import { type Course, courseOfRequests } from '../analysis/replay/course.js';
import {
  openRecording,
  type Recording,
  ROOMY_CAPACITY,
  replayExactly,
  requestsOf,
} from '../analysis/replay/snapshot-replay.js';
import type { Snapshot } from '../snapshot/model.js';

export interface WhatIfQuestion {
  readonly device: number;
  readonly conf: string;
  readonly policy: PolicyName;
  /** Bytes of the device; null: so much that nothing runs out. */
  readonly capacity: number | null;
}

/** Bytes over the recorded events, and what came of the run. */
export interface WhatIfCourse extends Course {
  readonly conf: string;
  readonly policy: PolicyName;
  readonly peakReserved: number;
  readonly peakAllocated: number;
  readonly outOfMemories: number;
  /** Events of failed requests, -1 for what was there before the recording; of many the first thousand. */
  readonly failures: readonly number[];
  readonly retries: number;
  /** Segments, or maps into expandable ones, that were made. */
  readonly segments: number;
  readonly driverCalls: number;
}

export interface WhatIfAnswer {
  readonly question: WhatIfQuestion;
  readonly tried: WhatIfCourse;
  /** The same requests on a device of the same size, under the settings they were recorded with. */
  readonly baseline: WhatIfCourse;
  /** Recorded allocations, and those that a replay under the recorded settings places where they were: how far it can be trusted. */
  readonly fidelity: { readonly allocations: number; readonly exact: number };
}

export type WhatIfStep = 'repeating the recording' | 'the recorded settings' | 'the settings asked about';
/** @param part of the step, 0 to 1 */
export type WhatIfProgress = (step: WhatIfStep, part: number) => void;

/** A device's recording, prepared for questions. Memory linear in its events. */
export class WhatIfRecording {
  readonly #recording: Recording;
  readonly #requests: SnapshotTrace;
  #fidelity: WhatIfAnswer['fidelity'] | null = null;
  #baseline: { readonly capacity: number | null; readonly course: WhatIfCourse } | null = null;

  /** Linear in events. @throws UnsupportedError when it records no allocation */
  constructor(snapshot: Snapshot, device: number) {
    this.#recording = openRecording(snapshot, { device });
    this.#requests = requestsOf(this.#recording);
  }

  /**
   * The recorded settings are run once for each capacity in a row, the exact repetition once. Linear in events.
   * @throws ConfigError for settings or a capacity that are refused
   */
  answer(question: WhatIfQuestion, onProgress?: WhatIfProgress): WhatIfAnswer {
    // Before anything that takes long.
    parseConfig(question.conf);
    const fidelity = this.#exact(onProgress);
    const { conf, policy } = this.#recording;
    const { capacity } = question;
    if (this.#baseline === null || this.#baseline.capacity !== capacity) {
      const course = this.#run({ ...question, conf, policy }, 'the recorded settings', onProgress);
      this.#baseline = { capacity, course };
    }
    const baseline = this.#baseline.course;
    const same = question.conf === conf && question.policy === policy;
    const tried = same ? baseline : this.#run(question, 'the settings asked about', onProgress);
    return { question, tried, baseline, fidelity };
  }

  #exact(onProgress?: WhatIfProgress): WhatIfAnswer['fidelity'] {
    if (this.#fidelity === null) {
      const { allocations, exact } = replayExactly(this.#recording, {
        onProgress: (done, total) => onProgress?.('repeating the recording', done / total),
      }).fidelity;
      this.#fidelity = { allocations, exact };
    }
    return this.#fidelity;
  }

  #run({ conf, policy, capacity }: WhatIfQuestion, step: WhatIfStep, onProgress?: WhatIfProgress): WhatIfCourse {
    const { outcome, ...course } = courseOfRequests(this.#requests, this.#recording.trace.length, {
      conf,
      policy,
      capacity: capacity ?? ROOMY_CAPACITY,
      onProgress: (done, total) => onProgress?.(step, done / total),
    });
    const { peakReserved, peakAllocated, outOfMemories, retries, segments, driverCalls } = outcome;
    return { ...course, conf, policy, peakReserved, peakAllocated, outOfMemories, retries, segments, driverCalls };
  }
}

/** One question to a snapshot. Linear in events. @throws ConfigError, UnsupportedError */
export function whatIf(snapshot: Snapshot, question: WhatIfQuestion, onProgress?: WhatIfProgress): WhatIfAnswer {
  return new WhatIfRecording(snapshot, question.device).answer(question, onProgress);
}

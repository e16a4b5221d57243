// Which change of settings would have served a request that failed: found by running the workload again, never by rule alone. Must not
// know how the failure was found, nor how advice is worded.

import { parseConfig } from '../../allocator/config-parser.js';
import type { PolicyName } from '../../allocator/policy.js';
import { ROOMY_CAPACITY } from '../replay/snapshot-replay.js';
import {
  collectionAt,
  combine,
  EXPANDABLE,
  EXPANDABLE_ALONE,
  rounding,
  type Setting,
  splitLimit,
} from './settings-space.js';
import { type SmallestCapacity, smallestCapacity } from './smallest-capacity.js';
import type { FollowingRequest, Workload, WorkloadOutcome } from './workload.js';

/** A settings string that helps this workload. Snake case: printed as it is. */
export interface Advice {
  /** The whole string, what is in force already included. */
  readonly conf: string;
  readonly policy: PolicyName;
  /** Whether the workload, and the request after it, is served at the capacity; false: it needs less than now, but still more than that. */
  readonly survives: boolean;
  /** Bytes reserved at most, at that capacity. */
  readonly predicted_peak: number;
  /** What the answer rests on: how much of the recording a replay reproduces. Null for traces, which record no placements. */
  readonly fidelity: { readonly allocations: number; readonly exact: number } | null;
}

export interface AdviseOptions {
  /** The request that failed, where it is not part of the workload. */
  readonly request?: FollowingRequest;
  /** Bytes of the device, or what the memory fraction allows of it. */
  readonly capacity: number;
  /** Settings in force. */
  readonly conf: string;
  /** Default `pytorch`. */
  readonly policy?: PolicyName;
}

/** A small set; `tune` searches for more. */
const REMEDIES: readonly Setting[] = [
  EXPANDABLE,
  EXPANDABLE_ALONE,
  splitLimit(21),
  splitLimit(128),
  splitLimit(512),
  rounding(4),
  rounding(8),
  collectionAt(0.8),
];

/**
 * Settings that serve the workload at the capacity, least memory first; where none does, those under which it needs a smaller device than
 * now. Empty: no setting helps. Nothing that is on already is advised, and nothing under which this workload needs a larger device. About 20
 * runs, and 15 more for each setting that does not serve it.
 * @throws ConfigError when the settings in force are refused
 */
export function advise(workload: Workload, options: AdviseOptions): Advice[] {
  const { request, capacity, conf, policy = 'pytorch' } = options;
  const trial = new Trial(workload, { policy, request });
  const inForce = parseConfig(conf);
  const now = combine(inForce, [], policy);
  const confs = new Set<string>();
  for (const remedy of REMEDIES) {
    const changed = combine(inForce, [remedy], policy);
    if (changed !== null && changed !== now && changed !== conf) confs.add(changed);
  }
  const needed = trial.smallest(conf);
  const advice: Advice[] = [];
  for (const candidate of confs) {
    const outcome = trial.run(candidate, capacity);
    const smallest = trial.smallest(candidate);
    if (smallest === null || (needed !== null && smallest.capacity >= needed.capacity)) continue;
    const { fidelity } = workload;
    advice.push({
      conf: candidate,
      policy,
      survives: outcome.survived,
      predicted_peak: outcome.peakReserved,
      fidelity: fidelity && { allocations: fidelity.allocations, exact: fidelity.exact },
    });
  }
  const serving = advice.filter(({ survives }) => survives);
  const kept = serving.length > 0 ? serving : advice;
  return kept.sort((a, b) => a.predicted_peak - b.predicted_peak || a.conf.length - b.conf.length);
}

class Trial {
  readonly #workload: Workload;
  readonly #fixed: { readonly policy: PolicyName; readonly following?: FollowingRequest };

  constructor(
    workload: Workload,
    options: { readonly policy: PolicyName; readonly request: FollowingRequest | undefined },
  ) {
    this.#workload = workload;
    this.#fixed = { policy: options.policy, ...(options.request !== undefined && { following: options.request }) };
  }

  run(conf: string, capacity: number): WorkloadOutcome {
    return this.#workload.run({ ...this.#fixed, conf, capacity, stopAtOutOfMemory: true });
  }

  smallest(conf: string): SmallestCapacity | null {
    const { policy, following } = this.#fixed;
    const outcome = this.run(conf, ROOMY_CAPACITY);
    return smallestCapacity(this.#workload, { conf, policy }, { outcome, limit: ROOMY_CAPACITY }, following);
  }
}

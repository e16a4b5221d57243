// The smallest device on which a workload survives under given settings, found by trying. Must not know which settings are tried, nor why.

import type { PolicyName } from '../../allocator/policy.js';
import { MIB } from '../../units.js';
import type { FollowingRequest, Workload, WorkloadOutcome } from './workload.js';

/** Settings to try. */
export interface Candidate {
  readonly conf: string;
  readonly policy: PolicyName;
}

/** Capacities are multiples of this, the smallest unit that comes from a device. */
export const CAPACITY_STEP = 2 * MIB;

export interface SmallestCapacity {
  /** Bytes, a multiple of 2 MiB. A run at this capacity survived, and one at 2 MiB less did not, or could not. */
  readonly capacity: number;
  readonly outcome: WorkloadOutcome;
}

/**
 * Bisects between what was requested at the same time and what was reserved when there was room for everything. Whether a workload survives
 * is not monotone in the capacity (what is flushed when decides what is pinned later), so a smaller capacity may exist at which it happens to
 * survive; the answer is one that was run. About 15 runs.
 * @param roomy the outcome with room for everything, which survived
 * @returns null when nothing up to `limit` survived
 */
export function smallestCapacity(
  workload: Workload,
  candidate: Candidate,
  roomy: { readonly outcome: WorkloadOutcome; readonly limit: number },
  following?: FollowingRequest,
): SmallestCapacity | null {
  const { outcome, limit } = roomy;
  if (!outcome.survived) return null;
  if (outcome.peakReserved === 0) return { capacity: 0, outcome };
  const runAt = (capacity: number): WorkloadOutcome =>
    workload.run({ ...candidate, capacity, stopAtOutOfMemory: true, ...(following !== undefined && { following }) });

  // With less than what is in use at once nothing can survive; that needs no run.
  const inUse = Math.min(outcome.peakRequested, outcome.peakAllocated);
  let failing = Math.ceil(inUse / CAPACITY_STEP) * CAPACITY_STEP - CAPACITY_STEP;
  let surviving: SmallestCapacity | null = null;
  for (let capacity = roundUp(outcome.peakReserved); surviving === null; capacity *= 2) {
    if (capacity >= limit) surviving = { capacity: limit, outcome };
    else {
      const attempt = runAt(capacity);
      if (attempt.survived) surviving = { capacity, outcome: attempt };
      else failing = capacity;
    }
  }
  while (surviving.capacity - failing > CAPACITY_STEP) {
    const capacity = roundUp((surviving.capacity + failing) / 2);
    const attempt = runAt(capacity);
    if (attempt.survived) surviving = { capacity, outcome: attempt };
    else failing = capacity;
  }
  return surviving;
}

function roundUp(bytes: number): number {
  return Math.ceil(bytes / CAPACITY_STEP) * CAPACITY_STEP;
}

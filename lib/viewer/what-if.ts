// A recording under other settings: the memory that its requests would have needed along the recorded events. Must not know how it is drawn.

import type { PolicyName } from '../allocator/policy.js';

export interface WhatIfQuestion {
  readonly device: number;
  readonly conf: string;
  readonly policy: PolicyName;
  /** Bytes of the device; null: so much that nothing runs out. */
  readonly capacity: number | null;
}

/** Columns of equal length, by `events`, ascending. Bytes after that recorded event. */
export interface WhatIfCourse {
  readonly events: Float64Array;
  readonly allocated: Float64Array;
  readonly reserved: Float64Array;
  readonly peakReserved: number;
  readonly peakAllocated: number;
  readonly outOfMemories: number;
  readonly retries: number;
  /** Recorded allocations, and those that a replay under the recorded settings places where they were: how far it can be trusted. */
  readonly fidelity: { readonly allocations: number; readonly exact: number };
}

// The shape of a replay's report: what `cudalloc replay --json` prints and other programs rely on. Types and constants only.
// Snake case, bytes as exact numbers; addresses are [range, offset], ranges numbered in the order of their creation.

import { DRIVER_CALLS } from '../../device/types.js';

/** Counted calls, under the names of CUDA: the keys of `driver_calls`. */
export { DRIVER_CALLS };

export const TIMELINE_FIELDS = [
  'op',
  'requested_bytes',
  'allocated_bytes',
  'active_bytes',
  'reserved_bytes',
  'num_device_alloc',
  'num_device_free',
] as const;

export const TRACE_FIELDS = ['op', 'action', 'range', 'offset', 'size', 'stream'] as const;

/** Kinds of history events that `trace` lists and `trace_counts` counts. */
export const TRACE_ACTIONS = [
  'alloc',
  'free_requested',
  'free_completed',
  'segment_alloc',
  'segment_free',
  'segment_map',
  'segment_unmap',
  'oom',
] as const;

export type TraceAction = (typeof TRACE_ACTIONS)[number];

export const STAT_GROUPS = [
  'allocation',
  'segment',
  'active',
  'inactive_split',
  'allocated_bytes',
  'reserved_bytes',
  'active_bytes',
  'inactive_split_bytes',
  'requested_bytes',
] as const;

export const STAT_POOLS = ['all', 'small_pool', 'large_pool'] as const;
export const STAT_SINGLES = ['oversize_allocations', 'oversize_segments'] as const;
export const STAT_VALUES = ['current', 'peak', 'allocated', 'freed'] as const;
export const STAT_COUNTS = [
  'num_alloc_retries',
  'num_ooms',
  'num_sync_all_streams',
  'num_device_alloc',
  'num_device_free',
] as const;

export type Place = readonly [range: number, offset: number];
export type Stat = Readonly<Record<(typeof STAT_VALUES)[number], number>>;

export type ReplayStats = Readonly<
  Record<(typeof STAT_GROUPS)[number], Readonly<Record<(typeof STAT_POOLS)[number], Stat>>> &
    Record<(typeof STAT_SINGLES)[number], Stat> &
    Record<(typeof STAT_COUNTS)[number], number>
> & {
  /** At the start; -1: no limit. */
  readonly max_split_size: number;
};

export interface ReplayError {
  readonly op: number;
  readonly kind: 'oom' | 'error';
  /** Sizes as in the message: wanted, total, free, allocated, reserved but unallocated. */
  readonly figures?: readonly string[];
  readonly observer?: { readonly alloc_size: number; readonly limit: number; readonly device_free: number };
}

export interface ReplayBlock {
  /** From the start of the segment. */
  readonly offset: number;
  readonly size: number;
  readonly state: string;
  /** Absent on inactive blocks. */
  readonly requested_size?: number;
}

export interface ReplaySegment {
  readonly at: Place;
  readonly total_size: number;
  readonly allocated_size: number;
  readonly active_size: number;
  readonly requested_size: number;
  readonly stream: number;
  readonly segment_type: 'small' | 'large';
  readonly is_expandable: boolean;
  readonly blocks: readonly ReplayBlock[];
}

export interface ReplayCheckpoint {
  readonly op: number;
  readonly stats: ReplayStats;
  readonly segments: readonly ReplaySegment[];
  readonly device_used: number;
}

export type ReplayQuery =
  | { readonly op: number; readonly base: Place; readonly size: number }
  | { readonly op: number; readonly largest_block: number };

export interface ReplayReport {
  readonly format: 1;
  readonly config: string;
  readonly capacity: number;
  /** Operations reported: `to` - `from`. */
  readonly ops: number;
  readonly policy: string;
  readonly backend: string;
  readonly from: number;
  readonly to: number;
  /** One entry an `a` line: its place, `null` for 0 bytes, or why it failed. */
  readonly allocs: readonly (Place | 'oom' | 'error' | null)[];
  /** The first 64. */
  readonly errors: readonly ReplayError[];
  readonly errors_total: number;
  readonly ooms: number;
  readonly queries: readonly ReplayQuery[];
  readonly checkpoints: readonly ReplayCheckpoint[];
  readonly timeline_fields: typeof TIMELINE_FIELDS;
  readonly timeline: readonly (readonly number[])[];
  readonly trace_counts: Readonly<Record<TraceAction, number>>;
  readonly trace_complete: true;
  readonly trace_fields: typeof TRACE_FIELDS;
  readonly trace: readonly (readonly [number, TraceAction, number, number, number, number])[];
  readonly driver_calls: Readonly<Record<(typeof DRIVER_CALLS)[number], number>>;
  readonly device_used: number;
  /** `[kind, size, live]` by range; null when there are more than 5,000. */
  readonly ranges: readonly (readonly ['malloc' | 'reserve', number, boolean])[] | null;
  readonly stats: ReplayStats;
  readonly segments: readonly ReplaySegment[];
  /** Present when data were checked. */
  readonly data_checks?: {
    readonly blocks: number;
    readonly bytes: number;
    readonly mismatches_total: number;
    readonly mismatches: readonly {
      readonly op: number;
      readonly id: number;
      readonly offset: number;
      readonly expected: number;
      readonly found: number;
    }[];
  };
}

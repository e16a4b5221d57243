// The shape of a snapshot's report: what `cudalloc analyze --json` prints and other programs rely on. Types and constants only.
// Snake case, bytes as exact numbers.

import type { VerdictKind } from '../../allocator/verdict.js';
import type { Advice } from '../tune/advice.js';

export type { Advice } from '../tune/advice.js';

export interface ReportFrame {
  readonly name: string;
  readonly filename: string;
  readonly line: number;
}

/** Every byte of reserved - allocated is in exactly one part. */
export interface Gap {
  /** Freed, but another stream may still use it. */
  readonly pending: number;
  /** Free, but in a stream or pool that the request cannot use; 0 without a request. */
  readonly other_stream: number;
  /** In segments without a live block. */
  readonly wholly_free: number;
  /** Free, in segments that a live block pins. */
  readonly stuck: number;
}

/** Figures of a device, or of one of its pools. */
export interface MemoryFigures {
  readonly reserved: number;
  readonly allocated: number;
  readonly active: number;
  readonly requested: number;
  /** allocated - requested, of the allocated blocks. */
  readonly rounding: number;
  readonly largest_free_block: number;
  readonly gap: Gap;
}

export interface PoolReport extends MemoryFigures {
  readonly pool: 'small' | 'large';
  /** `[0, 0]` for the default pools. */
  readonly pool_id: readonly [number, number];
  readonly stream: number;
  readonly segments: number;
  /** The largest request that this stream and pool could serve now without asking the device: 0 when none. */
  readonly largest_request: number;
}

export interface DeviceReport extends MemoryFigures {
  /** Present when several files are reported. */
  readonly file?: string;
  readonly device: number;
  readonly segments: number;
  readonly blocks: number;
  /** Bytes the allocator could have; null where neither the file nor the caller says. */
  readonly capacity: number | null;
  /** The largest request that would succeed now, with what the device could still give; null without a capacity. */
  readonly largest_request: number | null;
  readonly pools: readonly PoolReport[];
  readonly events: number;
  readonly out_of_memories: number;
  /** Null where there is no history. */
  readonly peak: {
    readonly event: number;
    readonly time_us: number | null;
    readonly allocated: number;
    readonly reserved: number;
  } | null;
  /** Bytes freed but awaited by another stream, at their most; null where there never were any, or no history. */
  readonly pending_peak: {
    readonly event: number;
    readonly bytes: number;
    readonly by_stream: readonly { readonly stream: number; readonly bytes: number }[];
  } | null;
  readonly timeline_fields: typeof TIMELINE_FIELDS;
  readonly timeline: readonly (readonly (number | null)[])[];
}

export const TIMELINE_FIELDS = ['event', 'time_us', 'allocated', 'active', 'reserved'] as const;

/** A segment that cannot be given back because of live blocks in it. */
export interface Pinning {
  readonly file?: string;
  readonly device: number;
  readonly stream: number;
  readonly pool: 'small' | 'large';
  /** Its address. */
  readonly segment: number;
  readonly live_blocks: number;
  readonly live_bytes: number;
  /** Free bytes of the segment. */
  readonly pinned_bytes: number;
  /** Stack of the largest live block. */
  readonly frames: readonly ReportFrame[];
}

/** Live blocks of one call site. */
export interface Holder {
  readonly file?: string;
  readonly device: number;
  readonly frames: readonly ReportFrame[];
  readonly bytes: number;
  readonly count: number;
  /** Where there is no stack of Python or JavaScript: why. `native_only`: the frames are of machine code, as in a backward pass. */
  readonly no_stack?: 'before_recording' | 'not_recorded' | 'native_only';
}

/** A call site whose live bytes rise from iteration to iteration. */
export interface Growth {
  readonly file?: string;
  readonly device: number;
  readonly frames: readonly ReportFrame[];
  readonly bytes_per_iteration: number;
  readonly count_per_iteration: number;
  readonly iterations: number;
  readonly bytes: number;
}

export interface VerdictReport {
  readonly kind: VerdictKind;
  /** Bytes missing even if every free byte could be used; null where enough would be there. */
  readonly short_by: number | null;
  readonly advice: readonly Advice[];
  /** For people. */
  readonly sentence: string;
  readonly device: number;
  readonly file?: string;
  /** The failed (or asked about) request; null when there is none. */
  readonly request: {
    readonly bytes: number;
    readonly rounded: number;
    readonly stream: number;
    readonly source: 'event' | 'option' | 'message';
    readonly event: number | null;
  } | null;
  readonly capacity: number | null;
}

export interface Report {
  readonly files: readonly string[];
  readonly devices: readonly DeviceReport[];
  readonly pinning: readonly Pinning[];
  readonly holders: readonly Holder[];
  /** The moment that `holders` shows. */
  readonly at: { readonly moment: 'end' | 'event' | 'peak' | 'oom'; readonly event: number | null };
  readonly growth: readonly Growth[];
  readonly verdict: VerdictReport;
  /** What is not known and why, one sentence each. */
  readonly notes: readonly string[];
}

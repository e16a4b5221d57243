// The snapshot model: the state of an allocator and the events that led to it, as plain data. A leaf: types and constants only,
// nothing of how it was read, recorded or will be written. Names follow PyTorch's snapshots; sizes and addresses are bytes.

/** The state of a block, in PyTorch's words. `active_pending_free`: freed, but another stream may still use it. */
export type BlockState = 'active_allocated' | 'active_pending_free' | 'inactive';

/** One call-stack entry. */
export interface Frame {
  readonly name: string;
  readonly filename: string;
  readonly line: number;
}

export interface SnapshotBlock {
  readonly address: number;
  readonly size: number;
  /** Bytes the caller asked for; 0 for an inactive block. */
  readonly requestedSize: number;
  readonly state: BlockState;
  /** Where it was allocated; empty when stacks were off. */
  readonly frames: readonly Frame[];
}

/** A contiguous mapped stretch of memory from the driver. An expandable segment with holes appears once per stretch. */
export interface SnapshotSegment {
  readonly device: number;
  readonly address: number;
  /** Number of the range it belongs to (one `cudaMalloc` or one address reservation), from 0 in the order of creation. */
  readonly sequence: number;
  /** Start within that range. */
  readonly offset: number;
  readonly totalSize: number;
  readonly allocatedSize: number;
  /** Allocated, or freed but still awaited by another stream. */
  readonly activeSize: number;
  /** Requested bytes of the active blocks. */
  readonly requestedSize: number;
  /** Id of the stream. */
  readonly stream: number;
  readonly segmentType: 'small' | 'large';
  /** `[0, 0]` for the default pool. */
  readonly segmentPoolId: readonly [number, number];
  readonly isExpandable: boolean;
  readonly blocks: readonly SnapshotBlock[];
}

/** What happened, in PyTorch's words. */
export const ACTIONS = [
  'alloc',
  'free_requested',
  'free_completed',
  'segment_alloc',
  'segment_free',
  'segment_map',
  'segment_unmap',
  'oom',
  'snapshot',
] as const;

export type Action = (typeof ACTIONS)[number];

export interface TraceEntry {
  readonly action: Action;
  /** For `oom`: the free bytes that the device reported. */
  readonly address: number;
  /** Requested bytes for `alloc` and the frees, bytes from the driver for segments, rounded request for `oom`. */
  readonly size: number;
  readonly stream: number;
  /** The range it happened in (see `SnapshotSegment.sequence`); -1 for `oom` and `snapshot`. */
  readonly segment: number;
  /** Start within that range. */
  readonly offset: number;
  /** Microseconds since the epoch. */
  readonly timeUs: number;
  readonly frames: readonly Frame[];
}

export interface Snapshot {
  /** Sorted by range and offset. */
  readonly segments: readonly SnapshotSegment[];
  /** Oldest first; empty when the history was off. */
  readonly trace: readonly TraceEntry[];
  /** True when the ring dropped older entries. */
  readonly traceOverflowed: boolean;
}

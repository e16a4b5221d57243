// The snapshot model: the state of an allocator and the events that led to it, as plain data. The leaf that everything about snapshots
// imports: nothing of how they are read, recorded or written. Names follow PyTorch's snapshots; sizes and addresses are bytes.

import type { DeviceTrace } from './device-trace.js';
import type { StackTable } from './stacks.js';
import type { PyValue } from './values.js';

export * from './device-trace.js';
export * from './stacks.js';
export * from './values.js';

/** The state of a block, in PyTorch's words. `active_pending_free`: freed, but another stream may still use it. */
export type BlockState = 'active_allocated' | 'active_pending_free' | 'inactive';

/** Where memory was read from a file: which keys it had there, and what this model has no field for, so that it is written as read. */
export interface AsRead {
  /** Keys in the order in which they were read; left out: those of today's PyTorch. */
  readonly layout?: readonly string[];
  /** Values of unknown keys. */
  readonly extra?: ReadonlyMap<string, PyValue>;
}

/** The oldest layout's record of who allocated (parts of) a block. */
export interface BlockHistory extends AsRead {
  readonly address: number;
  /** Requested bytes. */
  readonly realSize: number;
  readonly stack: number;
}

export interface SnapshotBlock extends AsRead {
  /** In the oldest layout not recorded, but derived from the sizes. */
  readonly address: number;
  readonly size: number;
  /** Bytes the caller asked for. Of an inactive block PyTorch leaves those of the last caller; ours has 0. */
  readonly requestedSize: number;
  readonly state: BlockState;
  /** Where it was allocated: number in the stack table. */
  readonly stack: number;
  /** In files of the oldest layout. */
  readonly history?: readonly BlockHistory[];
}

/** A contiguous mapped stretch of memory from the driver. An expandable segment with holes appears once per stretch. */
export interface SnapshotSegment extends AsRead {
  readonly device: number;
  readonly address: number;
  readonly totalSize: number;
  readonly allocatedSize: number;
  /** Allocated, or freed but still awaited by another stream. */
  readonly activeSize: number;
  /** Requested bytes of the active blocks. */
  readonly requestedSize: number;
  /** Id of the stream; in PyTorch's files the value of its `cudaStream_t`. */
  readonly stream: number;
  readonly segmentType: 'small' | 'large';
  /** `[0, 0]` for the default pool. */
  readonly segmentPoolId: readonly [number, number];
  readonly isExpandable: boolean;
  /** Who caused it to be made: number in the stack table. */
  readonly stack: number;
  readonly blocks: readonly SnapshotBlock[];
  /**
   * Number of the range it belongs to (one `cudaMalloc` or one address reservation), from 0 in the order of creation, and its start
   * within that range. Only of our own allocator: files do not record it.
   */
  readonly place?: readonly [range: number, offset: number];
}

/** `layout` is empty for a file that was the bare list of segments, as the oldest PyTorch gives it. */
export interface Snapshot extends AsRead {
  /** As read; ours are sorted by range and offset. `extra` holds `allocator_settings`, `external_annotations` and unknown keys. */
  readonly segments: readonly SnapshotSegment[];
  /** By device number. A trace is empty where the history was off. */
  readonly deviceTraces: readonly DeviceTrace[];
  /** The stacks of all blocks, segments and events. */
  readonly stacks: StackTable;
  /** Whether the ring dropped older entries; null where the file does not say. */
  readonly traceOverflowed: boolean | null;
  /** Why the file is not all there, where only a part could be read; left out when it is whole. */
  readonly salvaged?: string;
}

/** Keys in the order of today's PyTorch. */
export const SNAPSHOT_LAYOUT: readonly string[] = [
  'segments',
  'device_traces',
  'allocator_settings',
  'external_annotations',
];
export const SEGMENT_LAYOUT: readonly string[] = [
  'device',
  'address',
  'total_size',
  'allocated_size',
  'active_size',
  'requested_size',
  'stream',
  'segment_type',
  'segment_pool_id',
  'is_expandable',
  'frames',
  'blocks',
];
export const BLOCK_LAYOUT: readonly string[] = ['address', 'size', 'requested_size', 'state', 'frames'];
export const FRAME_LAYOUT: readonly string[] = ['name', 'filename', 'line'];

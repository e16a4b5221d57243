// The public API, nothing but exports. What is not named here may change without notice.

// For its effect: `dumpSnapshot` on the allocator.
import './dump-snapshot.js';

export { CachingAllocator } from './allocator/caching-allocator.js';
export type { Config } from './allocator/config.js';
export { type Dialect, type ParseOptions, parseConfig } from './allocator/config-parser.js';
export type { CopyRange, DeviceBuffer } from './allocator/device-buffer.js';
export type { HistoryOptions, MemoryHistory } from './allocator/history.js';
export type { ImportOptions } from './allocator/imported-memory.js';
export type { MemPool } from './allocator/mem-pool.js';
export type { DumpOnOutOfMemory } from './allocator/oom-dump.js';
export type { AllocateAsyncOptions, AllocateOptions, AllocatorOptions } from './allocator/options.js';
export type { OutOfMemoryInfo } from './allocator/out-of-memory.js';
export type { PausedContent } from './allocator/pause.js';
export type { Mends, Policy, PolicyName } from './allocator/policy.js';
export type { PressureHandler } from './allocator/pressure-handlers.js';
export type { ShareableHandle } from './allocator/shareable-handle.js';
export type { ReplayReport } from './analysis/replay/format.js';
export { replay, type SnapshotReplayResult } from './analysis/replay/input.js';
export type { ReplayOptions, ReplayResult } from './analysis/replay/replay.js';
export {
  type Fidelity,
  openRecording,
  type Recording,
  replayExactly,
  replayUnder,
} from './analysis/replay/snapshot-replay.js';
export { diffSnapshots, type SnapshotDifference } from './analysis/report/diff.js';
export type { Report } from './analysis/report/format.js';
export { type AnalyzeOptions, analyze, mergeReports } from './analysis/report/report.js';
export { openDevice } from './device/open.js';
export type {
  Backend,
  Device,
  DeviceFeatures,
  DriverCallCounts,
  Event,
  Feature,
  KernelArgument,
  KernelFunction,
  KernelModule,
  LaunchOptions,
  MemoryInfo,
  MockControls,
  OpenDeviceOptions,
  PageExport,
  PageOffers,
  PageSharing,
  Stream,
  TrimRequests,
} from './device/types.js';
export type { DumpSnapshotOptions } from './dump-snapshot.js';
export * from './errors.js';
export { readSnapshot, readTrace, type SnapshotFormat, writeSnapshot, writeTrace } from './snapshot/files.js';
export {
  type Action,
  type AsRead,
  type BlockHistory,
  type BlockState,
  DeviceTrace,
  type ExtraColumn,
  type Frame,
  type PyValue,
  type Snapshot,
  type SnapshotBlock,
  type SnapshotSegment,
  StackTable,
  type TraceEntry,
  Tuple,
} from './snapshot/model.js';
export { parseSnapshot, type ReadOptions } from './snapshot/read-snapshot.js';
export { formatTrace, parseTrace, type Trace, TraceOp } from './snapshot/trace.js';
export { formatSize, parseSize } from './units.js';

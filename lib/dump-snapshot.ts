// `dumpSnapshot` of the allocator, and the files of its option `dumpOnOutOfMemory`: put on from here, since lib/allocator is pure and
// has no files. Imported for its effect.

import { CachingAllocator } from './allocator/caching-allocator.js';
import { installSnapshotWriter } from './allocator/oom-dump.js';
import { type SnapshotFormat, writeSnapshot } from './snapshot/files.js';

export interface DumpSnapshotOptions {
  /** Default: what the name says; `.json` is JSON, `.cudalloc` our binary form, with or without `.gz`; all else a pickle. */
  readonly format?: SnapshotFormat;
}

declare module './allocator/caching-allocator.js' {
  interface CachingAllocator {
    /**
     * Writes `memorySnapshot()` to a file: a pickle that PyTorch's `memory_viz` opens, or JSON; a name that ends in `.gz` makes it gzip.
     * Linear in blocks and in the history. @throws the system's error when the file cannot be written
     */
    dumpSnapshot(path: string, options?: DumpSnapshotOptions): void;
  }
}

CachingAllocator.prototype.dumpSnapshot = function (path, options) {
  writeSnapshot(this.memorySnapshot(), path, options);
};
installSnapshotWriter(writeSnapshot);

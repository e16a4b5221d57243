// Memory that other processes may map: each buffer has pages of its own, which never come from the cache nor return to it. Must not know who maps it.

import type { Device, Stream } from '../device/types.js';
import { ConfigError, DeviceOutOfMemoryError } from '../errors.js';
import { SharedRange } from '../pages/shared-range.js';
import { UnreleasedRanges } from '../pages/unreleased-ranges.js';
import { type Block, UNIT } from './block.js';
import type { DeferredFrees } from './deferred-frees.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import { RECORD_SEGMENT_ALLOC, RECORD_SEGMENT_FREE } from './history.js';
import type { MemorySource } from './memory-source.js';
import type { AllocateOptions } from './options.js';
import type { PoolMisses } from './pool-misses.js';
import { sharingOf } from './shareable-handle.js';
import { RESERVED_BYTES, SEGMENT } from './stats.js';

export interface ShareableParts {
  readonly memory: MemorySource;
  readonly deferred: DeferredFrees;
  readonly misses: PoolMisses;
}

export class ShareableMemory {
  /** Bytes in use. */
  bytes = 0;
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #parts: ShareableParts;
  readonly #unreleased = new UnreleasedRanges();

  constructor(heap: Heap, device: Device, parts: ShareableParts) {
    this.#heap = heap;
    this.#device = device;
    this.#parts = parts;
  }

  /** Bytes of freed memory that the driver has not taken back. */
  get unreleasedBytes(): number {
    return this.#unreleased.bytes;
  }

  /**
   * A block in use, a segment of its own in a pool of its own. @param requested at least 1 byte.
   * @throws UnsupportedError, OutOfMemoryError, DriverError
   */
  allocate(requested: number, stream: Stream): Block {
    sharingOf(this.#device);
    const { granularity } = this.#device;
    const size = Math.ceil(requested / granularity) * granularity;
    const pool = this.#heap.addPrivatePool();
    try {
      const found = this.#parts.misses.serve(pool.large.listOf(stream), size / UNIT, requested, this);
      this.bytes += size;
      return this.#heap.carve(found.list, found, found.units, requested);
    } finally {
      if (pool.segments === 0) this.#heap.privatePools.delete(pool);
    }
  }

  /** A new segment as one free, listed block; null when the device has no more, nor when all cached memory has been given back. May synchronise. */
  climb(list: FreeList, size: number, onShort: () => void): Block | null {
    const block = this.#create(list, size);
    if (block !== null) return block;
    onShort();
    const { memory, deferred } = this.#parts;
    this.#heap.stats.counters.num_alloc_retries++;
    deferred.synchronize();
    memory.flush(0);
    this.releaseKept();
    return this.#create(list, size);
  }

  #create(list: FreeList, size: number): Block | null {
    const heap = this.#heap;
    if (heap.reserved + size > heap.limit) return null;
    let range: SharedRange;
    try {
      range = SharedRange.create(this.#device, sharingOf(this.#device), size);
    } catch (error) {
      if (error instanceof DeviceOutOfMemoryError) return null;
      throw error;
    }
    const segment = heap.addSegment({ address: range.address, size }, list, range);
    heap.stats.increase(SEGMENT, list.kind, 1);
    heap.stats.increase(RESERVED_BYTES, list.kind, size);
    heap.recordSegment(RECORD_SEGMENT_ALLOC, segment, 0, size);
    list.insert(segment.first);
    return segment.first;
  }

  /** Other processes that have it mapped keep it. Synchronising: waits for the device. After an error all is as before. */
  free(block: Block): void {
    const heap = this.#heap;
    const { segment, list } = block;
    const range = segment.range as SharedRange;
    // With the device its memory has gone.
    const { closed } = this.#device;
    if (!closed) {
      this.#device.synchronize();
      range.unmap();
    }
    block.streamUses = null;
    heap.free(block);
    heap.recordSegment(RECORD_SEGMENT_FREE, segment, 0, segment.size);
    list.remove(segment.first);
    heap.removeSegment(segment);
    if (list.pool.owner !== null) heap.privatePools.delete(list.pool.owner);
    heap.stats.decrease(SEGMENT, list.kind, 1);
    heap.stats.decrease(RESERVED_BYTES, list.kind, segment.size);
    this.bytes -= segment.size;
    if (!closed) this.#unreleased.release(range);
  }

  /** Tries again to give back what the driver refused to take. @throws DriverError */
  releaseKept(): void {
    this.#unreleased.retry();
  }

  /** Gives everything back, live blocks included. For closing only; after an error it can be called again. */
  dismantle(): void {
    for (const segment of this.#heap.segments) {
      const { range } = segment;
      if (!(range instanceof SharedRange)) continue;
      range.unmap();
      this.#unreleased.release(range);
      this.#heap.segments.delete(segment);
    }
    this.releaseKept();
  }
}

/** @throws ConfigError when other options contradict it */
export function checkShareable({ movable, pool }: AllocateOptions): void {
  const refuse = (key: string, reason: string): never => {
    throw new ConfigError(`a shareable buffer ${reason}`, { key });
  };
  if (movable === true) refuse('movable', 'stays where it is, since other processes have it mapped');
  if (pool !== undefined) refuse('pool', 'has a pool of its own');
}

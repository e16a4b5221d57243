// Memory of the `paged` policy: what is tried, in order, when the pool has no block for a request. Must not know how pages are moved.

import type { Device } from '../device/types.js';
import { MIB } from '../units.js';
import type { AddressReservation } from './address-reservation.js';
import { type Block, UNIT } from './block.js';
import type { BlockPool } from './block-pool.js';
import type { DeferredFrees } from './deferred-frees.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import type { MemorySource } from './memory-source.js';
import { PageMover } from './page-mover.js';
import { PagedSegments } from './paged-segments.js';
import { PytorchMemory } from './pytorch-memory.js';
import type { RestoredSegment } from './restore.js';
import { ACTIVE_BYTES } from './stats.js';

/** Memory held beyond the most that was ever in use: this share of it, or so many bytes where that is more. Up to there memory grows; beyond, pages move. */
const SLACK = 0.02;
const LEAST_SLACK = 32 * MIB;

export class PagedMemory implements MemorySource {
  readonly #heap: Heap;
  readonly #deferred: DeferredFrees;
  readonly #mover: PageMover;
  readonly #addresses: AddressReservation;
  readonly #segments: PagedSegments;
  /** Segments of a recorded state, which are as they were recorded. */
  readonly #recorded: PytorchMemory;
  /** The most bytes that were ever in use. */
  #peak = 0;

  constructor(heap: Heap, device: Device, deferred: DeferredFrees, addresses: AddressReservation) {
    this.#heap = heap;
    this.#deferred = deferred;
    this.#addresses = addresses;
    this.#mover = new PageMover(heap, device);
    this.#segments = new PagedSegments(heap, device, this.#mover, addresses);
    this.#recorded = new PytorchMemory(heap, device, deferred, addresses);
  }

  climb(list: FreeList, size: number, onShort: () => void): Block | null {
    const { limit } = this.#heap;
    const within = Math.min(limit, this.#bound(size));
    const grow = (most: number): Block | null => this.#segments.grow(list, size, most);
    const early =
      grow(within) ??
      this.#gathering([list], () => grow(within)) ??
      this.#gathering(this.#lists(), () => grow(within)) ??
      grow(limit);
    if (early !== null) return early;
    onShort();
    return this.#late(list, size, () => grow(limit));
  }

  /** The device has no more. */
  #late(list: FreeList, size: number, grow: () => Block | null): Block | null {
    this.#heap.stats.counters.num_alloc_retries++;
    if (this.#deferred.outstanding > 0) {
      this.#deferred.synchronize();
      const block = this.#heap.find(list, size / UNIT) ?? this.#gathering(this.#lists(), grow);
      if (block !== null) return block;
    }
    this.#segments.releaseOthers(list, size);
    this.#recorded.flush();
    return grow();
  }

  #gathering(lists: readonly FreeList[], then: () => Block | null): Block | null {
    for (const list of lists) this.#segments.gather(list);
    return then();
  }

  /** Bytes that may be held before pages have to move. */
  #bound(size: number): number {
    const { stats } = this.#heap;
    this.#peak = Math.max(this.#peak, stats.peak(ACTIVE_BYTES), stats.current(ACTIVE_BYTES) + size);
    return Math.max(this.#peak * (1 + SLACK), this.#peak + LEAST_SLACK);
  }

  /** The lists whose free memory may serve others: not those of private pools in use, whose addresses must keep their memory. */
  #lists(): FreeList[] {
    const { small, large, privatePools } = this.#heap;
    const pools: BlockPool[] = [large, small];
    for (const pool of privatePools) if (pool.released) pools.push(pool.large, pool.small);
    return pools.flatMap((pool) => pool.lists());
  }

  flush(): void {
    for (const list of this.#lists()) this.#segments.gather(list);
    this.#segments.release(0);
    this.#mover.pool.releaseKept();
    this.#recorded.flush();
  }

  restore(list: FreeList, segment: RestoredSegment): Block[] {
    return this.#recorded.restore(list, segment);
  }

  stats(): Record<string, number> {
    const { pool } = this.#mover;
    const recorded = this.#recorded.stats();
    return {
      ...recorded,
      'cudalloc.unreleased_page_bytes': (recorded['cudalloc.unreleased_page_bytes'] ?? 0) + pool.keptBytes,
      'cudalloc.free_page_bytes': pool.freeBytes,
      'cudalloc.page_mappings': pool.mappings,
    };
  }

  dismantle(): void {
    for (const [range, segment] of this.#mover.ranges) {
      this.#mover.unmap(range.places());
      this.#addresses.free(range);
      this.#mover.remove(range);
      this.#heap.segments.delete(segment);
    }
    this.#mover.pool.releaseAll();
    this.#recorded.dismantle();
  }
}

// Memory of the `paged` policy: what is tried, in order, when the pool has no block for a request. Must not know how pages are moved.

import type { Device } from '../device/types.js';
import { MIB } from '../units.js';
import type { AddressReservation } from './address-reservation.js';
import { type Block, UNIT } from './block.js';
import { eachPool, SMALL } from './block-pool.js';
import type { DeferredFrees } from './deferred-frees.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import type { MemorySource } from './memory-source.js';
import { PageMover } from './page-mover.js';
import { PagedSegments } from './paged-segments.js';
import { PytorchMemory } from './pytorch-memory.js';
import type { RestoredSegment } from './restore.js';
import { ACTIVE_BYTES, RESERVED_BYTES } from './stats.js';
import { StitchedSegments } from './stitched-segments.js';
import { waitForStreams } from './stream-order.js';

/** Memory held beyond the most that was ever in use: this share of it, or so many bytes where that is more. Up to there memory grows; beyond, pages move. */
const SLACK = 0.02;
const LEAST_SLACK = 32 * MIB;

/** Bytes of the small pool from which on its smallest requests are kept apart: below, there are few pages to gain, and one to lose. */
const TINY_APART = 128 * MIB;

export class PagedMemory implements MemorySource {
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #deferred: DeferredFrees;
  readonly #mover: PageMover;
  readonly #addresses: AddressReservation;
  readonly #segments: PagedSegments;
  readonly #stitched: StitchedSegments;
  /** Segments of a recorded state, which are as they were recorded. */
  readonly #recorded: PytorchMemory;
  /** The most bytes that were ever in use. */
  #peak = 0;

  constructor(heap: Heap, device: Device, deferred: DeferredFrees, addresses: AddressReservation) {
    this.#heap = heap;
    this.#device = device;
    this.#deferred = deferred;
    this.#addresses = addresses;
    this.#mover = new PageMover(heap, device);
    this.#segments = new PagedSegments(heap, device, this.#mover, addresses);
    this.#stitched = new StitchedSegments(heap, device, this.#mover, addresses);
    this.#recorded = new PytorchMemory(heap, device, deferred, addresses);
  }

  climb(list: FreeList, size: number, onShort: () => void): Block | null {
    return this.#alone(() => this.#climb(list, size, onShort));
  }

  /** Runs `fn` while no other allocator of this process may take free pages from this one. */
  #alone<T>(fn: () => T): T {
    this.#mover.claim();
    try {
      return fn();
    } finally {
      this.#mover.offer();
    }
  }

  freed(block: Block): void {
    if (block.list.pool.owner === null) this.#mover.offer(this.#segments.gatherUnder(block));
  }

  #climb(list: FreeList, size: number, onShort: () => void): Block | null {
    const { limit, stats } = this.#heap;
    if (list.kind === SMALL && stats.values(RESERVED_BYTES, SMALL).current >= TINY_APART) this.#heap.keepTinyApart();
    const within = Math.min(limit, this.#bound(size));
    const grow = (most: number): Block | null => this.#segments.grow(list, size, most);
    const block =
      grow(within) ??
      this.#gathering([list], () => grow(within)) ??
      this.#gathering(this.#lists(), () => grow(within)) ??
      grow(limit);
    if (block !== null) return block;
    onShort();
    return this.#climbOn(list, size);
  }

  /** The device has no more. */
  #climbOn(list: FreeList, size: number): Block | null {
    this.#heap.stats.counters.num_alloc_retries++;
    return (
      this.#afterTrim(list, size) ??
      this.#stitch(list, size) ??
      this.#afterEvents(list, size) ??
      this.#fromOthers(list, size) ??
      this.#fromOtherAllocators(list, size)
    );
  }

  /** Pages of another size can be given back for some of this one. */
  #afterTrim(list: FreeList, size: number): Block | null {
    this.#recorded.flush(0);
    this.#segments.makeRoom(list, size);
    return this.#segments.grow(list, size, this.#heap.limit);
  }

  #afterEvents(list: FreeList, size: number): Block | null {
    if (this.#deferred.outstanding === 0) return null;
    this.#deferred.synchronize();
    return (
      this.#heap.find(list, size / UNIT) ??
      this.#gathering(this.#lists(), () => this.#afterTrim(list, size)) ??
      this.#stitch(list, size)
    );
  }

  /** A free block of another pool or stream, which this stream may use after that one's work so far. */
  #fromOthers(list: FreeList, size: number): Block | null {
    if (list.pool.owner !== null) return null;
    for (const other of this.#lists()) {
      const block = other.pool.owner === null ? this.#heap.find(other, size / UNIT) : null;
      if (block === null) continue;
      waitForStreams(list.stream, [other.stream], this.#device);
      return block;
    }
    return null;
  }

  /** Free pages of other allocators of this process: as they are, or given back to the device by and by. */
  #fromOtherAllocators(list: FreeList, size: number): Block | null {
    const { offers } = this.#device;
    if (offers === null || offers.bytes() === 0) return null;
    const block = this.#segments.grow(list, size, this.#heap.limit, offers);
    if (block !== null) return block;
    offers.trim(size);
    return this.#segments.grow(list, size, this.#heap.limit) ?? this.#stitch(list, size);
  }

  #stitch(list: FreeList, size: number): Block | null {
    return this.#stitched.stitch(list, size, {
      pageBytes: this.#segments.pageBytes(list),
      lenders: this.#lists().filter(({ kind }) => kind === list.kind),
      lends: (segment) => this.#segments.owns(segment),
      most: this.#heap.limit,
    });
  }

  #gathering(lists: readonly FreeList[], then: () => Block | null): Block | null {
    this.#stitched.takeBack();
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
    const released = [...this.#heap.privatePools].filter((pool) => pool.released);
    return [this.#heap, ...released].flatMap((pools) => eachPool(pools)).flatMap((pool) => pool.lists());
  }

  flush(keepBytes: number): void {
    this.#alone(() => {
      this.#stitched.takeBack();
      for (const list of this.#lists()) this.#segments.gather(list);
      // What is free beside free pages stays.
      const stays = this.#heap.cached - this.#mover.pool.freeBytes;
      this.#segments.release(Math.max(0, keepBytes - stays));
      if (keepBytes === 0) this.#stitched.dropIdle();
      this.#mover.pool.releaseKept();
      this.#recorded.flush(keepBytes);
    });
  }

  restore(list: FreeList, segment: RestoredSegment): Block[] {
    return this.#recorded.restore(list, segment);
  }

  suspend(): void {
    this.#recorded.suspend();
    try {
      this.#mover.suspend();
    } catch (error) {
      this.#recorded.resume();
      throw error;
    }
  }

  resume(): void {
    this.#recorded.resume();
    try {
      this.#mover.pool.resume();
    } catch (error) {
      this.#recorded.suspend();
      throw error;
    }
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
    this.#mover.pool.forgetSuspended();
    this.#mover.claim();
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

// Giving cached memory back to the device: everything (a flush), the oldest (collection), or oversize blocks to make room for a request.
// Rules: PyTorch's release_cached_blocks, garbage_collect_cached_blocks, release_available_cached_blocks.

import { type Block, UNIT } from './block.js';
import { type BlockPool, eachPool } from './block-pool.js';
import type { ExpandableSegments } from './expandable-segments.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import type { PlainSegments } from './plain-segments.js';

export class CachedMemory {
  readonly #heap: Heap;
  readonly #plain: PlainSegments;
  readonly #expandable: ExpandableSegments;
  #collections = 0;

  constructor(heap: Heap, plain: PlainSegments, expandable: ExpandableSegments) {
    this.#heap = heap;
    this.#plain = plain;
    this.#expandable = expandable;
  }

  /** How often collection released something. */
  get collections(): number {
    return this.#collections;
  }

  /**
   * Releases every segment without a live block, and unmaps every free page, of the default pools and the private ones given up, until at most
   * `keepBytes` of cached memory are left. Linear.
   */
  flush(keepBytes = 0): void {
    for (const pool of eachPool(this.#heap)) this.#flushPool(pool, keepBytes);
    for (const pool of this.#heap.privatePools) {
      if (!pool.released) continue;
      for (const part of eachPool(pool)) this.#flushPool(part, keepBytes);
      if (pool.segments === 0) this.#heap.privatePools.delete(pool);
    }
    this.#expandable.releaseKept();
  }

  #flushPool(pool: BlockPool, keepBytes: number): void {
    const mapped: Block[] = [];
    for (const list of pool.lists()) {
      for (const block of list.blocks()) {
        if (this.#expandable.owns(block.segment)) mapped.push(block);
        else if (isWholeSegment(block) && this.#heap.cached > keepBytes) this.#plain.release(block);
      }
    }
    for (const block of mapped) if (this.#heap.cached > keepBytes) this.#expandable.unmap(block);
  }

  /**
   * Releases whole plain segments of the large pool that have lain free longer than the average, in rounds, until reserved memory is
   * below the threshold or a round finds none. Linear in free blocks.
   */
  collect(): void {
    const heap = this.#heap;
    const pool = heap.large;
    let excess = heap.reserved - Math.trunc(heap.config.garbageCollectionThreshold * heap.limit);
    if (excess <= 0) return;
    const ageOf = (block: Block): number => pool.searches - block.ageBase;
    let candidates = pool
      .lists()
      .flatMap((list) => list.blocks())
      .filter(isWholeSegment);
    let released = true;
    if (candidates.length > 0) this.#collections++;
    while (excess > 0 && released && candidates.length > 0) {
      const mean = candidates.reduce((sum, block) => sum + ageOf(block), 0) / candidates.length;
      const old = candidates.filter((block) => ageOf(block) >= mean);
      candidates = candidates.filter((block) => ageOf(block) < mean);
      released = old.length > 0;
      for (const block of old) {
        excess -= block.size;
        this.#plain.release(block);
      }
    }
  }

  /**
   * With a split limit: releases the smallest free oversize block that covers the request, or else oversize blocks from the largest down
   * until together they do. Says whether the request is covered. Expandable and split blocks are passed over.
   */
  releaseOversize(list: FreeList, size: number): boolean {
    const limit = this.#heap.config.maxSplitSize;
    if (limit === Number.POSITIVE_INFINITY) return false;
    const wanted = Math.max(size, limit);
    let single = list.lowerBound(Math.ceil(wanted / UNIT));
    while (single !== null && !isWholeSegment(single)) single = list.successor(single);
    if (single !== null) {
      this.#plain.release(single);
      return true;
    }
    let released = 0;
    const oversize = list.blocks().filter((block) => block.size >= limit && isWholeSegment(block));
    for (const block of oversize.reverse()) {
      if (released >= wanted) break;
      released += block.size;
      this.#plain.release(block);
    }
    return released >= wanted;
  }
}

function isWholeSegment(block: Block): boolean {
  return block.segment.range === null && !block.isSplit;
}

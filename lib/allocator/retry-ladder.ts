// What is tried, in order, when the pool has no block for a request. Rules: PyTorch's malloc after get_free_block has failed; the steps that
// are not PyTorch's are marked.

import { type Block, UNIT } from './block.js';
import type { CachedMemory } from './cached-memory.js';
import type { DeferredFrees } from './deferred-frees.js';
import type { ExpandableSegments } from './expandable-segments.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import type { PlainSegments } from './plain-segments.js';
import { segmentSize } from './rounding.js';

/** Whom the steps ask. */
export interface LadderParts {
  readonly plain: PlainSegments;
  readonly expandable: ExpandableSegments;
  readonly cached: CachedMemory;
  readonly deferred: DeferredFrees;
}

export class RetryLadder {
  readonly #heap: Heap;
  readonly #plain: PlainSegments;
  readonly #expandable: ExpandableSegments;
  readonly #cached: CachedMemory;
  readonly #deferred: DeferredFrees;

  constructor(heap: Heap, parts: LadderParts) {
    this.#heap = heap;
    this.#plain = parts.plain;
    this.#expandable = parts.expandable;
    this.#cached = parts.cached;
    this.#deferred = parts.deferred;
  }

  /**
   * A free, listed block of at least `size` bytes, or null: out of memory. May synchronise.
   * @param onShort called when the device has no more, before anything is released on that account
   */
  climb(list: FreeList, size: number, onShort: () => void): Block | null {
    const heap = this.#heap;
    if (heap.collecting) this.#cached.collect();
    const block = this.#allocate(list, size);
    if (block !== null) return block;
    onShort();
    return (
      (this.#cached.releaseOversize(list, size) ? this.#allocate(list, size) : null) ?? this.#flushAndRetry(list, size)
    );
  }

  #flushAndRetry(list: FreeList, size: number): Block | null {
    const heap = this.#heap;
    const waited = this.#deferred.outstanding > 0;
    this.#deferred.synchronize();
    // Not PyTorch's: what has just become free may be all that is needed.
    if (waited && heap.policy.searchAfterEvents) {
      const block = heap.find(list, size / UNIT);
      if (block !== null) return block;
    }
    this.#cached.flush();
    heap.stats.counters.num_alloc_retries++;
    return this.#allocate(list, size);
  }

  /** New memory from the device, unless the memory fraction forbids it. */
  #allocate(list: FreeList, size: number): Block | null {
    const heap = this.#heap;
    const bytes = segmentSize(size, heap.config);
    if (heap.reserved + bytes > heap.limit || bytes > Number.MAX_SAFE_INTEGER) return null;
    if (heap.expandable) {
      const block = this.#expandable.grow(list, size);
      // Not PyTorch's: where the driver grants no addresses, plain segments still work.
      if (block !== null || heap.expandable) return block;
    }
    return this.#plain.allocate(list, bytes);
  }
}

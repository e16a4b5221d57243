// Memory as PyTorch takes it: plain segments, or expandable ones where the settings ask for them. Puts its parts together, decides nothing.

import type { Device } from '../device/types.js';
import { UnsupportedError } from '../errors.js';
import type { AddressReservation } from './address-reservation.js';
import type { Block } from './block.js';
import { CachedMemory } from './cached-memory.js';
import type { DeferredFrees } from './deferred-frees.js';
import { ExpandableSegments } from './expandable-segments.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import type { MemorySource } from './memory-source.js';
import { PlainSegments } from './plain-segments.js';
import { type RestoredSegment, restoreSegment } from './restore.js';
import { RetryLadder } from './retry-ladder.js';

export class PytorchMemory implements MemorySource {
  readonly #heap: Heap;
  readonly #plain: PlainSegments;
  readonly #expandable: ExpandableSegments;
  readonly #cached: CachedMemory;
  readonly #ladder: RetryLadder;

  constructor(heap: Heap, device: Device, deferred: DeferredFrees, addresses: AddressReservation) {
    this.#heap = heap;
    this.#plain = new PlainSegments(heap, device);
    this.#expandable = new ExpandableSegments(heap, device, addresses);
    this.#cached = new CachedMemory(heap, this.#plain, this.#expandable);
    this.#ladder = new RetryLadder(heap, {
      plain: this.#plain,
      expandable: this.#expandable,
      cached: this.#cached,
      deferred,
    });
  }

  climb(list: FreeList, size: number, onShort: () => void): Block | null {
    return this.#ladder.climb(list, size, onShort);
  }

  /** Memory is kept in segments that no other allocator could use. */
  freed(): void {}

  flush(keepBytes: number): void {
    this.#cached.flush(keepBytes);
  }

  restore(list: FreeList, segment: RestoredSegment): Block[] {
    return restoreSegment(this.#heap, { plain: this.#plain, expandable: this.#expandable }, list, segment);
  }

  suspend(): void {
    const plain = [...this.#heap.segments].filter((segment) => this.#plain.owns(segment)).length;
    if (plain > 0) {
      throw new UnsupportedError(
        `${plain} segments come from cudaMalloc, whose memory cannot be given back while addresses stay; use the policy 'paged' or expandable_segments:True`,
      );
    }
    this.#expandable.suspend();
  }

  resume(): void {
    this.#expandable.resume();
  }

  stats(): Record<string, number> {
    return {
      'cudalloc.unreleased_page_bytes': this.#expandable.keptBytes,
      'cudalloc.collections': this.#cached.collections,
    };
  }

  dismantle(): void {
    for (const segment of this.#heap.segments) {
      if (this.#plain.owns(segment)) this.#plain.dismantle(segment);
      else if (this.#expandable.owns(segment)) this.#expandable.dismantle(segment);
      else continue;
      this.#heap.segments.delete(segment);
    }
    this.#expandable.releaseKept();
  }
}

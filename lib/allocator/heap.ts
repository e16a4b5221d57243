// The blocks of one allocator: finding a free one, cutting it, taking it back and joining it with its neighbours, and the statistics
// and history of all that. Asks nothing of the device; segments come from segments.ts and expandable-segments.ts.
// Rules: PyTorch's caching allocator (get_free_block, alloc_found_block, free_block).

import type { Frame } from '../snapshot/model.js';
import { ALLOCATED, type Block, BlockFactory, FREE, PENDING, UNMAPPED } from './block.js';
import { BlockPool, LARGE, type PrivatePool, SMALL } from './block-pool.js';
import type { Config } from './config.js';
import type { FreeList } from './free-list.js';
import {
  type MemoryHistory,
  RECORD_ALLOC,
  RECORD_FREE_COMPLETED,
  RECORD_FREE_REQUESTED,
} from './history.js';
import type { Policy } from './policy.js';
import { MIN_BLOCK_SIZE, SMALL_SIZE } from './rounding.js';
import type { Segment } from './segment.js';
import { captureFrames } from './stack.js';
import {
  ACTIVE,
  ACTIVE_BYTES,
  ALLOCATED_BYTES,
  ALLOCATION,
  INACTIVE_SPLIT,
  INACTIVE_SPLIT_BYTES,
  OVERSIZE_ALLOCATIONS,
  REQUESTED_BYTES,
  RESERVED_BYTES,
  Stats,
} from './stats.js';

const US_PER_MS = 1000;

export class Heap {
  config: Config;
  readonly policy: Policy;
  readonly stats = new Stats();
  readonly factory = new BlockFactory();
  readonly small = new BlockPool(SMALL);
  readonly large = new BlockPool(LARGE);
  readonly privatePools = new Set<PrivatePool>();
  readonly segments = new Set<Segment>();
  history: MemoryHistory | null = null;
  /** Bytes that the memory fraction allows; Infinity when none is set. */
  limit = Number.POSITIVE_INFINITY;
  /** Why expandable segments cannot be had although the settings ask for them; empty otherwise. */
  expandableRefused = '';
  #ranges = 0;
  #nextOrder = 0;

  constructor(config: Config, policy: Policy) {
    this.config = config;
    this.policy = policy;
  }

  /** Collection works only with a threshold and a memory fraction. */
  get collecting(): boolean {
    return this.config.garbageCollectionThreshold > 0 && this.limit !== Number.POSITIVE_INFINITY;
  }

  /** Bytes held from the device. */
  get reserved(): number {
    return this.stats.current(RESERVED_BYTES);
  }

  /** Whether new memory comes from expandable segments. */
  get expandable(): boolean {
    return this.config.expandableSegments && this.expandableRefused === '';
  }

  /** Number and position for a new range of so many bytes. */
  nextRange(bytes: number): { sequence: number; order: number } {
    const at = { sequence: this.#ranges++, order: this.#nextOrder };
    this.#nextOrder += bytes;
    return at;
  }

  /** The best free block for a rounded size, still in its list; null when none may be taken. Logarithmic. */
  find(list: FreeList, size: number): Block | null {
    if (this.collecting) list.pool.searches++;
    let block = list.lowerBound(size);
    if (block === null) return null;
    if (block.segment.range !== null) {
      block = this.config.expandableSegments ? this.#bestExpandable(list, block) : firstPlain(list, block);
      if (block === null) return null;
    }
    const limit = this.config.maxSplitSize;
    if (size < limit) return block.size >= limit && !this.#mendsOversize(block) ? null : block;
    return block.size >= size + this.config.maxNonSplitRounding && !this.#mendsOversize(block) ? null : block;
  }

  /** With the policy's leave, the limits on oversize blocks do not hold inside expandable segments, which are split anyway. */
  #mendsOversize(block: Block): boolean {
    return this.policy.oversizeIgnoresExpandable && block.segment.range !== null;
  }

  /** A free block counts with the unmapped tail it can grow into; step on while the next one is smaller in that measure. */
  #bestExpandable(list: FreeList, from: Block): Block {
    let block = from;
    while (block.segment.range !== null && block.next !== null && block.next.state === UNMAPPED) {
      const next = list.successor(block);
      if (next === null || expandableSize(next) >= expandableSize(block)) break;
      block = next;
    }
    return block;
  }

  /** Takes a free block out of its list for a request, cutting off what is too much. The block in use is returned. */
  take(block: Block, size: number, requested: number): Block {
    const list = block.list;
    const pool = list.pool.kind;
    const plain = block.segment.range === null;
    const stats = this.stats;
    let taken = block;
    if (this.#shouldSplit(block, size)) {
      taken = this.#splitFront(block, size);
      if (plain) {
        if (taken.prev !== null || block.next !== null) {
          stats.decrease(INACTIVE_SPLIT_BYTES, pool, size);
        } else {
          stats.increase(INACTIVE_SPLIT_BYTES, pool, block.size);
          stats.increase(INACTIVE_SPLIT, pool, 1);
        }
      }
    } else {
      list.remove(block);
      if (plain && block.isSplit) {
        stats.decrease(INACTIVE_SPLIT_BYTES, pool, block.size);
        stats.decrease(INACTIVE_SPLIT, pool, 1);
      }
    }
    taken.state = ALLOCATED;
    taken.requested = requested;
    const bytes = taken.size;
    stats.increase(ALLOCATION, pool, 1);
    stats.increase(ALLOCATED_BYTES, pool, bytes);
    stats.increase(REQUESTED_BYTES, pool, requested);
    stats.increase(ACTIVE, pool, 1);
    stats.increase(ACTIVE_BYTES, pool, bytes);
    if (bytes >= this.config.maxSplitSize) stats.increase(OVERSIZE_ALLOCATIONS, pool, 1);
    if (this.history !== null) {
      taken.frames = this.history.stacks ? captureFrames() : null;
      this.recordBlock(RECORD_ALLOC, taken, this.now());
    }
    return taken;
  }

  /** Cuts the first `size` bytes off a listed free block; the rest keeps its identity and stays listed. */
  #splitFront(rest: Block, size: number): Block {
    const front = this.factory.make(rest.segment, rest.list, rest.order, size);
    const prev = rest.prev;
    front.prev = prev;
    front.next = rest;
    if (prev === null) rest.segment.first = front;
    else prev.next = front;
    rest.prev = front;
    rest.list.resize(rest, rest.size - size, rest.order + size);
    return front;
  }

  #shouldSplit(block: Block, size: number): boolean {
    const rest = block.size - size;
    if (block.list.pool.kind === SMALL || this.config.expandableSegments) return rest >= MIN_BLOCK_SIZE;
    return size < this.config.maxSplitSize && rest > SMALL_SIZE;
  }

  /** The caller is done with a block; it leaves the allocated ones. `release` or a wait for events follows. */
  requestFree(block: Block): void {
    const pool = block.list.pool.kind;
    this.stats.decrease(ALLOCATION, pool, 1);
    this.stats.decrease(ALLOCATED_BYTES, pool, block.size);
    if (block.size >= this.config.maxSplitSize) this.stats.decrease(OVERSIZE_ALLOCATIONS, pool, 1);
    block.state = PENDING;
  }

  /** Gives a block back to its free list, joined with its free neighbours. Logarithmic. */
  release(block: Block): void {
    const list = block.list;
    const pool = list.pool.kind;
    const stats = this.stats;
    const size = block.size;
    const { prev, next } = block;
    const plain = block.segment.range === null;
    stats.decrease(ACTIVE, pool, 1);
    stats.decrease(ACTIVE_BYTES, pool, size);
    stats.decrease(REQUESTED_BYTES, pool, block.requested);
    let netCount = 0;
    let netBytes = 0;
    if (prev !== null && prev.state === FREE) {
      netCount--;
      netBytes -= prev.size;
    }
    if (next !== null && next.state === FREE) {
      netCount--;
      netBytes -= next.size;
    }
    const joined = this.joinFree(block);
    if (plain) {
      if (joined.isSplit) {
        netCount++;
        netBytes += joined.size;
      }
      stats.update(INACTIVE_SPLIT, pool, netCount);
      stats.update(INACTIVE_SPLIT_BYTES, pool, netBytes);
    }
  }

  /** Lists a block that is in no list as free, as one block with its free neighbours; returns that. A neighbour in place is resized. */
  joinFree(block: Block): Block {
    const list = block.list;
    const { prev, next } = block;
    block.state = FREE;
    block.frames = null;
    if (prev !== null && prev.state === FREE) {
      let size = prev.size + block.size;
      this.#unchain(block);
      if (next !== null && next.state === FREE) {
        size += next.size;
        list.remove(next);
        this.#unchain(next);
      }
      list.resize(prev, size, prev.order);
      return prev;
    }
    if (next !== null && next.state === FREE) {
      const size = next.size + block.size;
      const order = block.order;
      this.#unchain(block);
      list.resize(next, size, order);
      return next;
    }
    list.insert(block);
    return block;
  }

  /** Removes a block from its segment's chain and recycles it. */
  #unchain(block: Block): void {
    const { prev, next } = block;
    if (prev === null) block.segment.first = next as Block;
    else prev.next = next;
    if (next !== null) next.prev = prev;
    this.factory.recycle(block);
  }

  /** Joins an unmapped stretch with unmapped neighbours and lists it. */
  joinUnmapped(block: Block): void {
    const list = block.list;
    const { prev, next } = block;
    block.state = UNMAPPED;
    if (prev !== null && prev.state === UNMAPPED) {
      list.removeUnmapped(prev);
      block.order = prev.order;
      block.size += prev.size;
      this.#unchain(prev);
    }
    if (next !== null && next.state === UNMAPPED) {
      list.removeUnmapped(next);
      block.size += next.size;
      this.#unchain(next);
    }
    list.insertUnmapped(block);
  }

  /** Cuts off the end of a block that is in no list, from `size` on, as a block of its own, listed nowhere. */
  splitBack(block: Block, size: number): Block {
    const back = this.factory.make(block.segment, block.list, block.order + size, block.size - size);
    back.prev = block;
    back.next = block.next;
    if (block.next !== null) block.next.prev = back;
    block.next = back;
    block.size = size;
    back.state = block.state;
    return back;
  }

  recordBlock(action: number, block: Block, timeUs: number): void {
    const { segment, order } = block;
    const offset = order - segment.order;
    this.history?.record(
      action,
      segment.address + offset,
      block.requested,
      block.list.stream.id,
      segment.sequence,
      offset,
      timeUs,
      block.frames,
    );
  }

  /** A free that completes at once: both its entries, with one time and one stack. */
  recordFree(block: Block, completed: boolean): void {
    if (this.history === null) return;
    const now = this.now();
    if (this.history.stacks) block.frames = captureFrames();
    this.recordBlock(RECORD_FREE_REQUESTED, block, now);
    if (completed) this.recordBlock(RECORD_FREE_COMPLETED, block, now);
  }

  /** A part of a segment that came or went. */
  recordSegment(action: number, segment: Segment, offset: number, bytes: number): void {
    if (this.history === null) return;
    const frames: readonly Frame[] | null = this.history.stacks ? captureFrames() : null;
    const stream = segment.list.stream.id;
    const address = segment.address + offset;
    this.history.record(action, address, bytes, stream, segment.sequence, offset, this.now(), frames);
  }

  now(): number {
    return (performance.timeOrigin + performance.now()) * US_PER_MS;
  }
}

function expandableSize(block: Block): number {
  const next = block.next;
  return next !== null && next.state === UNMAPPED ? block.size + next.size : block.size;
}

/** From a block on, the first that is not expandable, whose segments are not used while they are switched off. */
function firstPlain(list: FreeList, from: Block): Block | null {
  let block: Block | null = from;
  while (block !== null && block.segment.range !== null) block = list.successor(block);
  return block;
}

// A block: a piece of a segment, in use, awaited, free or unmapped. It is a node of two structures at once: the chain of its
// segment (prev, next) and the free list of its pool and stream (left, right). Must not know the policy that moves it.

import type { Frame } from '../snapshot/model.js';
import type { Stream } from '../device/types.js';
import type { FreeList } from './free-list.js';
import type { Segment } from './segment.js';

export const FREE = 0;
export const ALLOCATED = 1;
/** Freed by the caller, but other streams may still use it. Counts as active. */
export const PENDING = 2;
/** Addresses of an expandable segment with nothing behind them. */
export const UNMAPPED = 3;

export class Block {
  segment: Segment;
  /** The list it lies in, or will return to. */
  list: FreeList;
  // NaN is overwritten before use: it makes the engine store these fields as doubles from the start.
  /** Position among all blocks: the segment's `order` plus the offset within the segment. */
  order = Number.NaN;
  size = Number.NaN;
  /** Bytes the caller asked for. Valid while allocated or pending. */
  requested = Number.NaN;
  state = FREE;
  prev: Block | null = null;
  next: Block | null = null;
  left: Block | null = null;
  right: Block | null = null;
  /** Random; shapes the free list's trees. */
  readonly priority: number;
  /** Value of the pool's search counter when the block entered its free list. */
  ageBase = 0;
  /** Streams other than its own that use it. */
  streamUses: Stream[] | null = null;
  /** Events not yet completed. */
  pendingEvents = 0;
  frames: readonly Frame[] | null = null;

  constructor(segment: Segment, list: FreeList, priority: number) {
    this.segment = segment;
    this.list = list;
    this.priority = priority;
  }

  /** True when its segment consists of more than this block. */
  get isSplit(): boolean {
    return this.prev !== null || this.next !== null;
  }

  get address(): number {
    return this.segment.delta + this.order;
  }

  /** Bytes from the start of the segment. */
  get offset(): number {
    return this.order - this.segment.order;
  }
}

/** Makes blocks, and makes them again: splitting and merging in a steady state must not feed the garbage collector. */
export class BlockFactory {
  #spare: Block | null = null;
  #random = 0x2545f491;

  make(segment: Segment, list: FreeList, order: number, size: number): Block {
    let block = this.#spare;
    if (block === null) {
      // xorshift32 (Marsaglia 2003).
      let x = this.#random;
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      this.#random = x;
      block = new Block(segment, list, x);
    } else {
      this.#spare = block.next;
      block.next = null;
      block.segment = segment;
      block.list = list;
      block.state = FREE;
    }
    block.order = order;
    block.size = size;
    return block;
  }

  /** The block is in no chain and no list any more. */
  recycle(block: Block): void {
    block.prev = null;
    block.frames = null;
    block.next = this.#spare;
    this.#spare = block;
  }
}

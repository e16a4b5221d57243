// A block: a piece of a segment, in use, awaited, free or unmapped. It is a node of two structures at once: the chain of its
// segment (prev, next) and the free list of its pool and stream (place, or left and right). Must not know the policy that moves it.

import type { Stream } from '../device/types.js';
import type { Frame } from '../snapshot/model.js';
import type { FreeList } from './free-list.js';
import type { Segment } from './segment.js';

export const FREE = 0;
export const ALLOCATED = 1;
/** Freed by the caller, but other streams may still use it. Counts as active. */
export const PENDING = 2;
/** Addresses of an expandable segment with nothing behind them. */
export const UNMAPPED = 3;
/** Addresses of a paged segment whose memory is in use, or kept, at other addresses. */
export const LENT = 4;

/** Bytes of a unit: every block is a whole number of them. */
export const UNIT = 512;

export class Block {
  // Sizes and positions are in units, so that the engine keeps them as small integers in the object itself (up to 1 TiB; beyond
  // that they are still right, only slower). What a search, a join and a cut look at comes first: few cache lines.
  units = 0;
  state = FREE;
  /** Units from the start of the segment. */
  start = 0;
  /** That of its segment: of blocks of equal size the one in the earlier segment comes first. */
  order: number;
  /** Index in the heap of its bin. */
  place = 0;
  prev: Block | null = null;
  next: Block | null = null;
  segment: Segment;
  /** Bytes the caller asked for. Valid while allocated or pending. */
  requested = 0;
  /** Streams other than its own that use it. */
  streamUses: Stream[] | null = null;
  /** Value of the pool's search counter when the block entered its free list. */
  ageBase = 0;
  left: Block | null = null;
  right: Block | null = null;
  /** Random; shapes the free lists' trees. */
  readonly priority: number;
  /** Events not yet completed. */
  pendingEvents = 0;
  frames: readonly Frame[] | null = null;

  constructor(segment: Segment, priority: number) {
    this.segment = segment;
    this.order = segment.order;
    this.priority = priority;
  }

  /** The list it lies in, or will return to. */
  get list(): FreeList {
    return this.segment.list;
  }

  /** Bytes. */
  get size(): number {
    return this.units * UNIT;
  }

  /** Bytes from the start of the segment. */
  get offset(): number {
    return this.start * UNIT;
  }

  get address(): number {
    return this.segment.address + this.start * UNIT;
  }

  /** True when its segment consists of more than this block. */
  get isSplit(): boolean {
    return this.prev !== null || this.next !== null;
  }
}

/** Order of blocks of equal size: by segment, then by position in it. */
export function comesBefore(a: Block, b: Block): boolean {
  return a.order !== b.order ? a.order < b.order : a.start < b.start;
}

/** Makes blocks, and makes them again: splitting and merging in a steady state must not feed the garbage collector. */
export class BlockFactory {
  #spare: Block | null = null;
  #random = 0x2545f491;

  make(segment: Segment, start: number, units: number): Block {
    let block = this.#spare;
    if (block === null) {
      block = new Block(segment, this.#nextRandom());
    } else {
      this.#spare = block.next;
      block.next = null;
      block.segment = segment;
      block.order = segment.order;
      block.state = FREE;
    }
    block.start = start;
    block.units = units;
    return block;
  }

  /** The block is in no chain and no list any more. */
  recycle(block: Block): void {
    block.prev = null;
    block.next = this.#spare;
    this.#spare = block;
  }

  /** xorshift32 (Marsaglia 2003), without the sign so that it stays a small integer. */
  #nextRandom(): number {
    let x = this.#random;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#random = x;
    return x & 0x3fffffff;
  }
}

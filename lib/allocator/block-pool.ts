// The small or the large pool: one free list for each stream. Also what a set of pools is: the default ones, and the private ones (PyTorch's
// MemPool). Must not know how blocks are chosen.

import type { Stream } from '../device/types.js';
import { FreeList } from './free-list.js';

export const SMALL = 0;
export const LARGE = 1;
export type PoolKind = typeof SMALL | typeof LARGE;

export class BlockPool {
  readonly kind: PoolKind;
  /** The private pool it belongs to; null for the default pools. */
  readonly owner: PrivatePool | null;
  /** Searches so far; the ages of free blocks are counted in it. Stands still while collection is off. */
  searches = 0;
  /** By stream id; ids ascend with creation, so this is the order of the streams. */
  readonly byStream: (FreeList | undefined)[] = [];

  constructor(kind: PoolKind, owner: PrivatePool | null = null) {
    this.kind = kind;
    this.owner = owner;
  }

  listOf(stream: Stream): FreeList {
    let list = this.byStream[stream.id];
    if (list === undefined) {
      list = new FreeList(this, stream);
      this.byStream[stream.id] = list;
    }
    return list;
  }

  clear(): void {
    this.byStream.length = 0;
  }

  /** In the order of the streams. */
  lists(): FreeList[] {
    return this.byStream.filter((list) => list !== undefined);
  }
}

/** The pools that requests are served from, by size. */
export interface Pools {
  /** For the smallest requests; while they are not kept apart, the small pool itself. */
  readonly tiny: BlockPool;
  readonly small: BlockPool;
  readonly large: BlockPool;
}

/** Every pool of a set once. */
export function eachPool({ tiny, small, large }: Pools): BlockPool[] {
  return tiny === small ? [large, small] : [large, small, tiny];
}

/** Pools that share nothing with the default ones. */
export class PrivatePool implements Pools {
  /** `[0, n]`, as PyTorch numbers the pools that users make. */
  readonly id: readonly [number, number];
  readonly small = new BlockPool(SMALL, this);
  readonly tiny = this.small;
  readonly large = new BlockPool(LARGE, this);
  /** Segments it holds. */
  segments = 0;
  /** Calls of `withMemPool` under way. */
  active = 0;
  /** Set when its user gives it up: its free memory may then be flushed, and it disappears with its last segment. */
  released = false;

  constructor(number: number) {
    this.id = [0, number];
  }
}

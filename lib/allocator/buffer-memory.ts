// Where the memory of a buffer is, and whether it may move: what a buffer, its allocator and the garbage collector's last resort share. Must not hold the
// buffer.

import type { SharedRange } from '../pages/shared-range.js';
import type { Frame } from '../snapshot/model.js';

export interface BufferMemoryOptions {
  readonly movable?: boolean;
  readonly frames?: readonly Frame[] | null;
  readonly shared?: SharedRange | null;
}

export class BufferMemory {
  address: number;
  /** Bytes asked for. */
  readonly size: number;
  /** It was asked for as one that may move. */
  readonly movable: boolean;
  /** Who asked for it; null unless stacks were recorded then. */
  readonly frames: readonly Frame[] | null;
  /** What other processes may map; null unless it was asked for as shareable. */
  readonly shared: SharedRange | null;
  /** Somebody outside has the address. */
  pinned = false;
  /** Uses under way that end by themselves. */
  uses = 0;

  constructor(address: number, size: number, options: BufferMemoryOptions = {}) {
    this.address = address;
    this.size = size;
    this.movable = options.movable ?? false;
    this.frames = options.frames ?? null;
    this.shared = options.shared ?? null;
  }

  /** Whether it may move now. */
  get moves(): boolean {
    return this.movable && !this.pinned && this.uses === 0;
  }
}

// Where the memory of a buffer is, and whether it may move: what a buffer, its allocator and the garbage collector's last resort share. Must not hold the
// buffer.

import type { Frame } from '../snapshot/model.js';

export class BufferMemory {
  address: number;
  /** Bytes asked for. */
  readonly size: number;
  /** It was asked for as one that may move. */
  readonly movable: boolean;
  /** Who asked for it; null unless stacks were recorded then. */
  readonly frames: readonly Frame[] | null;
  /** Somebody outside has the address. */
  pinned = false;
  /** Uses under way that end by themselves. */
  uses = 0;

  constructor(address: number, size: number, movable: boolean, frames: readonly Frame[] | null) {
    this.address = address;
    this.size = size;
    this.movable = movable;
    this.frames = frames;
  }

  /** Whether it may move now. */
  get moves(): boolean {
    return this.movable && !this.pinned && this.uses === 0;
  }
}

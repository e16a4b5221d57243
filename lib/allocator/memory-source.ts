// Where an allocator's memory comes from: the part in which the policies differ. Types only.

import type { Block } from './block.js';
import type { FreeList } from './free-list.js';
import type { RestoredSegment } from './restore.js';

export interface MemorySource {
  /**
   * What is tried, in order, when the pool has no block for a request: a free, listed block of at least `size` bytes, or null: out of memory.
   * May synchronise.
   * @param onShort called when the device has no more, before anything is released on that account
   */
  climb(list: FreeList, size: number, onShort: () => void): Block | null;
  /** A block has become free, and is listed as this one. */
  freed(block: Block): void;
  /** Gives cached memory back to the device until at most `keepBytes` of it are left, or what cannot be given back. Synchronising. */
  flush(keepBytes: number): void;
  /** Makes a recorded segment again, with blocks in use, which are returned in the order given. */
  restore(list: FreeList, segment: RestoredSegment): Block[];
  /**
   * Gives all memory back to the device, whatever lives there, while addresses stay; nothing is cached. After an error all is as before.
   * @throws UnsupportedError when some of it is not made of pages
   */
  suspend(): void;
  /** Takes the same memory from the device again, behind the same addresses. After an error all is as before. @throws DeviceOutOfMemoryError */
  resume(): void;
  /** What it counts, by name. */
  stats(): Record<string, number>;
  /** Gives everything back, live blocks included. For closing only; after an error it can be called again. */
  dismantle(): void;
}

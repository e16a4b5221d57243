// Holes in segments: stretches of addresses with nothing behind them, in the chain of blocks. Finding a place for a request among free blocks and
// holes, filling holes and opening them. Knows blocks, not pages. The place: PyTorch's try_allocate_expandable_block.

import { type Block, FREE, UNMAPPED } from './block.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import type { Segment } from './segment.js';

/** A hole to fill, and from its start how many bytes. */
export interface Filling {
  readonly hole: Block;
  readonly bytes: number;
}

function isSpace({ state }: Block): boolean {
  return state === FREE || state === UNMAPPED;
}

/** The lowest place where free blocks and holes in a row reach `size`; the block it starts with. Linear in holes. */
export function lowestSpace(list: FreeList, size: number, counts: (segment: Segment) => boolean): Block | null {
  for (const hole of list.unmapped) {
    if (!counts(hole.segment)) continue;
    const start = hole.prev !== null && hole.prev.state === FREE ? hole.prev : hole;
    let bytes = 0;
    for (let block: Block | null = start; block !== null && bytes < size && isSpace(block); block = block.next) {
      bytes += block.size;
    }
    if (bytes >= size) return start;
  }
  return null;
}

/** Which holes from `start` on have to be filled, in whole pages, until the blocks in a row reach `size`. */
export function fillingsFor(start: Block, size: number, pageBytes: number): Filling[] {
  const fillings: Filling[] = [];
  let reached = 0;
  for (let block: Block | null = start; block !== null && reached < size; block = block.next) {
    if (block.state === FREE) {
      reached += block.size;
    } else {
      const bytes = Math.ceil(Math.min(size - reached, block.size) / pageBytes) * pageBytes;
      fillings.push({ hole: block, bytes });
      reached += bytes;
    }
  }
  return fillings;
}

/** The first bytes of a hole have memory now: free, and one block with its free neighbours, which is returned. */
export function fillHole(heap: Heap, hole: Block, bytes: number): Block {
  const { list } = hole;
  list.removeUnmapped(hole);
  if (bytes < hole.size) list.insertUnmapped(heap.splitBack(hole, bytes));
  return heap.joinFree(hole);
}

/** A part of a free, listed block has no memory any more. The hole, one with its neighbours, is returned. */
export function openHole(heap: Heap, block: Block, offset: number, bytes: number): Block {
  const middle = cutOut(heap, block, offset, bytes);
  heap.joinUnmapped(middle);
  return middle;
}

/** Takes a part of a free, listed block out of its list, as a block of its own; what is left on both sides stays listed. */
export function cutOut(heap: Heap, block: Block, offset: number, bytes: number): Block {
  const { list } = block;
  list.remove(block);
  const before = offset - block.offset;
  let middle = block;
  if (before > 0) {
    middle = heap.splitBack(block, before);
    list.insert(block);
  }
  if (middle.size > bytes) list.insert(heap.splitBack(middle, bytes));
  return middle;
}

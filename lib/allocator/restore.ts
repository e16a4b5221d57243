// Makes a recorded state again in a fresh allocator: segments, and in them blocks in use at given places. For replays. Must not know
// where the state comes from.

import type { Stream } from '../device/types.js';
import { UnsupportedError } from '../errors.js';
import { type Block, FREE, UNIT } from './block.js';
import type { ExpandableSegments } from './expandable-segments.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import type { PlainSegments } from './plain-segments.js';

/** A range from the driver as it is to be made again. Offsets are from its start, in ascending order; sizes are multiples of 512. */
export interface RestoredSegment {
  readonly segmentType: 'small' | 'large';
  readonly stream: Stream;
  readonly isExpandable: boolean;
  /** What is mapped; one that starts at 0 where the segment is plain. */
  readonly stretches: readonly { readonly offset: number; readonly size: number }[];
  /** Each within a stretch. */
  readonly blocks: readonly { readonly offset: number; readonly size: number; readonly requested: number }[];
}

/** The blocks in use, in the order given. Linear in blocks. @throws UnsupportedError when the device is too small */
export function restoreSegment(
  heap: Heap,
  makers: { readonly plain: PlainSegments; readonly expandable: ExpandableSegments },
  list: FreeList,
  segment: RestoredSegment,
): Block[] {
  const free = segment.isExpandable
    ? makers.expandable.restore(list, segment.stretches)
    : [makePlain(makers.plain, list, segment)];
  const gaps: Block[] = [];
  const live: Block[] = [];
  let at = 0;
  for (const start of free) {
    const end = start.offset + start.size;
    let rest: Block | null = start;
    for (; at < segment.blocks.length && (segment.blocks[at]?.offset ?? end) < end; at++) {
      const { offset, size, requested } = segment.blocks[at] as RestoredSegment['blocks'][number];
      if (rest === null || offset < rest.offset || offset + size > end) {
        throw new UnsupportedError(`the block at offset ${offset} overlaps another or its segment's end`);
      }
      // What lies before it is taken too, and given back when all blocks are in place.
      if (offset > rest.offset) {
        const gap = heap.carve(list, rest, (offset - rest.offset) / UNIT, 0);
        gaps.push(gap);
        rest = gap.next as Block;
      }
      const block = heap.carve(list, rest, size / UNIT, requested);
      live.push(block);
      const { next }: Block = block;
      rest = next !== null && next.state === FREE && next.offset < end ? next : null;
    }
  }
  for (const gap of gaps) heap.free(gap);
  return live;
}

function makePlain(plain: PlainSegments, list: FreeList, { stretches }: RestoredSegment): Block {
  const block = plain.allocate(
    list,
    stretches.reduce((sum, { size }) => sum + size, 0),
  );
  if (block === null) throw new UnsupportedError('the device is too small for what was there');
  return block;
}

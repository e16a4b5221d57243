// A segment: a range of addresses from the driver, cut into a chain of blocks. Plain (one cudaMalloc) or expandable (a reserved range
// with pages mapped where needed). Must not know how it is searched.

import type { PageRange } from '../pages/page-range.js';
import { SharedRange } from '../pages/shared-range.js';
import type { VirtualRange } from '../pages/virtual-range.js';
import type { Frame } from '../snapshot/model.js';
import type { Block } from './block.js';
import type { FreeList } from './free-list.js';

/** The addresses of a segment whose memory is mapped: page by page, of an expandable one or of a paged one, or as a whole, of one that processes share. */
export type MappedRange = VirtualRange | PageRange | SharedRange;

/** Whether a segment with such addresses grows and shrinks. */
export function isExpandable(range: MappedRange | null): boolean {
  return range !== null && !(range instanceof SharedRange);
}

export class Segment {
  /** Creation number. */
  readonly sequence: number;
  /** Of blocks of equal size the one in the segment of lower order comes first: the creation number, whatever the driver's addresses. */
  readonly order: number;
  readonly address: number;
  /** Bytes of addresses. */
  readonly size: number;
  /** Present where it is not one cudaMalloc. */
  readonly range: MappedRange | null;
  readonly list: FreeList;
  /** Who caused it to be made; null unless stacks were recorded then. */
  readonly frames: readonly Frame[] | null;
  /** Start of the chain; set right after construction. */
  first!: Block;

  constructor(
    at: {
      readonly sequence: number;
      readonly order: number;
      readonly address: number;
      readonly size: number;
      readonly frames?: readonly Frame[] | null;
    },
    list: FreeList,
    range: MappedRange | null,
  ) {
    this.sequence = at.sequence;
    this.order = at.order;
    this.address = at.address;
    this.size = at.size;
    this.frames = at.frames ?? null;
    this.list = list;
    this.range = range;
  }
}

// Free ends and free starts of pages that are in use otherwise, and which of them make up a request together with whole pages. Pure: reads the chains of
// blocks, changes nothing.

import type { Page, Place } from '../pages/page-pool.js';
import { PageRange } from '../pages/page-range.js';
import { type Block, FREE } from './block.js';
import type { FreeList } from './free-list.js';
import type { Segment } from './segment.js';

/** Free bytes at one end of a page, and where they lie. */
export interface Piece {
  readonly page: Page;
  readonly segment: Segment;
  readonly offset: number;
  readonly bytes: number;
}

export interface Pieces {
  /** Up to the ends of their pages. */
  readonly leads: readonly Piece[];
  /** From the starts of their pages. */
  readonly trails: readonly Piece[];
}

/** The end of one page, whole pages, the start of another. */
export interface Choice {
  readonly lead: Piece | null;
  readonly wholes: number;
  readonly trail: Piece | null;
}

/** The pieces that lists have in segments of pages of that size. Linear in free blocks. */
export function piecesOf(lists: readonly FreeList[], pageBytes: number, lends: (segment: Segment) => boolean): Pieces {
  const leads: Piece[] = [];
  const trails: Piece[] = [];
  for (const { segment, offset, size } of lists.flatMap((list) => list.blocks())) {
    const { range } = segment;
    if (!(range instanceof PageRange) || range.pageBytes !== pageBytes || !lends(segment)) continue;
    const end = offset + size;
    const firstEnd = Math.ceil(offset / pageBytes) * pageBytes;
    const lastStart = Math.floor(end / pageBytes) * pageBytes;
    const piece = (at: number, bytes: number): Piece => {
      const { page } = range.placeAt(Math.floor(at / pageBytes)) as Place;
      return { page, segment, offset: at, bytes };
    };
    if (firstEnd > offset && firstEnd <= end) leads.push(piece(offset, firstEnd - offset));
    if (lastStart < end && lastStart >= offset) trails.push(piece(lastStart, end - lastStart));
  }
  return { leads, trails };
}

/** The choice with the fewest whole pages, and of those the smallest pieces; null when more than `available` whole pages would be needed. */
export function choosePieces(
  { leads, trails }: Pieces,
  size: number,
  pageBytes: number,
  available: number,
): Choice | null {
  const ascending = [...trails].sort((a, b) => a.bytes - b.bytes);
  let best: Choice | null = null;
  let bestBytes = 0;
  for (const lead of [null, ...leads]) {
    const rest = size - (lead?.bytes ?? 0);
    const longest = ascending.findLast(({ page }) => page !== lead?.page)?.bytes ?? 0;
    const wholes = Math.max(0, Math.ceil((rest - longest) / pageBytes));
    const missing = rest - wholes * pageBytes;
    const trail =
      missing <= 0 ? null : (ascending.find(({ page, bytes }) => bytes >= missing && page !== lead?.page) as Piece);
    const bytes = (lead?.bytes ?? 0) + (trail?.bytes ?? 0);
    if (wholes > available) continue;
    if (best !== null && (best.wholes < wholes || (best.wholes === wholes && bestBytes <= bytes))) continue;
    best = { lead, wholes, trail };
    bestBytes = bytes;
  }
  return best;
}

/** The free block of a segment that covers so many bytes from an offset on. Linear in the segment's blocks. */
export function freeBlockOver({ first }: Segment, offset: number, bytes: number): Block | null {
  for (let block: Block | null = first; block !== null && block.offset <= offset; block = block.next) {
    if (block.state === FREE && block.offset + block.size >= offset + bytes) return block;
  }
  return null;
}

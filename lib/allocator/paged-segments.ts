// Paged segments: for each pool and stream a range of addresses larger than the device. Blocks are placed as in an expandable segment, but its pages
// belong to all: a page under free memory alone can be put behind other addresses, and stays mapped where it was, so that it can come back without
// a call of the driver. Must not know when to take pages.
// Keeping mappings for reuse: GMLake (Guo et al., ASPLOS 2024). The place of growth: PyTorch's expandable segments.

import type { Device, PageOffers } from '../device/types.js';
import type { Page, Place } from '../pages/page-pool.js';
import { PageRange } from '../pages/page-range.js';
import { GIB, MIB } from '../units.js';
import { type AddressReservation, pageBytesOf } from './address-reservation.js';
import { type Block, UNMAPPED } from './block.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import { fillHole, fillingsFor, lowestSpace, openHole } from './holes.js';
import type { PageMover } from './page-mover.js';
import { planFillings } from './page-plan.js';
import type { Segment } from './segment.js';

/**
 * Large pages are PyTorch's (20 MiB), but on devices of more than 50 GiB, where they grow up to the slack that memory may have anyway (paged-memory.ts), so
 * that a larger device needs no more calls; and below 4 GiB, where what is left beside them would be a part of the device worth having: there they are
 * of the size of which the least is left.
 */
const MOST_PAGES = 2560;
const LARGEST_PAGE = 32 * MIB;
const SMALL_DEVICE = 4 * GIB;
/** Of large pages, unless the settings say otherwise. */
export const SMALLEST_LARGE_PAGE = 18 * MIB;
const SIZES_THERE = [SMALLEST_LARGE_PAGE, 20 * MIB, 22 * MIB, 24 * MIB];

export class PagedSegments {
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #mover: PageMover;
  readonly #addresses: AddressReservation;
  readonly #own = new Set<Segment>();

  constructor(heap: Heap, device: Device, mover: PageMover, addresses: AddressReservation) {
    this.#heap = heap;
    this.#device = device;
    this.#mover = mover;
    this.#addresses = addresses;
  }

  /**
   * A free, listed block of at least `size` bytes, made by putting free pages into holes, and new ones where there are too few. Null when more than
   * `most` bytes would be held then, when the device has no memory left, or when no range can be reserved. After an error nothing is lost.
   * @param offers take what other allocators of this process have offered
   */
  grow(list: FreeList, size: number, most: number, offers: PageOffers | null = null): Block | null {
    const start = this.#placeFor(list, size);
    if (start === null) return null;
    const { pageBytes } = start.segment.range as PageRange;
    const fillings = fillingsFor(start, size, pageBytes);
    const { slots, missing } = planFillings(fillings, this.#mover.pool, list.stream);
    if (missing > 0 && this.#heap.reserved + missing * pageBytes > most) return null;
    if (!this.#mover.supply(slots, list.stream, offers)) return null;
    this.#mover.use(slots);
    let grown = start;
    for (const { hole, bytes } of fillings) grown = fillHole(this.#heap, hole, bytes);
    return grown;
  }

  owns(segment: Segment): boolean {
    return this.#own.has(segment);
  }

  /** Makes the pages free that lie wholly under a list's free blocks. Linear in free blocks and pages; asks nothing of the device. */
  gather(list: FreeList): void {
    for (const block of list.blocks()) this.gatherUnder(block);
  }

  /** Makes the pages free that lie wholly under a free, listed block, and returns them. Linear in them. */
  gatherUnder(block: Block): Page[] {
    const { range, list } = block.segment;
    if (!(range instanceof PageRange)) return [];
    const first = Math.ceil(block.offset / range.pageBytes);
    const end = Math.floor((block.offset + block.size) / range.pageBytes);
    const pages: Page[] = [];
    for (let slot = first; slot < end; slot++) pages.push((range.placeAt(slot) as Place).page);
    for (const page of pages) this.#mover.pool.setFree(page, list.stream);
    if (pages.length > 0) openHole(this.#heap, block, first * range.pageBytes, pages.length * range.pageBytes);
    return pages;
  }

  /** Gives free pages back to the device until at most `keepBytes` of them are left. Returns the bytes given back. Synchronising. */
  release(keepBytes: number, counts: (page: Page) => boolean = () => true): number {
    const { pool } = this.#mover;
    const pages: Page[] = [];
    let bytes = 0;
    for (const page of pool.allFree()) {
      if (pool.freeBytes - bytes <= keepBytes) break;
      if (!counts(page)) continue;
      pages.push(page);
      bytes += page.bytes;
    }
    this.#mover.release(pages);
    for (const segment of [...this.#own]) if (isEmpty(segment)) this.#removeSegment(segment);
    return bytes;
  }

  /** Gives free pages back that a list cannot use since they have another size, if that lets it grow for a request. Synchronising. */
  makeRoom(list: FreeList, size: number): void {
    const { pool } = this.#mover;
    const pageBytes = this.pageBytes(list);
    let short = this.#missing(list, size) * pageBytes - this.#device.memGetInfo().free;
    if (short <= 0 || pool.freeBytes - pool.free(pageBytes).size * pageBytes < short) return;
    this.release(0, (page) => {
      if (page.bytes === pageBytes || short <= 0) return false;
      short -= page.bytes;
      return true;
    });
  }

  /** Pages that have to be made for a request. */
  #missing(list: FreeList, size: number): number {
    const start = this.#placeFor(list, size);
    if (start === null) return 0;
    const fillings = fillingsFor(start, size, this.pageBytes(list));
    return planFillings(fillings, this.#mover.pool, list.stream).missing;
  }

  #placeFor(list: FreeList, size: number): Block | null {
    return lowestSpace(list, size, (segment) => this.owns(segment)) ?? this.#reserve(list, size);
  }

  /** Bytes of the pages of a list. */
  pageBytes(list: FreeList): number {
    const { config } = this.#heap;
    const { totalMemory } = this.#device;
    const large =
      totalMemory < SMALL_DEVICE
        ? leastRemainder(totalMemory, SIZES_THERE)
        : Math.max(config.largeSegmentSize, Math.min(LARGEST_PAGE, totalMemory / MOST_PAGES));
    return pageBytesOf(list, config, this.#device, large);
  }

  #reserve(list: FreeList, size: number): Block | null {
    if (size > this.#device.totalMemory) return null;
    const pageBytes = this.pageBytes(list);
    const range = this.#addresses.reserve(size, (bytes) => new PageRange(this.#mover.pool, bytes, pageBytes));
    if (range === null) return null;
    const segment = this.#heap.addSegment({ address: range.address, size: range.bytes }, list, range);
    this.#mover.add(range, segment);
    this.#own.add(segment);
    this.#heap.joinUnmapped(segment.first);
    return segment.first;
  }

  #removeSegment(segment: Segment): void {
    const range = segment.range as PageRange;
    this.#addresses.free(range);
    this.#mover.remove(range);
    this.#own.delete(segment);
    segment.list.removeUnmapped(segment.first);
    this.#heap.removeSegment(segment);
  }
}

function leastRemainder(bytes: number, sizes: readonly number[]): number {
  return sizes.reduce((best, size) => (bytes % size < bytes % best ? size : best));
}

/** Whether a segment has neither blocks nor mappings. */
function isEmpty({ first, range }: Segment): boolean {
  return first.state === UNMAPPED && !first.isSplit && (range as PageRange).places().length === 0;
}

// Stitched segments: the last resort before a request fails although enough is free. A range of addresses that starts with the free end of one page,
// goes on with whole free pages, and ends with the free start of another; those two pages stay in use at their own addresses too, each byte at
// one address only. Kept when nothing lives in it, so that the same request later costs no call of the driver. Must not know when it is wanted.
// The idea: GMLake (Guo et al., ASPLOS 2024), which stitches whole blocks.

import type { Device } from '../device/types.js';
import { AddressSpaceError } from '../errors.js';
import type { Page, Place } from '../pages/page-pool.js';
import { PageRange } from '../pages/page-range.js';
import type { AddressReservation } from './address-reservation.js';
import { ALLOCATED, type Block, LENT, PENDING } from './block.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import { cutOut } from './holes.js';
import type { PageMover } from './page-mover.js';
import { type Choice, choosePieces, freeBlockOver, type Piece, piecesOf } from './page-pieces.js';
import { preferred } from './page-plan.js';
import type { Segment } from './segment.js';
import { waitForStreams } from './stream-order.js';

/** Stitched segments kept while nothing lives in them, where they can be dropped. */
const MOST_IDLE = 64;

/** A part of a page that is lent by the segment where the page has its home. */
interface Loan {
  readonly page: Page;
  readonly segment: Segment;
  readonly offset: number;
  readonly bytes: number;
  /** Of the stitched range. */
  readonly slot: number;
  /** The lender's block that stands for it while it is out. */
  node: Block | null;
}

interface Stitched {
  readonly segment: Segment;
  readonly range: PageRange;
  /** Where the usable bytes start, and how many there are. */
  readonly offset: number;
  readonly bytes: number;
  readonly loans: readonly Loan[];
  /** Of the whole pages. */
  readonly slots: readonly number[];
}

/** Where a request may be stitched from. */
export interface StitchOptions {
  readonly pageBytes: number;
  readonly lenders: readonly FreeList[];
  readonly lends: (segment: Segment) => boolean;
  /** Bytes that may be held afterwards. */
  readonly most: number;
}

export class StitchedSegments {
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #mover: PageMover;
  readonly #addresses: AddressReservation;
  readonly #out = new Set<Stitched>();
  /** Oldest first. */
  readonly #idle = new Set<Stitched>();

  constructor(heap: Heap, device: Device, mover: PageMover, addresses: AddressReservation) {
    this.#heap = heap;
    this.#device = device;
    this.#mover = mover;
    this.#addresses = addresses;
  }

  /**
   * A free, listed block of at least `size` bytes, from a kept segment or from pieces; null when they do not suffice. What is wholly free must have been
   * gathered. Linear in free blocks.
   */
  stitch(list: FreeList, size: number, options: StitchOptions): Block | null {
    const kept = this.#keptFor(list, size);
    if (kept !== null) {
      const pages = [...kept.loans.map(({ page }) => page), ...kept.slots.map((slot) => pageAt(kept, slot) as Page)];
      waitForStreams(
        list.stream,
        pages.map(({ stream }) => stream),
        this.#device,
      );
      return this.#open(kept);
    }
    const { pageBytes, lenders, lends, most } = options;
    const room = Math.min(most - this.#heap.reserved, this.#device.memGetInfo().free);
    const available = this.#mover.pool.free(pageBytes).size + Math.max(0, Math.floor(room / pageBytes));
    const choice = choosePieces(piecesOf(lenders, pageBytes, lends), size, pageBytes, available);
    return choice === null ? null : this.#make(list, size, choice, pageBytes);
  }

  /** Takes back what holds no live block: its whole pages are free, its loans return. They stay mapped. */
  takeBack(): void {
    for (const stitched of this.#out) if (holdsNothing(stitched.segment)) this.#takeBack(stitched);
    for (const stitched of this.#idle) {
      if (this.#idle.size <= MOST_IDLE) break;
      if (stitched.slots.every((slot) => isSpare(stitched, slot))) this.#drop(stitched);
    }
  }

  /** Drops what is kept; its whole pages have been given back to the device. Synchronising. */
  dropIdle(): void {
    for (const stitched of this.#idle) this.#drop(stitched);
  }

  /** The smallest kept one that serves a request as it is. */
  #keptFor(list: FreeList, size: number): Stitched | null {
    let best: Stitched | null = null;
    for (const stitched of this.#idle) {
      const fits =
        stitched.segment.list === list && stitched.bytes >= size && stitched.bytes < (best?.bytes ?? Infinity);
      if (fits && this.#isReady(stitched)) best = stitched;
    }
    return best;
  }

  #isReady(stitched: Stitched): boolean {
    const isFree = (slot: number): boolean => pageAt(stitched, slot)?.isFree ?? false;
    const isHome = ({ page, segment, offset, bytes, slot }: Loan): boolean =>
      page.home?.range === segment.range &&
      pageAt(stitched, slot) === page &&
      freeBlockOver(segment, offset, bytes) !== null;
    return stitched.slots.every(isFree) && stitched.loans.every(isHome);
  }

  #make(list: FreeList, size: number, choice: Choice, pageBytes: number): Block | null {
    const { lead, wholes, trail } = choice;
    const count = wholes + Number(lead !== null) + Number(trail !== null);
    const range = this.#reserve(count * pageBytes, pageBytes);
    if (range === null) return null;
    const segment = this.#heap.addSegment({ address: range.address, size: range.bytes }, list, range);
    segment.first.state = LENT;
    this.#mover.add(range, segment);
    const covered = (lead?.bytes ?? 0) + wholes * pageBytes;
    const loans = [];
    if (lead !== null) loans.push(loanOf(lead, lead.bytes, 0));
    if (trail !== null) loans.push(loanOf(trail, size - covered, count - 1));
    const firstWhole = Number(lead !== null);
    const stitched: Stitched = {
      segment,
      range,
      offset: lead === null ? 0 : pageBytes - lead.bytes,
      bytes: covered + (trail === null ? 0 : size - covered),
      loans,
      slots: Array.from({ length: wholes }, (_, i) => firstWhole + i),
    };
    // What happens from here on leaves it as one that is kept, ready or not.
    this.#idle.add(stitched);
    const free = preferred(this.#mover.pool.free(pageBytes), list.stream);
    const pages = [...(lead === null ? [] : [lead.page]), ...stitched.slots.map((_, i) => free[i] ?? null)];
    if (trail !== null) pages.push(trail.page);
    const supplied = this.#mover.supply(
      pages.map((page, slot) => ({ range, slot, page })),
      list.stream,
    );
    return supplied ? this.#open(stitched) : null;
  }

  #reserve(bytes: number, pageBytes: number): PageRange | null {
    try {
      const range = new PageRange(this.#mover.pool, bytes, pageBytes);
      this.#addresses.bytes += range.bytes;
      return range;
    } catch (error) {
      if (error instanceof AddressSpaceError) return null;
      throw error;
    }
  }

  /** Everything is mapped and free: it is in use here from now on. The free block that it is. */
  #open(stitched: Stitched): Block {
    const { segment, range, offset, bytes, loans, slots } = stitched;
    const heap = this.#heap;
    for (const loan of loans) {
      loan.node = cutOut(heap, freeBlockOver(loan.segment, loan.offset, loan.bytes) as Block, loan.offset, loan.bytes);
      loan.node.state = LENT;
      (range.placeAt(loan.slot) as Place).borrowed = true;
    }
    this.#mover.use(slots.map((slot) => ({ range, slot })));
    this.#idle.delete(stitched);
    this.#out.add(stitched);
    const usable = offset === 0 ? segment.first : heap.splitBack(segment.first, offset);
    if (usable.size > bytes) heap.splitBack(usable, bytes);
    return heap.joinFree(usable);
  }

  #takeBack(stitched: Stitched): void {
    const { segment, range, loans, slots } = stitched;
    const { list } = segment;
    for (const loan of loans) waitForStreams(loan.segment.list.stream, [list.stream], this.#device);
    this.#out.delete(stitched);
    this.#idle.add(stitched);
    this.#heap.collapse(segment, LENT);
    for (const slot of slots) {
      const place = range.placeAt(slot);
      if (place !== null && place.page.home === place && !place.page.isFree) {
        this.#mover.pool.setFree(place.page, list.stream);
      }
    }
    for (const loan of loans) {
      this.#heap.joinFree(loan.node as Block);
      loan.node = null;
      (range.placeAt(loan.slot) as Place).borrowed = false;
    }
  }

  #drop(stitched: Stitched): void {
    const { segment, range } = stitched;
    this.#mover.dropPlaces(range);
    range.free();
    this.#addresses.bytes -= range.bytes;
    this.#idle.delete(stitched);
    this.#mover.remove(range);
    this.#heap.removeSegment(segment);
  }
}

function loanOf({ page, segment, offset }: Piece, bytes: number, slot: number): Loan {
  return { page, segment, offset, bytes, slot, node: null };
}

function pageAt({ range }: Stitched, slot: number): Page | null {
  return range.placeAt(slot)?.page ?? null;
}

/** Whether a slot is empty, or its page is or was elsewhere. */
function isSpare({ range }: Stitched, slot: number): boolean {
  const place = range.placeAt(slot);
  return place === null || place.page.home !== place || place.page.places.length > 1;
}

function holdsNothing({ first }: Segment): boolean {
  for (let block: Block | null = first; block !== null; block = block.next) {
    if (block.state === ALLOCATED || block.state === PENDING) return false;
  }
  return true;
}

// Moves pages: makes them, maps them where they are wanted, says where they are in use, gives them back; and keeps statistics and history of that. Must
// not know which blocks lie on them, nor why they move.

import type { Device, PageOffers, Stream } from '../device/types.js';
import { DeviceOutOfMemoryError } from '../errors.js';
import { type Page, PagePool, type Place } from '../pages/page-pool.js';
import type { PageRange } from '../pages/page-range.js';
import type { Heap } from './heap.js';
import { RECORD_SEGMENT_MAP, RECORD_SEGMENT_UNMAP } from './history.js';
import type { SlotFilling } from './page-plan.js';
import type { Segment } from './segment.js';
import { RESERVED_BYTES } from './stats.js';
import { synchronizeAll, waitForStreams } from './stream-order.js';

interface Slot {
  readonly range: PageRange;
  readonly slot: number;
}

/** A slot and the page that is to be there. */
interface Wanted extends Slot {
  readonly page: Page;
}

/** Mappings that are kept at most. The kernel allows a process 65,530 of them, and the driver's own are among those. */
export const MOST_MAPPINGS = 32_768;

export class PageMover {
  readonly pool: PagePool;
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #segments = new Map<PageRange, Segment>();
  /** The device has run out: before more is asked of it, it is asked what it has, since creating some pages and giving them back is dear. */
  #short = false;
  readonly #mostMappings: number;

  /** @param mostMappings beyond which mappings that nothing uses go, before others are made */
  constructor(heap: Heap, device: Device, mostMappings = MOST_MAPPINGS) {
    this.#mostMappings = mostMappings;
    this.#heap = heap;
    this.#device = device;
    this.pool = new PagePool(device);
  }

  get ranges(): IterableIterator<[PageRange, Segment]> {
    return this.#segments.entries();
  }

  add(range: PageRange, segment: Segment): void {
    this.#segments.set(range, segment);
  }

  remove(range: PageRange): void {
    this.#segments.delete(range);
  }

  /** The free pages are this allocator's alone until `offer`; what others have taken is gone. */
  claim(): void {
    const { offers } = this.#device;
    if (offers === null) return;
    for (const page of this.pool.claim(offers)) {
      const home = page.home as Place;
      this.#heap.stats.decrease(RESERVED_BYTES, this.#segmentOf(home).list.kind, page.bytes);
      this.#record(RECORD_SEGMENT_UNMAP, [home]);
      this.pool.forget(page);
    }
  }

  /** Free pages, all of them when left out, may be taken by other allocators of this process, if there are any. */
  offer(pages: Iterable<Page> = this.pool.allFree()): void {
    const { offers } = this.#device;
    if (offers?.shared) this.pool.offer(offers, pages);
  }

  /**
   * Maps a page into every slot, new ones where the plan has none. False when the device has no memory left; nothing has changed then. After an
   * error nothing is lost: what was made is free.
   * @param offers take pages that other allocators of this process have offered before making any
   */
  supply(slots: readonly SlotFilling[], stream: Stream, offers: PageOffers | null = null): boolean {
    const missing = slots.filter(({ page }) => page === null);
    const fresh =
      missing.length === 0 ? [] : this.#create((missing[0] as Slot).range.pageBytes, missing.length, stream, offers);
    if (fresh === null) return false;
    let taken = 0;
    const wanted = slots.map(({ range, slot, page }) => ({ range, slot, page: page ?? (fresh[taken++] as Page) }));
    try {
      waitForStreams(
        stream,
        wanted.map(({ page }) => page.stream),
        this.#device,
      );
      this.#map(
        wanted.filter(({ range, slot, page }) => range.placeAt(slot)?.page !== page),
        stream,
      );
      return true;
    } catch (error) {
      this.pool.release(fresh.filter(({ places }) => places.length === 0));
      throw error;
    }
  }

  /** Free pages, mapped at these slots, are in use there from now on. */
  use(slots: readonly Slot[]): void {
    const places = slots.map(({ range, slot }) => range.placeAt(slot) as Place);
    const moved = places.filter((place) => place.page.home !== place);
    this.#record(
      RECORD_SEGMENT_UNMAP,
      moved.map(({ page }) => page.home as Place),
    );
    for (const place of places) {
      this.#countMove(place);
      this.pool.use(place.page, place, this.#segmentOf(place).list.stream);
    }
    this.#record(RECORD_SEGMENT_MAP, moved);
  }

  /** Gives free pages back to the device, all their mappings first. Synchronising. */
  release(pages: readonly Page[]): void {
    if (pages.length === 0) return;
    // Unmapping does not wait for work that still uses the pages; the last stream of a page has waited for those before it.
    synchronizeAll(
      pages.map(({ stream }) => stream),
      this.#device,
    );
    this.unmap(pages.flatMap(({ places, home }) => places.filter((place) => place !== home)));
    this.#short = false;
    for (const run of runsOf(pages.map(({ home }) => home as Place))) {
      const { range, slot } = run[0] as Place;
      range.unmap(slot, run.length);
      const bytes = run.length * range.pageBytes;
      this.#heap.stats.decrease(RESERVED_BYTES, this.#segmentOf(run[0] as Place).list.kind, bytes);
      this.#heap.stats.counters.num_device_free++;
      this.#record(RECORD_SEGMENT_UNMAP, run);
      this.pool.release(run.map(({ page }) => page));
    }
  }

  /** Takes mappings away that nothing uses: neighbours together. Each run is unmapped whole or not at all. */
  unmap(places: readonly Place[]): void {
    for (const run of runsOf(places)) {
      const { range, slot } = run[0] as Place;
      range.unmap(slot, run.length);
    }
  }

  /** Takes all mappings of a range away; pages that have their home there have it elsewhere then. Synchronising. */
  dropPlaces(range: PageRange): void {
    const places = range.places();
    if (places.length === 0) return;
    synchronizeAll([this.#segmentOf(places[0] as Place).list.stream], this.#device);
    for (const place of places) if (place.page.home === place) this.#moveHome(place);
    this.unmap(places);
  }

  /** Gives all pages, of which none is free, back to the device; they and their places are remembered. */
  suspend(): void {
    this.pool.suspend(this.#segments.keys());
    this.#short = false;
  }

  #create(pageBytes: number, count: number, stream: Stream, offers: PageOffers | null): Page[] | null {
    if (this.#short && offers === null && this.#device.memGetInfo().free < pageBytes * count) return null;
    try {
      const pages =
        offers === null ? this.pool.create(pageBytes, count, stream) : this.pool.take(offers, pageBytes, count, stream);
      this.#short = false;
      return pages;
    } catch (error) {
      if (!(error instanceof DeviceOutOfMemoryError)) throw error;
      this.#short = true;
      return null;
    }
  }

  #map(wanted: readonly Wanted[], stream: Stream): void {
    const occupied = wanted.map(({ range, slot }) => range.placeAt(slot)).filter((place) => place !== null);
    if (occupied.length > 0) {
      // Work that used the addresses while another page was behind them.
      synchronizeAll([stream], this.#device);
      for (const place of occupied) if (place.page.home === place) this.#moveHome(place);
      this.unmap(occupied);
    }
    if (this.pool.mappings + wanted.length > this.#mostMappings) this.#dropSpares(wanted);
    for (const run of runsOf(wanted)) {
      const { range, slot } = run[0] as Wanted;
      range.map(
        slot,
        run.map(({ page }) => page),
      );
      const fresh = run.filter(({ page }) => page.home === null).map((at) => range.placeAt(at.slot) as Place);
      if (fresh.length === 0) continue;
      for (const place of fresh) {
        place.page.home = place;
        this.pool.setFree(place.page, stream);
      }
      const { kind } = this.#segmentOf(fresh[0] as Place).list;
      this.#heap.stats.increase(RESERVED_BYTES, kind, fresh.length * range.pageBytes);
      this.#heap.stats.counters.num_device_alloc++;
      this.#record(RECORD_SEGMENT_MAP, fresh);
    }
  }

  /** Takes mappings away at which no page has its home and none is in use, but for those of pages that are about to be used. Synchronising. */
  #dropSpares(wanted: readonly Wanted[]): void {
    const kept = new Set(wanted.map(({ page }) => page));
    for (const [range, { list }] of this.#segments) {
      const spares = range.places().filter((place) => isSpare(place) && !kept.has(place.page));
      if (spares.length === 0) continue;
      synchronizeAll([list.stream], this.#device);
      this.unmap(spares);
    }
  }

  /** The home of a free page is at another of its places from now on: this one goes. */
  #moveHome(home: Place): void {
    const { page } = home;
    const next = page.places.find((place) => place !== home) as Place;
    this.#record(RECORD_SEGMENT_UNMAP, [home]);
    this.#countMove(next);
    page.home = next;
    this.#record(RECORD_SEGMENT_MAP, [next]);
  }

  /** The home of a page is about to move here. */
  #countMove(to: Place): void {
    const { home, bytes } = to.page;
    const before = this.#segmentOf(home as Place).list.kind;
    const { kind } = this.#segmentOf(to).list;
    if (before === kind) return;
    this.#heap.stats.decrease(RESERVED_BYTES, before, bytes);
    this.#heap.stats.increase(RESERVED_BYTES, kind, bytes);
  }

  #segmentOf({ range }: Slot): Segment {
    return this.#segments.get(range) as Segment;
  }

  #record(action: number, slots: readonly Slot[]): void {
    if (this.#heap.history === null) return;
    for (const run of runsOf(slots)) {
      const { range, slot } = run[0] as Slot;
      const bytes = run.length * range.pageBytes;
      this.#heap.recordSegment(action, this.#segmentOf(run[0] as Slot), slot * range.pageBytes, bytes);
    }
  }
}

function isSpare(place: Place): boolean {
  return place.page.home !== place && !place.borrowed;
}

/** Neighbouring slots of one range together, by address. */
export function runsOf<T extends Slot>(slots: readonly T[]): T[][] {
  const sorted = [...slots].sort((a, b) => (a.range === b.range ? a.slot - b.slot : a.range.address - b.range.address));
  const runs: T[][] = [];
  let last: T | undefined;
  for (const slot of sorted) {
    if (last !== undefined && last.range === slot.range && last.slot + 1 === slot.slot) (runs.at(-1) as T[]).push(slot);
    else runs.push([slot]);
    last = slot;
  }
  return runs;
}

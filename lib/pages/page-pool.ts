// The physical pages of one allocator: which there are, where each is mapped, and which are free to be put behind other addresses. A page may be
// mapped at several addresses at once; it is in use at one of them at most. Must not know what the memory is used for.

import type { Device, PageOffers, Stream } from '../device/types.js';
import type { PageRange } from './page-range.js';
import { PhysicalPages } from './physical-pages.js';
import { Suspension } from './suspension.js';

/** A mapping of a page: a slot of a range. */
export interface Place {
  readonly page: Page;
  readonly range: PageRange;
  readonly slot: number;
  /** A part of the page is in use here although its home is elsewhere. */
  borrowed: boolean;
}

/** One physical allocation (`cuMemCreate`). */
export class Page {
  handle: number;
  readonly bytes: number;
  /** Where it is mapped. */
  readonly places: Place[] = [];
  /** Where it is in use or was last; null only while it is mapped nowhere. */
  home: Place | null = null;
  /** Whose work used it last. */
  stream: Stream;
  /** It may be put elsewhere. Set by the pool. */
  isFree = false;

  constructor(handle: number, bytes: number, stream: Stream) {
    this.handle = handle;
    this.bytes = bytes;
    this.stream = stream;
  }
}

export class PagePool {
  readonly device: Device;
  readonly #physical: PhysicalPages;
  readonly #all = new Set<Page>();
  readonly #free = new Map<number, Set<Page>>();
  /** Free pages that others in this process may take. */
  readonly #offered = new Set<Page>();
  #freeBytes = 0;
  #mappings = 0;
  /** While the device has all pages back. */
  #suspension: Suspension | null = null;

  constructor(device: Device) {
    this.device = device;
    this.#physical = new PhysicalPages(device);
  }

  /** Bytes of the pages that are free to be put elsewhere. */
  get freeBytes(): number {
    return this.#freeBytes;
  }

  /** Bytes of pages that the driver refused to take back. */
  get keptBytes(): number {
    return this.#physical.keptBytes;
  }

  /** Mappings there are. */
  get mappings(): number {
    return this.#mappings;
  }

  /** The free pages of a size. */
  free(pageBytes: number): ReadonlySet<Page> {
    return this.#freeOf(pageBytes);
  }

  /** All free pages. */
  *allFree(): IterableIterator<Page> {
    for (const pages of this.#free.values()) yield* pages;
  }

  /** New pages, free, mapped nowhere. All or none. @throws DeviceOutOfMemoryError */
  create(pageBytes: number, count: number, stream: Stream): Page[] {
    const handles = new Int32Array(count);
    this.#physical.create(pageBytes, handles);
    return this.#adopt(pageBytes, handles, stream);
  }

  /** As `create`, of pages that others have offered as far as there are any. Synchronising. @throws DeviceOutOfMemoryError */
  take(offers: PageOffers, pageBytes: number, count: number, stream: Stream): Page[] {
    const handles = new Int32Array(count);
    const taken = handles.subarray(0, offers.take(pageBytes, handles));
    try {
      if (taken.length < count) this.#physical.create(pageBytes, handles.subarray(taken.length));
    } catch (error) {
      this.#physical.release(pageBytes, taken);
      throw error;
    }
    return this.#adopt(pageBytes, handles, stream);
  }

  #adopt(pageBytes: number, handles: Int32Array, stream: Stream): Page[] {
    const pages = Array.from(handles, (handle) => new Page(handle, pageBytes, stream));
    for (const page of pages) this.#all.add(page);
    return pages;
  }

  /** Others in this process may take these free pages until `claim`, whatever this thread does meanwhile. */
  offer(offers: PageOffers, pages: Iterable<Page>): void {
    const fresh = [...pages].filter((page) => !this.#offered.has(page));
    if (fresh.length === 0) return;
    offers.offer(handlesOf(fresh));
    for (const page of fresh) this.#offered.add(page);
  }

  /** Takes back what was offered. The pages that others have taken are returned, with their places as they were. */
  claim(offers: PageOffers): Page[] {
    if (this.#offered.size === 0) return [];
    const offered = [...this.#offered];
    const handles = handlesOf(offered);
    const gone = offers.claim(handles);
    this.#offered.clear();
    if (gone === 0) return [];
    return offered.filter((_, i) => handles[i] === -1);
  }

  /** Somebody has taken the page and unmapped it. */
  forget(page: Page): void {
    for (const { range, slot } of [...page.places]) range.forget(slot);
    this.#takeOut(page);
    this.#all.delete(page);
  }

  /** The page may be put elsewhere, after the work of `stream` so far. */
  setFree(page: Page, stream: Stream): void {
    page.stream = stream;
    page.isFree = true;
    this.#freeOf(page.bytes).add(page);
    this.#freeBytes += page.bytes;
  }

  /** The page is in use at `place`, by work of `stream`. */
  use(page: Page, place: Place, stream: Stream): void {
    this.#takeOut(page);
    page.home = place;
    page.stream = stream;
  }

  /** Gives pages that are mapped nowhere back to the driver; those that it refuses are kept for the next creation. @throws DriverError */
  release(pages: readonly Page[]): void {
    const bySize = groupBySize(pages);
    let failure: unknown;
    for (const [bytes, group] of bySize) {
      for (const page of group) {
        if (page.isFree) this.#takeOut(page);
        this.#all.delete(page);
      }
      try {
        this.#physical.release(bytes, handlesOf(group));
      } catch (error) {
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
  }

  /** Gives everything back. For closing only: nothing is mapped any more. After an error it can be called again. */
  releaseAll(): void {
    this.release([...this.#all]);
    this.releaseKept();
  }

  /** Tries again to give back what the driver refused to take. */
  releaseKept(): void {
    this.#physical.releaseKept();
  }

  /**
   * Gives all pages back to the device; they and their places are remembered. None is free; `ranges` are all that there are. After an error all is as
   * before.
   */
  suspend(ranges: Iterable<PageRange>): void {
    const runs = [...ranges].flatMap((range) => range.runs());
    this.#suspension = new Suspension(this.#physical, runs);
  }

  /** Makes the pages again, mapped where they were. After an error all is as before. @throws DeviceOutOfMemoryError */
  resume(): void {
    const handles = this.#suspension?.end();
    for (const page of this.#all) page.handle = handles?.get(page.handle) ?? page.handle;
    this.#suspension = null;
  }

  /** Closing while the device has all pages back: there is nothing to unmap or to release. */
  forgetSuspended(): void {
    if (this.#suspension === null) return;
    for (const page of this.#all) for (const { range, slot } of [...page.places]) range.forget(slot);
    this.#all.clear();
    this.#suspension = null;
  }

  /** @internal for ranges */
  noteMapped(place: Place): void {
    place.page.places.push(place);
    this.#mappings++;
  }

  /** @internal for ranges */
  noteUnmapped(place: Place): void {
    const { page } = place;
    page.places.splice(page.places.indexOf(place), 1);
    if (page.home === place) page.home = null;
    this.#mappings--;
  }

  #takeOut(page: Page): void {
    page.isFree = false;
    this.#freeOf(page.bytes).delete(page);
    this.#freeBytes -= page.bytes;
  }

  #freeOf(pageBytes: number): Set<Page> {
    let pages = this.#free.get(pageBytes);
    if (pages === undefined) {
      pages = new Set();
      this.#free.set(pageBytes, pages);
    }
    return pages;
  }
}

function handlesOf(pages: readonly Page[]): Int32Array {
  return Int32Array.from(pages, ({ handle }) => handle);
}

function groupBySize(pages: readonly Page[]): Map<number, Page[]> {
  const groups = new Map<number, Page[]>();
  for (const page of pages) {
    const group = groups.get(page.bytes);
    if (group === undefined) groups.set(page.bytes, [page]);
    else group.push(page);
  }
  return groups;
}

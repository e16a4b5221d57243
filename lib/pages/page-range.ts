// One reserved range of addresses, cut into slots of one page each, and which page is mapped where. Which of them are in use is not its business.
// Must not know what the memory is used for.

import type { Page, PagePool, Place } from './page-pool.js';
import { type MappedRun, runsOfMapped } from './suspension.js';

export class PageRange {
  readonly address: number;
  /** Bytes of address space; a multiple of `pageBytes`. */
  readonly bytes: number;
  readonly pageBytes: number;
  readonly #pool: PagePool;
  /** By slot; as long as slots were ever mapped. */
  readonly #places: (Place | null)[] = [];

  /** @throws AddressSpaceError when the driver refuses the reservation. */
  constructor(pool: PagePool, bytes: number, pageBytes: number) {
    this.#pool = pool;
    this.pageBytes = pageBytes;
    this.bytes = Math.ceil(bytes / pageBytes) * pageBytes;
    this.address = pool.device.addressReserve(this.bytes);
  }

  /** All its mappings, by address. Linear in slots. */
  places(): Place[] {
    return this.#places.filter((place) => place !== null);
  }

  /** What is mapped at a slot. */
  placeAt(slot: number): Place | null {
    return this.#places[slot] ?? null;
  }

  /** The stretches of `[offset, offset + bytes)` whose pages are free and have their home there, neighbours joined. Linear in slots. */
  heldIn(offset: number, bytes: number): { readonly offset: number; readonly bytes: number }[] {
    const held: { offset: number; bytes: number }[] = [];
    const end = Math.min(Math.floor((offset + bytes) / this.pageBytes), this.#places.length);
    for (let slot = Math.ceil(offset / this.pageBytes); slot < end; slot++) {
      const place = this.placeAt(slot);
      if (place === null || !place.page.isFree || place.page.home !== place) continue;
      const last = held.at(-1);
      const start = slot * this.pageBytes;
      if (last !== undefined && last.offset + last.bytes === start) last.bytes += this.pageBytes;
      else held.push({ offset: start, bytes: this.pageBytes });
    }
    return held;
  }

  /** What is mapped, neighbours together. Linear in slots. */
  runs(): MappedRun[] {
    return runsOfMapped(
      this.address,
      this.pageBytes,
      Int32Array.from(this.#places, (place) => place?.page.handle ?? -1),
    );
  }

  /** Maps pages from a slot on, where nothing is mapped. One driver call a page and one for access to all. All or none. */
  map(first: number, pages: readonly Page[]): void {
    const { device } = this.#pool;
    const handles = Int32Array.from(pages, ({ handle }) => handle);
    device.memMap(this.address + first * this.pageBytes, this.pageBytes, handles);
    while (this.#places.length < first) this.#places.push(null);
    pages.forEach((page, i) => {
      const place = { page, range: this, slot: first + i, borrowed: false };
      this.#places[first + i] = place;
      this.#pool.noteMapped(place);
    });
  }

  /** Unmaps slots, all of them mapped. One driver call. All or none. */
  unmap(first: number, count: number): void {
    this.#pool.device.memUnmapRange(this.address + first * this.pageBytes, count * this.pageBytes);
    for (let slot = first; slot < first + count; slot++) this.forget(slot);
  }

  /** A slot is not mapped any more: whoever took its page away unmapped it. */
  forget(slot: number): void {
    this.#pool.noteUnmapped(this.#places[slot] as Place);
    this.#places[slot] = null;
  }

  /** Gives the addresses back; everything must be unmapped. */
  free(): void {
    this.#pool.device.addressFree(this.address, this.bytes);
  }
}

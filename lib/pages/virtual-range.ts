// One reserved range of addresses and the physical pages mapped into it. Offsets and sizes are bytes from the start of the range.
// Must not know what the memory is used for.

import type { Device } from '../device/types.js';
import type { PhysicalPages } from './physical-pages.js';
import { type MappedRun, runsOfMapped } from './suspension.js';

const UNMAPPED = -1;

/** A stretch of a range that was unmapped, with the pages that were behind it; they are the caller's to release. */
export interface UnmappedSpan {
  readonly offset: number;
  readonly bytes: number;
  readonly handles: Int32Array;
}

export class VirtualRange {
  readonly address: number;
  /** Bytes of address space; a multiple of `pageBytes`. */
  readonly bytes: number;
  readonly pageBytes: number;
  readonly #device: Device;
  readonly #pages: PhysicalPages;
  /** Handle of each page, UNMAPPED where there is none. */
  readonly #handles: Int32Array;

  /** @throws AddressSpaceError when the driver refuses the reservation. */
  constructor(pages: PhysicalPages, bytes: number, pageBytes: number) {
    this.#device = pages.device;
    this.#pages = pages;
    this.pageBytes = pageBytes;
    const count = Math.ceil(bytes / pageBytes);
    this.bytes = count * pageBytes;
    this.address = this.#device.addressReserve(this.bytes);
    this.#handles = new Int32Array(count).fill(UNMAPPED);
  }

  /**
   * Puts fresh pages behind `[offset, offset + bytes)`, rounded up to whole pages; `offset` starts a page and nothing is mapped there.
   * Returns the bytes mapped. After an error nothing is mapped.
   * @throws DeviceOutOfMemoryError
   */
  map(offset: number, bytes: number): number {
    const first = offset / this.pageBytes;
    const count = Math.ceil(bytes / this.pageBytes);
    const handles = this.#handles.subarray(first, first + count);
    try {
      this.#pages.create(this.pageBytes, handles);
    } catch (error) {
      handles.fill(UNMAPPED);
      throw error;
    }
    try {
      this.#device.memMap(this.address + offset, this.pageBytes, handles);
    } catch (error) {
      const unused = handles.slice();
      handles.fill(UNMAPPED);
      this.#pages.release(this.pageBytes, unused);
      throw error;
    }
    return count * this.pageBytes;
  }

  /** True when `[offset, offset + bytes)` has a whole page inside. */
  hasWholePage(offset: number, bytes: number): boolean {
    return Math.ceil(offset / this.pageBytes) < Math.floor((offset + bytes) / this.pageBytes);
  }

  /** Unmaps the whole pages inside `[offset, offset + bytes)`, at least one, all of them mapped. All or none. */
  unmap(offset: number, bytes: number): UnmappedSpan {
    const first = Math.ceil(offset / this.pageBytes);
    const end = Math.floor((offset + bytes) / this.pageBytes);
    this.#device.memUnmap(this.address + first * this.pageBytes, this.pageBytes, end - first);
    const handles = this.#handles.slice(first, end);
    this.#handles.fill(UNMAPPED, first, end);
    return { offset: first * this.pageBytes, bytes: (end - first) * this.pageBytes, handles };
  }

  /** What is mapped, neighbours together. Linear in pages. */
  runs(): MappedRun[] {
    return runsOfMapped(this.address, this.pageBytes, this.#handles);
  }

  /** Its pages were made again: these are their new handles. */
  renumber(newHandles: ReadonlyMap<number, number>): void {
    this.#handles.forEach((old, i) => {
      if (old !== UNMAPPED) this.#handles[i] = newHandles.get(old) as number;
    });
  }

  /** Gives the addresses back; everything must be unmapped. */
  free(): void {
    this.#device.addressFree(this.address, this.bytes);
  }
}

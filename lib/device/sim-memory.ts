// The simulated device's memory: which addresses are taken, by what, and how many bytes are left. There is nothing behind
// the addresses. Checks its callers as strictly as CUDA does; counts calls through SimCalls and knows no streams.

import { InvalidAddressError, InvalidSizeError, UseAfterFreeError } from '../errors.js';
import { checkBytes, checkCount } from './check.js';
import { CALL, type SimCalls } from './sim-calls.js';

export const GRANULARITY = 2 * 1024 * 1024;
const FIRST_ADDRESS = 0x7f0000000000;
const LAST_ADDRESS = Number.MAX_SAFE_INTEGER;

interface Page {
  readonly bytes: number;
  mappings: number;
  released: boolean;
}

interface Mapping {
  readonly address: number;
  readonly bytes: number;
  readonly handle: number;
  readonly page: Page;
}

interface Reservation {
  readonly address: number;
  readonly bytes: number;
  mappings: number;
}

export class SimMemory {
  readonly capacity: number;
  readonly #calls: SimCalls;
  readonly #allocations = new Map<number, number>();
  /** Ascending addresses, since addresses are never used again. */
  readonly #reservations: Reservation[] = [];
  readonly #pages = new Map<number, Page>();
  /** By granule number; a mapping of several granules is entered under each of them. */
  readonly #mappings = new Map<number, Mapping>();
  #used = 0;
  #others = 0;
  #nextAddress = FIRST_ADDRESS;
  #nextHandle = 0;

  constructor(capacity: number, calls: SimCalls) {
    this.capacity = capacity;
    this.#calls = calls;
  }

  get free(): number {
    return this.capacity - this.#used - this.#others;
  }

  /** Another process takes bytes, at most what is free, or (negative) gives back at most what it had taken. */
  takeByOthers(bytes: number): void {
    this.#others = Math.min(Math.max(0, this.#others + bytes), this.capacity - this.#used);
  }

  malloc(bytes: number): number {
    checkBytes(bytes);
    this.#calls.enter(CALL.cudaMalloc);
    this.#take(bytes, CALL.cudaMalloc);
    const address = this.#newRange(bytes, GRANULARITY);
    if (address === 0) {
      this.#used -= bytes;
      throw this.#calls.fail(CALL.cudaMalloc, 'CUDA_ERROR_OUT_OF_MEMORY', 'the addresses below 2^53 are used up');
    }
    this.#allocations.set(address, bytes);
    return address;
  }

  release(address: number): void {
    const bytes = this.#allocations.get(address);
    if (bytes === undefined) {
      throw new InvalidAddressError(address, `cudaFree: no allocation of this device starts at ${String(address)}`);
    }
    this.#calls.enter(CALL.cudaFree);
    this.#allocations.delete(address);
    this.#used -= bytes;
  }

  reserve(bytes: number, alignment: number): number {
    checkBytes(bytes);
    checkCount(alignment, 'alignment');
    this.#calls.enter(CALL.cuMemAddressReserve);
    const refuse = (why: string) => this.#calls.fail(CALL.cuMemAddressReserve, 'CUDA_ERROR_INVALID_VALUE', why);
    if (bytes % GRANULARITY !== 0) throw refuse(`${bytes} bytes are not a multiple of the granularity`);
    if (alignment !== 0 && !isPowerOfTwo(alignment)) throw refuse(`alignment ${alignment} is not a power of two`);
    const address = this.#newRange(bytes, Math.max(alignment, GRANULARITY));
    if (address === 0) throw refuse(`there are not ${bytes} bytes of addresses left below 2^53`);
    this.#reservations.push({ address, bytes, mappings: 0 });
    return address;
  }

  freeReservation(address: number, bytes: number): void {
    const index = this.#findReservation(address);
    const range = this.#reservations[index];
    if (range === undefined || range.address !== address || range.bytes !== bytes) {
      const message = `cuMemAddressFree: no reservation of ${String(bytes)} bytes starts at ${String(address)}`;
      throw new InvalidAddressError(address, message);
    }
    if (range.mappings > 0) {
      const message = `cuMemAddressFree: ${range.mappings} pages are still mapped in the range at ${address}`;
      throw new InvalidAddressError(address, message);
    }
    this.#calls.enter(CALL.cuMemAddressFree);
    this.#reservations.splice(index, 1);
  }

  createPages(pageBytes: number, handles: Int32Array): void {
    checkBytes(pageBytes, 'pageBytes');
    const first = this.#nextHandle;
    try {
      for (let i = 0; i < handles.length; i++) {
        this.#calls.enter(CALL.cuMemCreate);
        if (pageBytes % GRANULARITY !== 0) {
          const why = `${pageBytes} bytes are not a multiple of the granularity`;
          throw this.#calls.fail(CALL.cuMemCreate, 'CUDA_ERROR_INVALID_VALUE', why);
        }
        this.#take(pageBytes, CALL.cuMemCreate);
        this.#pages.set(this.#nextHandle++, { bytes: pageBytes, mappings: 0, released: false });
      }
    } catch (error) {
      for (let handle = first; handle < this.#nextHandle; handle++) {
        if (!this.#calls.attempt(CALL.cuMemRelease)) continue;
        this.#pages.delete(handle);
        this.#used -= pageBytes;
      }
      throw error;
    }
    for (let i = 0; i < handles.length; i++) handles[i] = first + i;
  }

  releasePages(handles: Int32Array): void {
    for (let i = 0; i < handles.length; i++) {
      const handle = handles[i] ?? -1;
      if (handle === -1) continue;
      const page = this.#page(handle, 'cuMemRelease');
      // Unmapping may have to be undone, which needs the page: a mapped one goes back with its last mapping.
      if (page.mappings > 0) page.released = true;
      else this.#releasePage(handle, page);
      handles[i] = -1;
    }
  }

  map(address: number, pageBytes: number, handles: Int32Array): void {
    checkBytes(pageBytes, 'pageBytes');
    if (handles.length === 0) return;
    const range = this.#rangeOf(address, pageBytes * handles.length, 'cuMemMap');
    this.#checkUnmapped(address, pageBytes * handles.length);
    const pages = Array.from(handles, (handle) => this.#page(handle, 'cuMemMap'));
    for (const page of pages) {
      if (page.bytes !== pageBytes) {
        throw new InvalidSizeError(pageBytes, `cuMemMap: a page has ${page.bytes} bytes, not ${pageBytes}`);
      }
    }
    const done: Mapping[] = [];
    try {
      pages.forEach((page, i) => {
        const at = address + i * pageBytes;
        this.#calls.enter(CALL.cuMemMap);
        if (at % GRANULARITY !== 0) {
          throw this.#calls.fail(CALL.cuMemMap, 'CUDA_ERROR_INVALID_VALUE', `${at} is not aligned to the granularity`);
        }
        const mapping = { address: at, bytes: pageBytes, handle: handles[i] ?? -1, page };
        this.#enterMapping(range, mapping);
        done.push(mapping);
      });
      this.#calls.enter(CALL.cuMemSetAccess);
    } catch (error) {
      for (const mapping of done.reverse()) {
        if (this.#calls.attempt(CALL.cuMemUnmap)) this.#eraseMapping(range, mapping);
      }
      throw error;
    }
  }

  unmap(address: number, pageBytes: number, count: number): void {
    checkBytes(pageBytes, 'pageBytes');
    checkCount(count, 'count');
    if (count === 0) return;
    const mappings = Array.from({ length: count }, (_, i) => this.#mappingAt(address + i * pageBytes, pageBytes));
    const range = this.#rangeOf(address, pageBytes * count, 'cuMemUnmap');
    let done = 0;
    try {
      for (; done < count; done++) this.#calls.enter(CALL.cuMemUnmap);
    } catch (error) {
      let again = 0;
      while (again < done && this.#calls.attempt(CALL.cuMemMap)) again += 1;
      if (again > 0) this.#calls.attempt(CALL.cuMemSetAccess);
      for (const lost of mappings.slice(again, done)) this.#eraseMapping(range, lost);
      throw error;
    }
    this.#eraseAll(range, mappings);
  }

  /** Whole neighbouring mappings in one call. */
  unmapRange(address: number, bytes: number): void {
    checkBytes(bytes);
    const range = this.#rangeOf(address, bytes, 'cuMemUnmap');
    const mappings: Mapping[] = [];
    for (let at = address; at < address + bytes; ) {
      const mapping = this.#mappings.get(at / GRANULARITY);
      if (mapping === undefined || mapping.address !== at || at + mapping.bytes > address + bytes) {
        throw new InvalidAddressError(at, `cuMemUnmap: no whole pages are mapped from ${at} to ${address + bytes}`);
      }
      mappings.push(mapping);
      at += mapping.bytes;
    }
    this.#calls.enter(CALL.cuMemUnmap);
    this.#eraseAll(range, mappings);
  }

  /** Pages that were given up go back to the driver. */
  #eraseAll(range: Reservation, mappings: readonly Mapping[]): void {
    let failure: unknown;
    for (const mapping of mappings) {
      this.#eraseMapping(range, mapping);
      if (!mapping.page.released || mapping.page.mappings > 0) continue;
      try {
        this.#releasePage(mapping.handle, mapping.page);
      } catch (error) {
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
  }

  #take(bytes: number, call: number): void {
    if (this.#used + this.#others + bytes > this.capacity) {
      const why = `${bytes} bytes were asked for, ${this.free} of ${this.capacity} are free`;
      throw this.#calls.fail(call, 'CUDA_ERROR_OUT_OF_MEMORY', why);
    }
    this.#used += bytes;
  }

  #releasePage(handle: number, page: Page): void {
    this.#calls.enter(CALL.cuMemRelease);
    this.#pages.delete(handle);
    this.#used -= page.bytes;
  }

  /** 0 when the addresses are used up. A granule is left out after each range, so that no two ranges touch. */
  #newRange(bytes: number, alignment: number): number {
    const address = Math.ceil(this.#nextAddress / alignment) * alignment;
    const next = address + Math.ceil(bytes / GRANULARITY) * GRANULARITY + GRANULARITY;
    if (next > LAST_ADDRESS) return 0;
    this.#nextAddress = next;
    return address;
  }

  #page(handle: number, fn: string): Page {
    const page = this.#pages.get(handle);
    if (page !== undefined && !page.released) return page;
    const message = `${fn}: there is no page with the handle ${handle}`;
    throw handle >= 0 && handle < this.#nextHandle
      ? new UseAfterFreeError(message)
      : new InvalidAddressError(handle, message);
  }

  #rangeOf(address: number, bytes: number, fn: string): Reservation {
    const range = this.#reservations[this.#findReservation(address)];
    if (range === undefined || address + bytes > range.address + range.bytes) {
      throw new InvalidAddressError(
        address,
        `${fn}: ${bytes} bytes from ${String(address)} on are not inside a reservation`,
      );
    }
    return range;
  }

  /** Index of the last reservation that starts at or below `address`; -1 when there is none. */
  #findReservation(address: number): number {
    let low = 0;
    let high = this.#reservations.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#reservations[middle]?.address ?? 0) <= address) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  #checkUnmapped(address: number, bytes: number): void {
    const end = (address + bytes) / GRANULARITY;
    for (let granule = Math.floor(address / GRANULARITY); granule < end; granule++) {
      if (!this.#mappings.has(granule)) continue;
      throw new InvalidAddressError(address, `cuMemMap: a page is mapped at ${granule * GRANULARITY} already`);
    }
  }

  #mappingAt(address: number, bytes: number): Mapping {
    const mapping = this.#mappings.get(address / GRANULARITY);
    if (mapping !== undefined && mapping.address === address && mapping.bytes === bytes) return mapping;
    throw new InvalidAddressError(address, `cuMemUnmap: no page of ${bytes} bytes is mapped at ${String(address)}`);
  }

  #enterMapping(range: Reservation, mapping: Mapping): void {
    const end = (mapping.address + mapping.bytes) / GRANULARITY;
    for (let granule = mapping.address / GRANULARITY; granule < end; granule++) this.#mappings.set(granule, mapping);
    mapping.page.mappings += 1;
    range.mappings += 1;
  }

  #eraseMapping(range: Reservation, mapping: Mapping): void {
    const end = (mapping.address + mapping.bytes) / GRANULARITY;
    for (let granule = mapping.address / GRANULARITY; granule < end; granule++) this.#mappings.delete(granule);
    mapping.page.mappings -= 1;
    range.mappings -= 1;
  }
}

function isPowerOfTwo(value: number): boolean {
  return Number.isInteger(Math.log2(value));
}

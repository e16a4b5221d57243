// Physical pages that were given back to the device while the addresses in front of them stay. Must not know what they held.

import type { PhysicalPages } from './physical-pages.js';

/** Neighbouring pages of one size, and where they are mapped. A page may be in several runs. */
export interface MappedRun {
  readonly address: number;
  readonly pageBytes: number;
  readonly handles: Int32Array;
}

/** The runs of a range of pages; a handle is -1 where nothing is mapped. Linear in pages. */
export function runsOfMapped(address: number, pageBytes: number, handles: Int32Array): MappedRun[] {
  const runs: MappedRun[] = [];
  for (let first = 0; first < handles.length; first++) {
    if (handles[first] === -1) continue;
    let end = first + 1;
    while (end < handles.length && handles[end] !== -1) end++;
    runs.push({ address: address + first * pageBytes, pageBytes, handles: handles.slice(first, end) });
    first = end;
  }
  return runs;
}

export class Suspension {
  readonly #physical: PhysicalPages;
  readonly #runs: readonly MappedRun[];
  /** The pages of each size. */
  readonly #pages = new Map<number, Set<number>>();

  /**
   * Unmaps everything, then gives the pages back; those that the driver refuses to take are kept for the next creation. Nothing may use them any
   * more. After an error all is as before.
   */
  constructor(physical: PhysicalPages, runs: readonly MappedRun[]) {
    this.#physical = physical;
    this.#runs = runs;
    for (const { pageBytes, handles } of runs) {
      const pages = this.#pages.get(pageBytes) ?? new Set();
      this.#pages.set(pageBytes, pages);
      for (const handle of handles) pages.add(handle);
    }
    this.#unmapAll();
    for (const [pageBytes, pages] of this.#pages) physical.releaseOrKeep(pageBytes, Int32Array.from(pages));
  }

  /**
   * Makes as many pages and maps them where they were. Returns the new handle of each old one. After an error all is as before.
   * @throws DeviceOutOfMemoryError
   */
  end(): ReadonlyMap<number, number> {
    const made: [number, Int32Array][] = [];
    const newHandles = new Map<number, number>();
    try {
      for (const [pageBytes, pages] of this.#pages) {
        const handles = new Int32Array(pages.size);
        this.#physical.create(pageBytes, handles);
        made.push([pageBytes, handles]);
        [...pages].forEach((old, i) => {
          newHandles.set(old, handles[i] as number);
        });
      }
      this.#mapAll(newHandles);
      return newHandles;
    } catch (error) {
      for (const [pageBytes, handles] of made) this.#physical.releaseOrKeep(pageBytes, handles);
      throw error;
    }
  }

  #unmapAll(): void {
    const { device } = this.#physical;
    let done = 0;
    try {
      for (const { address, pageBytes, handles } of this.#runs) {
        device.memUnmapRange(address, pageBytes * handles.length);
        done++;
      }
    } catch (error) {
      for (const { address, pageBytes, handles } of this.#runs.slice(0, done))
        device.memMap(address, pageBytes, handles);
      throw error;
    }
  }

  #mapAll(newHandles: ReadonlyMap<number, number>): void {
    const { device } = this.#physical;
    let done = 0;
    try {
      for (const { address, pageBytes, handles } of this.#runs) {
        device.memMap(
          address,
          pageBytes,
          handles.map((old) => newHandles.get(old) as number),
        );
        done++;
      }
    } catch (error) {
      for (const { address, pageBytes, handles } of this.#runs.slice(0, done)) {
        device.memUnmapRange(address, pageBytes * handles.length);
      }
      throw error;
    }
  }
}

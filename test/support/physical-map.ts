// Which page is behind which address, kept from the calls that a device receives: what tells whether two live blocks share a byte of memory. Must not
// know the allocator.

import type { Device } from '../../lib/device/types.js';
import { ensure } from './invariants.js';

interface Mapped {
  readonly bytes: number;
  readonly handle: number;
}

/** Bytes of one page. */
interface Piece {
  readonly handle: number;
  readonly start: number;
  readonly end: number;
}

export class PhysicalMap {
  readonly #mapped = new Map<number, Mapped>();

  /** Listens to the device from now on; nothing is mapped yet. */
  constructor(device: Device) {
    const { memMap, memUnmap, memUnmapRange } = device;
    device.memMap = (address, pageBytes, handles) => {
      memMap.call(device, address, pageBytes, handles);
      handles.forEach((handle, i) => {
        this.#mapped.set(address + i * pageBytes, { bytes: pageBytes, handle });
      });
    };
    device.memUnmap = (address, pageBytes, count) => {
      memUnmap.call(device, address, pageBytes, count);
      for (let i = 0; i < count; i++) this.#mapped.delete(address + i * pageBytes);
    };
    device.memUnmapRange = (address, bytes) => {
      memUnmapRange.call(device, address, bytes);
      for (let at = address; at < address + bytes; ) {
        const { bytes: size } = this.#mapped.get(at) as Mapped;
        this.#mapped.delete(at);
        at += size;
      }
    };
  }

  /** Mappings there are. */
  get size(): number {
    return this.#mapped.size;
  }

  /** Every byte of these blocks has memory, and no two of them share any. @returns pages that are mapped more than once */
  checkDisjoint(blocks: readonly { readonly address: number; readonly size: number }[]): number {
    const starts = [...this.#mapped.keys()].sort((a, b) => a - b);
    const pieces = blocks.flatMap(({ address, size }) => this.#piecesOf(starts, address, size));
    pieces.sort((a, b) => a.handle - b.handle || a.start - b.start);
    pieces.forEach((piece, i) => {
      const next = pieces[i + 1];
      ensure(
        next === undefined || next.handle !== piece.handle || piece.end <= next.start,
        () => `two live blocks have bytes ${next?.start} to ${piece.end} of page ${piece.handle}`,
      );
    });
    const handles = [...this.#mapped.values()].map(({ handle }) => handle);
    return handles.length - new Set(handles).size;
  }

  #piecesOf(starts: readonly number[], address: number, size: number): Piece[] {
    const pieces: Piece[] = [];
    for (let at = address; at < address + size; ) {
      const start = starts[lastUpTo(starts, at)] ?? Number.NaN;
      const page = this.#mapped.get(start);
      ensure(page !== undefined && at < start + page.bytes, () => `nothing is mapped at ${at}, inside a live block`);
      const end = Math.min(address + size, start + page.bytes);
      pieces.push({ handle: page.handle, start: at - start, end: end - start });
      at = end;
    }
    return pieces;
  }
}

/** Index of the last one that is not above. */
function lastUpTo(sorted: readonly number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

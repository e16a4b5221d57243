// Where every address lies on the map of segments: lines of equal height, filled like text, every byte with the same area. The same at every
// event, so that nothing moves while time goes by. Must not know what is in the memory.

import type { RangeLifetimes } from '../../analysis/recording/range-lifetimes.js';

/** Addresses that were reserved at some time, without a hole between them. */
export interface Extent {
  readonly address: number;
  readonly size: number;
}

/**
 * What overlaps at different times is one extent, and so are stretches of expandable segments that touch. By address. Sorts the rows.
 * @param passing 1 for each row that is shown; null: all
 */
export function extentsOf(ranges: RangeLifetimes, passing: Uint8Array | null = null): Extent[] {
  const { addresses, sizes, expandable, length } = ranges;
  const rows = Array.from({ length }, (_, row) => row).filter((row) => passing === null || passing[row] === 1);
  rows.sort((a, b) => (addresses[a] as number) - (addresses[b] as number));
  const extents: { address: number; size: number; expandable: boolean }[] = [];
  for (const row of rows) {
    const address = addresses[row] as number;
    const end = address + (sizes[row] as number);
    const isExpandable = expandable[row] === 1;
    const last = extents.at(-1);
    const lastEnd = last === undefined ? 0 : last.address + last.size;
    const joins = last !== undefined && (address < lastEnd || (address === lastEnd && isExpandable && last.expandable));
    if (joins) {
      last.size = Math.max(lastEnd, end) - last.address;
      last.expandable &&= isExpandable;
    } else extents.push({ address, size: end - address, expandable: isExpandable });
  }
  return extents.map(({ address, size }) => ({ address, size }));
}

export interface MapSize {
  readonly width: number;
  /** Pixels that the map takes without zoom, at most; where the spaces between extents alone need more, it is higher. */
  readonly height: number;
  /** 1: everything fits; more: every byte has so many times the room. */
  readonly zoom: number;
}

export const LINE = { height: 15, gap: 5 };
export const PITCH = LINE.height + LINE.gap;
/** Pixels between two extents; with very many of them fewer. */
const BETWEEN = 4;
/** Of the lines, for the spaces between extents, unless each has its least already. */
const SHARE_BETWEEN = 1 / 4;
/** Coarser scales that are tried until the lines fit. */
const TRIES = 12;

export interface Placed extends Extent {
  /** Pixels from the start of the first line, all lines after each other. */
  readonly at: number;
}

interface Flow {
  readonly placed: readonly Placed[];
  readonly thin: { readonly count: number; readonly bytes: number };
  readonly thinAt: number;
  readonly lines: number;
}

export class MapLayout {
  readonly width: number;
  /** Pixels of all lines. */
  readonly height: number;
  readonly lines: number;
  readonly bytesPerPixel: number;
  /** Those at least a pixel wide, by address. */
  readonly placed: readonly Placed[];
  /** Those narrower than a pixel: drawn as one box behind the others. */
  readonly thin: { readonly count: number; readonly bytes: number };
  readonly thinAt: number;

  /** Linear in extents, times some steps. */
  constructor(extents: readonly Extent[], { width, height, zoom }: MapSize) {
    this.width = Math.max(1, Math.floor(width));
    const lines = Math.max(1, Math.floor(height / PITCH));
    const room = lines * this.width;
    const between = Math.max(1, Math.min(BETWEEN, Math.floor((room * SHARE_BETWEEN) / extents.length)));
    const flowAt = (scale: number): Flow => flow(extents, this.width, scale, between);
    const total = extents.reduce((sum, { size }) => sum + size, 0);
    let scale = Math.max(1, total / room);
    // Spaces and the rests of lines take room too.
    for (let i = 0; i < TRIES; i++) {
      const needed = flowAt(scale).lines;
      if (needed <= lines) break;
      scale *= Math.max(1.01, needed / lines);
    }
    this.bytesPerPixel = scale / Math.max(1, zoom);
    const { placed, thin, thinAt, lines: taken } = flowAt(this.bytesPerPixel);
    this.placed = placed;
    this.thin = thin;
    this.thinAt = thinAt;
    this.lines = taken;
    this.height = taken * PITCH;
  }

  /** The extent that holds an address; undefined: none that is drawn. Logarithmic. */
  extentAt(address: number): Placed | undefined {
    const extent = this.#before(address);
    return extent !== undefined && address < extent.address + extent.size ? extent : undefined;
  }

  /** The address at a place of the map; between extents that of the end of the one before; null: there are none. Logarithmic. */
  addressAt(x: number, y: number): number | null {
    const line = Math.max(0, Math.min(this.lines - 1, Math.floor(y / PITCH)));
    const pixel = line * this.width + Math.max(0, Math.min(this.width - 1, Math.floor(x)));
    let low = 0;
    let high = this.placed.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.placed[middle] as Placed).at <= pixel) low = middle + 1;
      else high = middle;
    }
    const extent = this.placed[Math.max(0, low - 1)];
    if (extent === undefined) return null;
    const inside = Math.max(0, Math.floor((pixel - extent.at) * this.bytesPerPixel));
    return extent.address + Math.min(extent.size - 1, inside);
  }

  /** The line of an address, or of the extent before it. Logarithmic. */
  lineOf(address: number): number {
    const extent = this.#before(address);
    if (extent === undefined) return 0;
    const inside = Math.min(extent.size, Math.max(0, address - extent.address));
    return Math.min(this.lines - 1, Math.floor((extent.at + inside / this.bytesPerPixel) / this.width));
  }

  #before(address: number): Placed | undefined {
    let low = 0;
    let high = this.placed.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.placed[middle] as Placed).address <= address) low = middle + 1;
      else high = middle;
    }
    return this.placed[low - 1];
  }

  /** The parts of lines that a stretch of addresses takes, from its first pixel up to before its last. It must lie in the extent. */
  partsOf(
    extent: Placed,
    address: number,
    size: number,
  ): { readonly x: number; readonly line: number; readonly width: number }[] {
    let from = extent.at + Math.round((address - extent.address) / this.bytesPerPixel);
    const to = extent.at + Math.round((address + size - extent.address) / this.bytesPerPixel);
    const parts: { x: number; line: number; width: number }[] = [];
    while (from < to) {
      const line = Math.floor(from / this.width);
      const x = from - line * this.width;
      const width = Math.min(this.width - x, to - from);
      parts.push({ x, line, width });
      from += width;
    }
    return parts;
  }
}

function flow(extents: readonly Extent[], width: number, bytesPerPixel: number, between: number): Flow {
  const placed: Placed[] = [];
  let at = 0;
  let count = 0;
  let bytes = 0;
  for (const { address, size } of extents) {
    if (size < bytesPerPixel) {
      count++;
      bytes += size;
      continue;
    }
    // What fits a line by itself is not broken for the last pixels of the one before.
    const wide = size / bytesPerPixel;
    const left = width - (at % width);
    if (wide <= width / 4 && wide > left) at += left;
    placed.push({ address, size, at });
    at += Math.ceil(wide) + between;
  }
  // The space after the last needs no room.
  const end = bytes > 0 ? at + Math.ceil(bytes / bytesPerPixel) : at - between;
  return { placed, thin: { count, bytes }, thinAt: at, lines: Math.max(1, Math.ceil(end / width)) };
}

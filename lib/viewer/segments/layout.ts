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
  /** Pixels that the map should take without zoom. */
  readonly height: number;
  /** 1: everything fits; more: so many times the lines. */
  readonly zoom: number;
}

export const LINE = { height: 15, gap: 5 };
/** Pixels between two extents. */
const BETWEEN = 4;

export interface Placed extends Extent {
  /** Pixels from the start of the first line, all lines after each other. */
  readonly at: number;
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
    const room = Math.max(1, Math.floor(height / (LINE.height + LINE.gap))) * this.width;
    const total = extents.reduce((sum, { size }) => sum + size, 0);
    const separators = BETWEEN * (extents.length + 1);
    // With very many extents the separators alone would fill the map.
    const pixels = Math.max(room / 2, room - separators) * Math.max(1, zoom);
    this.bytesPerPixel = Math.max(1, total / pixels);
    const placed: Placed[] = [];
    let at = 0;
    let count = 0;
    let bytes = 0;
    for (const { address, size } of extents) {
      if (size < this.bytesPerPixel) {
        count++;
        bytes += size;
        continue;
      }
      // What fits a line by itself is not broken for the last pixels of the one before.
      const wide = size / this.bytesPerPixel;
      const left = this.width - (at % this.width);
      if (wide <= this.width / 4 && wide > left) at += left;
      placed.push({ address, size, at });
      at += Math.ceil(wide) + BETWEEN;
    }
    this.placed = placed;
    this.thin = { count, bytes };
    this.thinAt = at;
    const end = at + Math.ceil(bytes / this.bytesPerPixel);
    this.lines = Math.max(1, Math.ceil(end / this.width));
    this.height = this.lines * (LINE.height + LINE.gap);
  }

  /** The extent that holds an address; undefined: none that is drawn. Logarithmic. */
  extentAt(address: number): Placed | undefined {
    let low = 0;
    let high = this.placed.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.placed[middle] as Placed).address <= address) low = middle + 1;
      else high = middle;
    }
    const extent = this.placed[low - 1];
    return extent !== undefined && address < extent.address + extent.size ? extent : undefined;
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

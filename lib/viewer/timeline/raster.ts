// The timeline as pixels that name blocks: every block a band, as high as its bytes, from its allocation to the end of its free, stacked in
// the order of allocation. Bands thinner than a pixel are summed by colour and lie on top. One pass over the blocks for a picture, whatever
// part is shown. Must not know colours.

import type { Lifetimes } from '../../analysis/recording/lifetimes.js';

/** In a pixel: nothing is there. Otherwise the number of a row plus 1, or of a group with SUMMED, with the other flags. */
export const NOTHING = 0;
export const PENDING = 0x80000000 | 0;
/** The number is that of a group. */
export const SUMMED = 0x40000000;
/** The uppermost pixel of a band that is high enough for an edge. */
export const EDGE = 0x20000000;
export const NUMBER = 0x1fffffff;

/** Lower bands have no edge. */
const EDGED = 4;

export interface Bands {
  /** 1 for each row that is drawn; null: all. */
  readonly passing: Uint8Array | null;
  /** Group of each row, for those too thin to be drawn alone. */
  readonly groupOf: Uint8Array;
  readonly groups: number;
}

/** What the vertical axis shows. Bytes. */
export interface Heights {
  readonly bottom: number;
  readonly top: number;
}

export class TimelineRaster {
  readonly width: number;
  readonly height: number;
  /** Column by column from the left, each from its bottom: `pixels[x * height + y]`. */
  readonly pixels: Int32Array;
  /** The moment of each column. */
  moments: Int32Array = new Int32Array(0);
  /** Bytes that are drawn in each column. */
  readonly drawn: Float64Array;
  /** Of these, bytes in sums. */
  readonly summed: Float64Array;
  /** Blocks under this many bytes are in sums. */
  thinBelow = 0;
  /** Blocks that pass, but live at no column's moment: they come and go between two of them. */
  between = 0;
  /** The first column whose moment is at least this one; the width when there is none. */
  readonly #firstColumn: Int32Array;
  readonly #lifetimes: Lifetimes;
  /** What each group gains in each column: allocated bytes of all groups, then pending ones. */
  #sums = new Float64Array(0);

  constructor(lifetimes: Lifetimes, width: number, height: number) {
    this.#lifetimes = lifetimes;
    this.width = width;
    this.height = height;
    this.pixels = new Int32Array(width * height);
    this.drawn = new Float64Array(width);
    this.summed = new Float64Array(width);
    this.#firstColumn = new Int32Array(lifetimes.events + 1);
  }

  /** Linear in rows and events (some nanoseconds each) and in pixels. @param moments of the columns, ascending */
  draw(moments: Int32Array, bands: Bands, heights: Heights): void {
    this.moments = moments;
    this.pixels.fill(NOTHING);
    this.drawn.fill(0);
    this.#findColumns();
    const scale = this.height / (heights.top - heights.bottom);
    this.thinBelow = 1 / scale;
    const sums = this.#emptySums(2 * bands.groups * (this.width + 1));
    this.#drawRows(bands, heights.bottom, scale, sums);
    this.#drawSums(bands.groups, heights.bottom, scale, sums);
  }

  /** What is at a place: `x` from the left, `y` from the bottom. */
  at(x: number, y: number): number {
    if (!(x >= 0 && x < this.width && y >= 0 && y < this.height)) return NOTHING;
    return this.pixels[Math.floor(x) * this.height + Math.floor(y)] as number;
  }

  #emptySums(length: number): Float64Array {
    if (this.#sums.length !== length) this.#sums = new Float64Array(length);
    return this.#sums.fill(0);
  }

  #findColumns(): void {
    const { moments, width } = this;
    const first = this.#firstColumn;
    let from = 0;
    for (let x = 0; x < width; x++) {
      const moment = moments[x] as number;
      if (moment < from) continue;
      first.fill(x, from, moment + 1);
      from = moment + 1;
    }
    first.fill(width, from);
  }

  #drawRows({ passing, groupOf, groups }: Bands, bottom: number, scale: number, sums: Float64Array): void {
    const { starts, freed, ends, sizes, length } = this.#lifetimes.blocks;
    const first = this.#firstColumn;
    const thin = this.thinBelow;
    const stride = this.width + 1;
    const [leftmost, rightmost] = [this.moments[0] as number, this.moments.at(-1) as number];
    let between = 0;
    for (let row = 0; row < length; row++) {
      if (passing !== null && passing[row] === 0) continue;
      const start = starts[row] as number;
      if (start > rightmost) break;
      const from = start < 0 ? 0 : (first[start] as number);
      const pendingFrom = first[freed[row] as number] as number;
      const to = first[ends[row] as number] as number;
      if (from >= to) {
        if (start > leftmost) between++;
        continue;
      }
      const size = sizes[row] as number;
      if (size >= thin) {
        this.#drawBand(row + 1, from, pendingFrom, size, bottom, scale);
        this.#drawBand((row + 1) | PENDING, pendingFrom, to, size, bottom, scale);
        continue;
      }
      const at = (groupOf[row] as number) * stride;
      addBetween(sums, at, from, pendingFrom, size);
      addBetween(sums, at + groups * stride, pendingFrom, to, size);
    }
    this.between = between;
  }

  #drawBand(id: number, from: number, to: number, size: number, bottom: number, scale: number): void {
    const { drawn, height, pixels } = this;
    for (let x = from; x < to; x++) {
      const low = drawn[x] as number;
      drawn[x] = low + size;
      const y0 = Math.max(0, Math.round((low - bottom) * scale));
      const y1 = Math.min(height, Math.round((low + size - bottom) * scale));
      if (y0 >= y1) continue;
      const at = x * height;
      if (y1 - y0 >= EDGED) {
        pixels.fill(id, at + y0, at + y1 - 1);
        pixels[at + y1 - 1] = id | EDGE;
      } else for (let y = y0; y < y1; y++) pixels[at + y] = id;
    }
  }

  /** On top of the bands: first what is allocated, by group, then what is pending. */
  #drawSums(groups: number, bottom: number, scale: number, sums: Float64Array): void {
    const { drawn, summed, width, height, pixels } = this;
    const stride = width + 1;
    const running = new Float64Array(2 * groups);
    for (let x = 0; x < width; x++) {
      let low = drawn[x] as number;
      const begin = low;
      for (let group = 0; group < 2 * groups; group++) {
        const bytes = (running[group] as number) + (sums[group * stride + x] as number);
        running[group] = bytes;
        if (bytes === 0) continue;
        const y0 = Math.max(0, Math.round((low - bottom) * scale));
        low += bytes;
        const y1 = Math.min(height, Math.round((low - bottom) * scale));
        const id = (group < groups ? group : (group - groups) | PENDING) | SUMMED;
        if (y0 < y1) pixels.fill(id, x * height + y0, x * height + y1);
      }
      summed[x] = low - begin;
      drawn[x] = low;
    }
  }
}

/** Adds to all from one column up to before another, once the column before is carried on. */
function addBetween(sums: Float64Array, at: number, from: number, to: number, size: number): void {
  if (from >= to) return;
  sums[at + from] = (sums[at + from] as number) + size;
  sums[at + to] = (sums[at + to] as number) - size;
}

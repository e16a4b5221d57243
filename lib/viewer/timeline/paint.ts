// Gives the pixels of a raster their colours, and draws the lines over them, into the memory of a picture. Must not know what a block is.

import { type Grouping, groupColours } from '../colours.js';
import { mixed, type Palette, pixelOf } from '../palette.js';
import { EDGE, type Heights, NOTHING, NUMBER, PENDING, SUMMED, type TimelineRaster } from './raster.js';

/** Colours as pixels. */
export interface Paints {
  readonly background: number;
  /** By row of the blocks. */
  readonly blocks: Int32Array;
  /** By group. */
  readonly sums: Int32Array;
  readonly pending: number;
  readonly summedPending: number;
  readonly pinned: number;
}

export function paintsOf(blocks: Int32Array, grouping: Grouping, palette: Palette): Paints {
  const faded = (colour: string): number => pixelOf(mixed(colour, palette.background, 0.45));
  return {
    background: pixelOf(palette.background),
    blocks,
    sums: Int32Array.from(groupColours(grouping, palette), faded),
    pending: pixelOf(palette.pending),
    summedPending: faded(palette.pending),
    pinned: pixelOf(palette.ink),
  };
}

/** Pixels of one side of the squares that are copied at a time, so that both pictures stay in the cache. */
const TILE = 32;

/** Row by row from the top, `width * height` pixels. Linear in pixels. @param pinned row of a block that stands out */
export function paintBands(
  raster: TimelineRaster,
  paints: Paints,
  picture: Int32Array,
  pinned: number | null = null,
): void {
  const { width, height, pixels } = raster;
  for (let left = 0; left < width; left += TILE) {
    const right = Math.min(width, left + TILE);
    for (let low = 0; low < height; low += TILE) {
      const high = Math.min(height, low + TILE);
      for (let x = left; x < right; x++) {
        const column = x * height;
        let into = (height - 1 - low) * width + x;
        // Most pixels are of the same band as the one below.
        let before = NOTHING;
        let colour = paints.background;
        for (let y = low; y < high; y++, into -= width) {
          const id = pixels[column + y] as number;
          if (id !== before) {
            before = id;
            colour = colourOf(id, paints, pinned);
          }
          picture[into] = colour;
        }
      }
    }
  }
}

function colourOf(id: number, paints: Paints, pinned: number | null): number {
  if (id === NOTHING) return paints.background;
  const number = id & NUMBER;
  if ((id & SUMMED) !== 0) return (id & PENDING) !== 0 ? paints.summedPending : (paints.sums[number] as number);
  if (number - 1 === pinned) return paints.pinned;
  const colour = (id & PENDING) !== 0 ? paints.pending : (paints.blocks[number - 1] as number);
  // Three quarters of each channel.
  return (id & EDGE) !== 0 ? 0xff000000 | (((colour >>> 2) & 0x3f3f3f) * 3) : colour;
}

/** A line over the columns at the heights of their values, with steps between them. Linear in its pixels. */
export function paintLine(
  { width, height }: Pick<TimelineRaster, 'width' | 'height'>,
  picture: Int32Array,
  {
    values,
    heights,
    colour,
    dashed = false,
  }: {
    readonly values: (x: number) => number;
    readonly heights: Heights;
    readonly colour: string;
    readonly dashed?: boolean;
  },
): void {
  const pixel = pixelOf(colour);
  const scale = height / (heights.top - heights.bottom);
  const rowOf = (bytes: number): number => height - 1 - Math.round((bytes - heights.bottom) * scale);
  let before = rowOf(values(0));
  for (let x = 0; x < width; x++) {
    const row = rowOf(values(x));
    const [low, high] = row < before ? [row, before] : [before, row];
    before = row;
    if (dashed && x % 8 >= 5) continue;
    for (let y = Math.max(0, low); y <= Math.min(height - 1, high); y++) picture[y * width + x] = pixel;
  }
}

// The map of segments as pixels that name runs. One row of pixels stands for a line, whose height is filled with copies of it. Must not know
// what a run is made of.

import { mixed, type Palette, pixelOf } from '../palette.js';
import { LINE, type MapLayout, PITCH } from './layout.js';
import type { MapState, Run, RunKind } from './state.js';

/** In a pixel: between extents. Otherwise the position of a run plus 1, or one of the two below. */
export const NOTHING = 0;
/** Within an extent, but not reserved now. */
export const UNMAPPED = -1;
/** In the box of all extents narrower than a pixel. */
export const THIN = -2;

export class MapRaster {
  readonly layout: MapLayout;
  /** Line after line, `width` pixels each. */
  readonly ids: Int32Array;
  /** Runs that are narrower than a pixel at their place, and their bytes. */
  hidden = { count: 0, bytes: 0 };

  constructor(layout: MapLayout) {
    this.layout = layout;
    this.ids = new Int32Array(layout.width * layout.lines);
  }

  /** Linear in pixels and runs. */
  draw({ runs }: MapState): void {
    const { ids, layout } = this;
    const { bytesPerPixel, placed, thin, thinAt } = layout;
    ids.fill(NOTHING);
    for (const { at, size } of placed) ids.fill(UNMAPPED, at, at + Math.round(size / bytesPerPixel));
    if (thin.bytes > 0) ids.fill(THIN, thinAt, thinAt + Math.ceil(thin.bytes / bytesPerPixel));
    let count = 0;
    let bytes = 0;
    let next = 0;
    runs.forEach(({ address, size }, i) => {
      while (next < placed.length && endOf(placed[next]) <= address) next++;
      const extent = placed[next];
      // Of an extent that is in the box of the thin ones.
      if (extent === undefined || address < extent.address) return;
      const from = extent.at + Math.round((address - extent.address) / bytesPerPixel);
      const to = extent.at + Math.round((address + size - extent.address) / bytesPerPixel);
      if (from < to) ids.fill(i + 1, from, to);
      else {
        count++;
        bytes += size;
      }
    });
    this.hidden = { count, bytes };
  }

  /** What is at a place of the picture. */
  at(x: number, y: number): number {
    const { width, lines } = this.layout;
    const line = Math.floor(y / PITCH);
    if (!(x >= 0 && x < width && line >= 0 && line < lines) || y - line * PITCH >= LINE.height) return NOTHING;
    return this.ids[line * width + Math.floor(x)] as number;
  }
}

function endOf(extent: { readonly address: number; readonly size: number } | undefined): number {
  return extent === undefined ? 0 : extent.address + extent.size;
}

export interface MapPaints {
  readonly palette: Palette;
  /** A pixel of each row of the blocks. */
  readonly blocks: Int32Array;
  /** Row of a block that stands out. */
  readonly pinned: number | null;
  /** Everything else is dimmed; null: nothing is. */
  readonly highlighted: ((run: Run) => boolean) | null;
}

/** Pixels of one stripe: pending memory is striped in the colour of its block and its own. */
export const STRIPE = 3;

/**
 * The part of the map from a row of pixels on, as many rows as the picture has: width times rows, from the top. Linear in these pixels and
 * in runs.
 * @param top row of the map that is the picture's first
 */
export function paintMap(raster: MapRaster, map: MapState, paints: MapPaints, picture: Int32Array, top = 0): void {
  const { width, lines } = raster.layout;
  const { even, odd } = pixelsById(map, paints);
  const height = Math.floor(picture.length / width);
  const row = new Int32Array(width);
  picture.fill(pixelOf(paints.palette.background));
  for (let line = Math.max(0, Math.floor(top / PITCH)); line < lines && line * PITCH < top + height; line++) {
    const start = line * width;
    for (let x = 0; x < width; x++) {
      const index = (raster.ids[start + x] as number) - THIN;
      row[x] = ((Math.floor(x / STRIPE) & 1) === 0 ? even[index] : odd[index]) as number;
    }
    const first = line * PITCH - top;
    for (let y = Math.max(0, first); y < Math.min(height, first + LINE.height); y++) picture.set(row, y * width);
  }
}

/** The pixel of each id, counted from THIN on, in even and in odd stripes. */
function pixelsById({ runs }: MapState, { palette, blocks, pinned, highlighted }: MapPaints) {
  const dimmed = pixelOf(palette.dimmed);
  const ink = pixelOf(palette.ink);
  const own: Readonly<Record<Exclude<RunKind, 'allocated'>, number>> = {
    pending: pixelOf(palette.pending),
    stuck: pixelOf(palette.stuck),
    wholly_free: pixelOf(palette.whollyFree),
  };
  const odd = new Int32Array(runs.length + 1 - THIN);
  odd[THIN - THIN] = pixelOf(palette.others);
  odd[UNMAPPED - THIN] = pixelOf(palette.unmapped);
  odd[NOTHING - THIN] = pixelOf(palette.background);
  const even = odd.slice();
  runs.forEach((run, i) => {
    const index = i + 1 - THIN;
    const isPinned = run.row !== -1 && run.row === pinned;
    const isDimmed = !isPinned && highlighted !== null && !highlighted(run);
    const plain = isPinned ? ink : isDimmed ? dimmed : null;
    odd[index] = plain ?? (run.kind === 'allocated' ? (blocks[run.row] as number) : own[run.kind]);
    even[index] = plain ?? (run.row === -1 ? own[run.kind as 'stuck'] : (blocks[run.row] as number));
  });
  return { even, odd };
}

/** The colour of a run of free or pending memory, for legends. */
export function kindColour(kind: RunKind, palette: Palette): string {
  return {
    allocated: mixed(palette.accent, palette.background, 0.2),
    pending: palette.pending,
    stuck: palette.stuck,
    wholly_free: palette.whollyFree,
  }[kind];
}

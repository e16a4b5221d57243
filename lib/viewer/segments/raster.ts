// The map of segments as pixels that name runs. One row of pixels stands for a line, whose height is filled with copies of it. Must not know
// what a run is made of.

import { mixed, type Palette, pixelOf } from '../palette.js';
import { LINE, type MapLayout } from './layout.js';
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
    const line = Math.floor(y / (LINE.height + LINE.gap));
    if (!(x >= 0 && x < width && line >= 0 && line < lines) || y - line * (LINE.height + LINE.gap) >= LINE.height)
      return NOTHING;
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

/** `width * height` pixels, row by row from the top. Linear in pixels. */
export function paintMap(raster: MapRaster, { runs }: MapState, paints: MapPaints, picture: Int32Array): void {
  const { width, lines } = raster.layout;
  const { palette, blocks, pinned, highlighted } = paints;
  const background = pixelOf(palette.background);
  const kinds: Readonly<Record<RunKind, number>> = {
    allocated: 0,
    pending: pixelOf(palette.pending),
    stuck: pixelOf(palette.stuck),
    wholly_free: pixelOf(palette.whollyFree),
  };
  const [unmapped, others, dimmed, ink] = [palette.unmapped, palette.others, palette.dimmed, palette.ink].map(
    pixelOf,
  ) as [number, number, number, number];
  const colourOf = (id: number): number => {
    if (id === NOTHING) return background;
    if (id === UNMAPPED) return unmapped;
    if (id === THIN) return others;
    const run = runs[id - 1] as Run;
    if (run.row !== -1 && run.row === pinned) return ink;
    if (highlighted !== null && !highlighted(run)) return dimmed;
    return run.kind === 'allocated' ? (blocks[run.row] as number) : kinds[run.kind];
  };
  const row = new Int32Array(width);
  const pitch = LINE.height + LINE.gap;
  for (let line = 0; line < lines; line++) {
    const ids = raster.ids.subarray(line * width, (line + 1) * width);
    let before = Number.NaN;
    let colour = background;
    for (let x = 0; x < width; x++) {
      const id = ids[x] as number;
      if (id !== before) {
        before = id;
        colour = colourOf(id);
      }
      row[x] = colour;
    }
    const top = line * pitch * width;
    for (let y = 0; y < LINE.height; y++) picture.set(row, top + y * width);
    picture.fill(background, top + LINE.height * width, top + pitch * width);
  }
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

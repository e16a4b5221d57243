// A timeline as a picture: bands, lines, and where everything is. Keeps its memory from picture to picture, as one is drawn for every frame.
// Must not know pages or files.

import { blockColours, type Grouping } from '../colours.js';
import type { DeviceHistory } from '../device-history.js';
import type { Palette } from '../palette.js';
import { type Axis, eventAxis, momentsOfColumns, type Span, timeAxis } from './axis.js';
import { HighestIn } from './highest-in.js';
import { type Paints, paintBands, paintLine, paintsOf } from './paint.js';
import { type Heights, TimelineRaster } from './raster.js';

export interface TimelineOptions {
  readonly span: Span;
  readonly axis: 'events' | 'time';
  readonly width: number;
  readonly height: number;
  /** Null: so that everything fits. */
  readonly heights: Heights | null;
  readonly grouping: Grouping;
  readonly passing: Uint8Array | null;
  readonly palette: Palette;
  readonly capacity: number | null;
  /** Row of a block. */
  readonly pinned: number | null;
}

/** What was drawn. Valid until the next picture. */
export interface TimelinePicture {
  readonly axis: Axis;
  readonly heights: Heights;
  readonly raster: TimelineRaster;
  /** `width * height` pixels, row by row from the top. */
  readonly pixels: Int32Array<ArrayBuffer>;
  /** Bytes after the moment of each column. */
  readonly active: Float64Array;
  readonly reserved: Float64Array;
  /** Whether the line of the capacity lies within the picture. */
  readonly showsCapacity: boolean;
}

/** Room above the highest line. */
const HEADROOM = 1.06;
/** A capacity so many times higher than the rest would leave no room for it. */
const FAR_ABOVE = 1.6;

export class TimelineDrawing {
  readonly #history: DeviceHistory;
  readonly #active: HighestIn;
  #raster: TimelineRaster | null = null;
  #pixels = new Int32Array(0);
  #colours: { readonly grouping: Grouping; readonly palette: Palette; readonly paints: Paints } | null = null;

  /** Linear in events. */
  constructor(history: DeviceHistory) {
    this.#history = history;
    this.#active = new HighestIn(history.lifetimes.active);
  }

  /** Linear in blocks, events and pixels: some milliseconds for a million events. */
  draw(options: TimelineOptions): TimelinePicture {
    const { width, height, grouping, passing, palette, capacity, pinned } = options;
    const raster = this.#rasterOf(width, height);
    const axis = this.#axis(options);
    const moments = momentsOfColumns(axis, this.#history.events, this.#active);
    const { active, reserved } = this.#history.lifetimes;
    const at = (values: Float64Array): Float64Array =>
      Float64Array.from(moments, (moment) => values[moment + 1] as number);
    const shown = { active: at(active), reserved: at(reserved) };
    const bands = { passing, groupOf: grouping.groupOf, groups: grouping.names.length };
    const whole = { bottom: 0, top: fitting(shown.reserved, capacity) };
    let heights = options.heights ?? whole;
    raster.draw(moments, bands, heights);
    if (options.heights === null && passing !== null) {
      // A filter may leave so little that it would not be seen beside the rest.
      heights = { bottom: 0, top: Math.min(whole.top, fitting(raster.drawn, null)) };
      raster.draw(moments, bands, heights);
    }
    const pixels = this.#pixels;
    paintBands(raster, this.#paints(grouping, palette), pixels, pinned);
    paintLine(raster, pixels, { values: (x) => shown.active[x] as number, heights, colour: palette.faintInk });
    paintLine(raster, pixels, { values: (x) => shown.reserved[x] as number, heights, colour: palette.reserved });
    const showsCapacity = capacity !== null && capacity < heights.top && capacity >= heights.bottom;
    if (showsCapacity)
      paintLine(raster, pixels, { values: () => capacity, heights, colour: palette.capacity, dashed: true });
    return { axis, heights, raster, pixels, ...shown, showsCapacity };
  }

  #rasterOf(width: number, height: number): TimelineRaster {
    if (this.#raster?.width !== width || this.#raster.height !== height) {
      this.#raster = new TimelineRaster(this.#history.lifetimes, width, height);
      this.#pixels = new Int32Array(width * height);
    }
    return this.#raster;
  }

  #axis({ axis, span, width }: TimelineOptions): Axis {
    const { times } = this.#history;
    return axis === 'time' && times !== null ? timeAxis(span, width, times) : eventAxis(span, width);
  }

  #paints(grouping: Grouping, palette: Palette): Paints {
    if (this.#colours?.grouping !== grouping || this.#colours.palette !== palette) {
      this.#colours = { grouping, palette, paints: paintsOf(blockColours(grouping, palette), grouping, palette) };
    }
    return this.#colours.paints;
  }
}

function fitting(values: Float64Array, capacity: number | null): number {
  const highest = values.reduce((most, value) => Math.max(most, value), 1);
  return HEADROOM * (capacity !== null && capacity <= FAR_ABOVE * highest ? Math.max(capacity, highest) : highest);
}

// The timeline as a picture file: bands, axes, legend and the figures of the peak, for documents and logs. Must not know files.

import { formatSize } from '../../units.js';
import { COLOURED_GROUPS, type Colouring, type Grouping, groupBlocks, groupColours } from '../colours.js';
import type { DeviceHistory } from '../device-history.js';
import { DARK, LIGHT, type Palette } from '../palette.js';
import { marksAlong, wholeSpan } from '../timeline/axis.js';
import { TimelineDrawing, type TimelinePicture } from '../timeline/drawing.js';
import { byteTicks, countTicks } from '../timeline/ticks.js';
import { Canvas, cut, LETTER, LINE } from './canvas.js';

export interface TimelinePngOptions {
  /** Name of the file, for the title. */
  readonly name: string;
  /** Pixels of the whole picture. Default 1600 x 900. */
  readonly width?: number;
  readonly height?: number;
  readonly colouring?: Colouring;
  readonly theme?: 'light' | 'dark';
  /** Bytes; a line where it lies in the picture. */
  readonly capacity?: number | null;
  /** A moment that is marked. */
  readonly moment?: number | null;
}

const MARGIN = { left: 11 * LETTER, right: 16, top: 3 * LINE, bottom: LINE + 8 };
/** Groups in the legend. */
const NAMED = 8;

/** A PNG file. Linear in blocks, events and pixels. */
export function timelinePng(history: DeviceHistory, options: TimelinePngOptions): Uint8Array {
  const { width = 1600, height = 900, colouring = 'site', theme = 'light', capacity = null } = options;
  const palette = theme === 'dark' ? DARK : LIGHT;
  const grouping = groupBlocks(history, colouring, COLOURED_GROUPS);
  const legend = legendOf(grouping, palette);
  const columns = Math.max(1, Math.min(2, Math.floor(width / 700)));
  const legendHeight = Math.ceil(legend.length / columns) * LINE + LINE;
  const inner = {
    width: width - MARGIN.left - MARGIN.right,
    height: height - MARGIN.top - MARGIN.bottom - legendHeight,
  };
  if (inner.width < 100 || inner.height < 50)
    throw new RangeError(`${width} x ${height} pixels are too few for a timeline`);
  const drawn = new TimelineDrawing(history).draw({
    span: wholeSpan(history),
    axis: 'events',
    ...inner,
    heights: null,
    grouping,
    passing: null,
    palette,
    capacity,
    pinned: null,
  });
  const canvas = new Canvas(width, height, palette.background);
  canvas.picture(MARGIN.left, MARGIN.top, inner.width, drawn.pixels);
  writeTitle(canvas, history, options, palette);
  drawAxes(canvas, drawn, palette);
  drawMoments(canvas, drawn, history, { palette, moment: options.moment ?? null });
  drawLegend(canvas, legend, { palette, top: MARGIN.top + inner.height + MARGIN.bottom + 6, columns });
  return canvas.png();
}

function writeTitle(
  canvas: Canvas,
  history: DeviceHistory,
  { name, capacity = null }: TimelinePngOptions,
  palette: Palette,
): void {
  const { allocated, reserved } = history.lifetimes;
  const at = history.peak + 1;
  const most = Math.floor((canvas.width - 24) / LETTER);
  canvas.text(
    cut(`${name}, device ${history.device}: ${history.events.toLocaleString('en')} events`, most),
    12,
    10,
    palette.ink,
  );
  const peak = `Peak: ${formatSize(allocated[at] as number)} allocated of ${formatSize(reserved[at] as number)} reserved, after event ${history.peak.toLocaleString('en')}`;
  const limit = capacity === null ? '' : `; capacity ${formatSize(capacity)}`;
  canvas.text(cut(peak + limit, most), 12, 10 + LINE, palette.faintInk);
}

function drawAxes(canvas: Canvas, { heights, raster, axis }: TimelinePicture, palette: Palette): void {
  const { width, height } = raster;
  const [left, top] = [MARGIN.left, MARGIN.top];
  for (const { value, text } of byteTicks(heights.bottom, heights.top, height / 60)) {
    const y = top + height - ((value - heights.bottom) / (heights.top - heights.bottom)) * height;
    canvas.rectangle(left - 6, y, 6, 1, palette.faintInk);
    canvas.text(text, left - 10, Math.round(y) - 7, palette.faintInk, 'right');
  }
  for (const { value, text } of countTicks(Math.max(0, axis.span.from), axis.span.to, width / 220)) {
    const x = left + axis.xOf(value);
    canvas.rectangle(x, top + height, 1, 6, palette.faintInk);
    canvas.text(text, Math.min(x, canvas.width - 60), top + height + 10, palette.faintInk, 'middle');
  }
  canvas.rectangle(left - 1, top, 1, height, palette.faintInk);
  canvas.rectangle(left - 1, top + height, width + 1, 1, palette.faintInk);
}

function drawMoments(
  canvas: Canvas,
  { axis, raster }: TimelinePicture,
  { outOfMemories }: DeviceHistory,
  { palette, moment }: { readonly palette: Palette; readonly moment: number | null },
): void {
  const mark = (at: number, text: string, colour: string): void => {
    const x = MARGIN.left + at;
    canvas.rectangle(x, MARGIN.top - 4, 2, raster.height + 4, colour);
    const isRight = x > canvas.width - 16 * LETTER;
    canvas.text(text, isRight ? x - 6 : x + 6, MARGIN.top - 14, colour, isRight ? 'right' : 'left');
  };
  for (const { x, isNamed } of marksAlong(axis, outOfMemories, 15 * LETTER))
    mark(x, isNamed ? 'out of memory' : '', palette.outOfMemory);
  if (moment !== null) mark(axis.xOf(moment), `event ${moment.toLocaleString('en')}`, palette.accent);
}

interface Entry {
  readonly text: string;
  readonly colour: string;
}

function legendOf(grouping: Grouping, palette: Palette): Entry[] {
  const colours = groupColours(grouping, palette);
  const last = grouping.names.length - 1;
  const named = grouping.names.slice(0, Math.min(NAMED, last)).map((name, group) => ({
    text: `${name}: ${formatSize(grouping.peakBytes[group] as number)} at the peak`,
    colour: colours[group] as string,
  }));
  const rest = grouping.peakBytes.slice(named.length).reduce((sum, bytes) => sum + bytes, 0);
  const count = last - named.length;
  return [
    ...named,
    ...(rest > 0 || count > 0 ? [{ text: `all others: ${formatSize(rest)} at the peak`, colour: palette.others }] : []),
    { text: 'line: reserved from the driver', colour: palette.reserved },
  ];
}

function drawLegend(
  canvas: Canvas,
  entries: readonly Entry[],
  { palette, top, columns }: { readonly palette: Palette; readonly top: number; readonly columns: number },
): void {
  const rows = Math.ceil(entries.length / columns);
  const width = (canvas.width - 24) / columns;
  entries.forEach(({ text, colour }, i) => {
    const x = 12 + Math.floor(i / rows) * width;
    const y = top + (i % rows) * LINE;
    canvas.rectangle(x, y, 14, 14, colour);
    canvas.text(cut(text, Math.floor((width - 40) / LETTER)), x + 22, y, palette.ink);
  });
}

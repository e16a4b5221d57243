// What lies around and over the bands on the page: axes, annotated regions, out of memories, cursors. Must not know blocks.

import { formatSize } from '../../units.js';
import { firstAfter } from '../sorted.js';
import { marksAlong } from '../timeline/axis.js';
import type { TimelinePicture } from '../timeline/drawing.js';
import { byteTicks, countTicks, type Tick, timeTicks } from '../timeline/ticks.js';
import type { ViewProps } from './view-props.js';

export const MARGIN = { left: 76, right: 12, top: 34, bottom: 24 };
const FONT = '12px system-ui, sans-serif';
/** Pixels that the name of a moment takes. */
const NAME_ROOM = 100;
/** Bars of annotated regions above the picture. */
const BAR = { top: 2, height: 14 };

interface Options {
  readonly props: ViewProps;
  readonly size: { readonly width: number; readonly height: number };
}

export function drawDecorations(
  context: CanvasRenderingContext2D,
  picture: TimelinePicture,
  { props, size }: Options,
): void {
  const { palette } = props;
  context.fillStyle = palette.background;
  context.fillRect(0, 0, size.width, size.height);
  const { width, height } = picture.raster;
  const image = new ImageData(new Uint8ClampedArray(picture.pixels.buffer, 0, width * height * 4), width, height);
  context.putImageData(image, MARGIN.left, MARGIN.top);
  context.font = FONT;
  context.textBaseline = 'middle';
  drawAxes(context, picture, props, size.width);
  drawRegions(context, picture, props);
  drawMoments(context, picture, props);
  drawLineNames(context, picture, props);
}

function drawAxes(
  context: CanvasRenderingContext2D,
  { heights, raster, axis }: TimelinePicture,
  { palette, history, state }: ViewProps,
  right: number,
): void {
  const { width, height } = raster;
  context.fillStyle = palette.faintInk;
  context.strokeStyle = palette.grid;
  context.textAlign = 'right';
  for (const { value, text } of byteTicks(heights.bottom, heights.top, height / 40)) {
    const y = MARGIN.top + height - ((value - heights.bottom) / (heights.top - heights.bottom)) * height;
    context.fillText(text, MARGIN.left - 8, y);
    line(context, MARGIN.left - 4, y, MARGIN.left, y);
  }
  context.textAlign = 'center';
  for (const { x, text } of ticksAlong(axis, history.times, state.axis)) {
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(MARGIN.left + x, right - half - 2), MARGIN.top + height + 13);
    line(context, MARGIN.left + x, MARGIN.top + height, MARGIN.left + x, MARGIN.top + height + 4);
  }
  context.strokeRect(MARGIN.left - 0.5, MARGIN.top - 0.5, width + 1, height + 1);
}

function ticksAlong(
  axis: TimelinePicture['axis'],
  times: Float64Array | null,
  along: 'events' | 'time',
): { readonly x: number; readonly text: string }[] {
  const most = axis.width / 110;
  if (along === 'events' || times === null)
    return countTicks(axis.span.from, axis.span.to, most).map(({ value, text }) => ({ x: axis.xOf(value), text }));
  const [first, last] = [times[0] as number, times[times.length - 1] as number];
  // The axis is straight in time: two of its points give the rest.
  const timeAt = (x: number): number => {
    const moment = axis.momentAt(x);
    const event = Math.floor(Math.max(0, Math.min(times.length - 1, moment)));
    const next = times[Math.min(times.length - 1, event + 1)] as number;
    return (times[event] as number) + Math.max(0, Math.min(1, moment - event)) * (next - (times[event] as number));
  };
  const [from, to] = [Math.max(first, timeAt(0)), Math.min(last, timeAt(axis.width))];
  const [x0, x1] = [axis.xOf(momentOfTime(times, from)), axis.xOf(momentOfTime(times, to))];
  return timeTicks(from, to, first, most).map(({ value, text }: Tick) => ({
    x: to > from ? x0 + ((value - from) / (to - from)) * (x1 - x0) : x0,
    text,
  }));
}

function momentOfTime(times: Float64Array, time: number): number {
  const low = Math.max(0, firstAfter(times, time) - 1);
  const [a, b] = [times[low] as number, times[low + 1] ?? (times[low] as number)];
  return b > a ? low + (time - a) / (b - a) : low;
}

function drawRegions(
  context: CanvasRenderingContext2D,
  { axis, raster }: TimelinePicture,
  { history, palette }: ViewProps,
): void {
  context.textAlign = 'left';
  let rightmost = 0;
  for (const { name, from, to } of history.annotations) {
    const [x0, x1] = [Math.max(0, axis.xOf(from)), Math.min(raster.width, axis.xOf(to))];
    // Of regions narrower than a pixel one is enough.
    if (x1 <= x0 || x1 < rightmost + 0.5) continue;
    rightmost = x1;
    context.fillStyle = palette.grid;
    context.fillRect(MARGIN.left + x0, BAR.top, Math.max(1, x1 - x0 - 1), BAR.height);
    if (x1 - x0 < 40) continue;
    context.save();
    context.beginPath();
    context.rect(MARGIN.left + x0, BAR.top, x1 - x0 - 4, BAR.height);
    context.clip();
    context.fillStyle = palette.ink;
    context.fillText(name, MARGIN.left + x0 + 4, BAR.top + BAR.height / 2 + 1);
    context.restore();
  }
}

function drawMoments(
  context: CanvasRenderingContext2D,
  { axis, raster }: TimelinePicture,
  { history, palette, state }: ViewProps,
): void {
  const mark = (x: number, colour: string, text: string, dash: readonly number[]): void => {
    if (!(x >= 0 && x <= raster.width)) return;
    context.strokeStyle = colour;
    context.setLineDash([...dash]);
    line(context, MARGIN.left + x, BAR.top + BAR.height + 2, MARGIN.left + x, MARGIN.top + raster.height);
    context.setLineDash([]);
    context.fillStyle = colour;
    context.textAlign = x > raster.width - NAME_ROOM ? 'right' : 'left';
    context.fillText(text, MARGIN.left + x + (x > raster.width - NAME_ROOM ? -4 : 4), MARGIN.top - 8);
  };
  for (const { x, isNamed } of marksAlong(axis, history.outOfMemories, NAME_ROOM))
    mark(x, palette.outOfMemory, isNamed ? 'out of memory' : '', []);
  if (state.other !== null) mark(axis.xOf(state.other), palette.accent, 'compared', [3, 3]);
  if (state.cursor !== null) mark(axis.xOf(state.cursor), palette.accent, '', []);
}

function drawLineNames(
  context: CanvasRenderingContext2D,
  { heights, raster, reserved, showsCapacity }: TimelinePicture,
  { capacity, palette }: ViewProps,
): void {
  const yOf = (bytes: number): number =>
    MARGIN.top + raster.height - ((bytes - heights.bottom) / (heights.top - heights.bottom)) * raster.height;
  const write = (text: string, y: number, colour: string): void => {
    const width = context.measureText(text).width;
    const x = MARGIN.left + raster.width - width - 8;
    context.globalAlpha = 0.8;
    context.fillStyle = palette.background;
    context.fillRect(x - 3, y - 8, width + 6, 16);
    context.globalAlpha = 1;
    context.fillStyle = colour;
    context.textAlign = 'left';
    context.fillText(text, x, y);
  };
  const top = MARGIN.top + 10;
  const last = reserved.at(-1) as number;
  const capacityAt = capacity === null ? null : showsCapacity ? Math.max(top, yOf(capacity) - 10) : top;
  if (last <= heights.top) {
    const above = Math.max(top, yOf(last) - 10);
    // Two names at one place could not be read.
    const isTaken = capacityAt !== null && Math.abs(above - capacityAt) < 18;
    write('reserved', isTaken ? Math.max(yOf(last) + 12, capacityAt + 18) : above, palette.reserved);
  }
  if (capacity === null || capacityAt === null) return;
  if (showsCapacity) write(`capacity ${formatSize(capacity)}`, capacityAt, palette.capacity);
  else if (capacity >= heights.top) write(`capacity ${formatSize(capacity)} ↑`, capacityAt, palette.capacity);
}

function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
  context.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  context.stroke();
}

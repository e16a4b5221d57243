// The horizontal axis of a timeline: which moments a column of pixels stands for. A moment is a number of an event and what follows it up to
// the next event; -1 is what was before the first. Must not know what is drawn there.

import type { DeviceHistory } from '../device-history.js';
import { firstAtOrAfter } from '../sorted.js';
import type { HighestIn } from './highest-in.js';

/** The stretch of a timeline that is shown, in moments with fractions: 2.5 lies halfway from event 2 to event 3. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Everything: from before the first event to behind the last. */
export function wholeSpan({ events }: Pick<DeviceHistory, 'events'>): Span {
  return { from: -1, to: events };
}

export interface Axis {
  readonly span: Span;
  readonly width: number;
  /** Moment at a distance from the left edge, with its fraction. */
  momentAt(x: number): number;
  /** Distance of a moment from the left edge. */
  xOf(moment: number): number;
}

/** Every event takes the same width. */
export function eventAxis(span: Span, width: number): Axis {
  const scale = (span.to - span.from) / width;
  return {
    span,
    width,
    momentAt: (x) => span.from + x * scale,
    xOf: (moment) => (moment - span.from) / scale,
  };
}

/** Every microsecond takes the same width. @param times of the events, never falling */
export function timeAxis(span: Span, width: number, times: Float64Array): Axis {
  const last = times.length - 1;
  const first = times[0] as number;
  // Since the first: a time since 1970 has no room for fractions of a microsecond.
  const since = (event: number): number => (times[event] as number) - first;
  const end = since(last);
  // What is before the first event and behind the last has no duration; it gets a hundredth of the whole.
  const margin = Math.max(1, end / 100);
  const timeOf = (moment: number): number => {
    if (moment < 0) return moment * margin;
    if (moment >= last) return end + (moment - last) * margin;
    const event = Math.floor(moment);
    return since(event) + (moment - event) * (since(event + 1) - since(event));
  };
  const momentOfTime = (time: number): number => {
    if (time < 0) return time / margin;
    if (time >= end) return last + (time - end) / margin;
    // The last event that is not later.
    let event = Math.min(last, firstAtOrAfter(times, first + time));
    while (since(event) > time) event--;
    while (since(event + 1) <= time) event++;
    return event + (time - since(event)) / (since(event + 1) - since(event));
  };
  const left = timeOf(span.from);
  const scale = (timeOf(span.to) - left) / width || 1;
  return {
    span,
    width,
    momentAt: (x) => momentOfTime(left + x * scale),
    xOf: (moment) => (timeOf(moment) - left) / scale,
  };
}

/**
 * The moment that each column shows: of those that fall into it the one with most active bytes, so that no peak is lost however far away one
 * looks; where none begins in it, the one that goes on. Ascending. Logarithmic for each column.
 * @param active highest of the values at index moment + 1
 */
export function momentsOfColumns(axis: Axis, events: number, active: HighestIn): Int32Array {
  const moments = new Int32Array(axis.width);
  const clamped = (moment: number): number => Math.max(-1, Math.min(events - 1, moment));
  let left = clamped(Math.floor(axis.momentAt(0)));
  for (let x = 0; x < axis.width; x++) {
    // The last that begins before the column's right edge.
    const right = Math.max(left, clamped(Math.ceil(axis.momentAt(x + 1)) - 1));
    const begins = x === 0 ? left : left + 1;
    moments[x] = right >= begins ? active.at(begins + 1, right + 2) - 1 : left;
    left = right;
  }
  return moments;
}

/** A moment that is marked, and whether there is room for its name behind the one before. */
export interface Mark {
  readonly x: number;
  readonly isNamed: boolean;
}

/** Marks of ascending moments within an axis, one for each pixel at most. Linear. @param room pixels that a name takes */
export function marksAlong(axis: Axis, moments: readonly number[], room: number): Mark[] {
  const marks: Mark[] = [];
  let named = Number.NEGATIVE_INFINITY;
  for (const moment of moments) {
    const x = axis.xOf(moment);
    const last = marks.at(-1);
    if (!(x >= 0 && x <= axis.width) || (last !== undefined && x - last.x < 1)) continue;
    const isNamed = x - named >= room;
    if (isNamed) named = x;
    marks.push({ x, isNamed });
  }
  return marks;
}

// How far along a recording a moment is, by events or by time, and the other way round: what playing it needs. Must not know clocks.

import type { DeviceHistory } from './device-history.js';
import { firstAfter } from './sorted.js';

type Timed = Pick<DeviceHistory, 'events' | 'times'>;

/** 0: before the first event; 1: after the last. Constant. */
export function shareOfMoment({ events, times }: Timed, axis: 'events' | 'time', moment: number): number {
  if (events === 0) return 1;
  const span = spanOf(times);
  if (axis === 'events' || span === null || times === null) return (moment + 1) / events;
  return moment < 0 ? 0 : ((times[moment] as number) - span.from) / (span.to - span.from);
}

/** The last moment that is not beyond a share, within the recording. By time the moments of one time are passed together. Logarithmic. */
export function momentAtShare({ events, times }: Timed, axis: 'events' | 'time', share: number): number {
  if (share >= 1) return events - 1;
  const span = spanOf(times);
  if (axis === 'events' || span === null || times === null) return Math.max(-1, Math.floor(share * events + 1e-6) - 1);
  const time = span.from + Math.max(0, share) * (span.to - span.from);
  // The first event that is later; equal times are of moments that have passed.
  return firstAfter(times, time) - 1;
}

/** Null where all events are at one time. */
function spanOf(times: Float64Array | null): { readonly from: number; readonly to: number } | null {
  const from = times?.[0];
  const to = times?.at(-1);
  return from === undefined || to === undefined || !(from < to) ? null : { from, to };
}

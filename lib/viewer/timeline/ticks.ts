// Round values along an axis, and how they are written. Must not know where they are drawn.

import { GIB, KIB, MIB } from '../../units.js';

export interface Tick {
  readonly value: number;
  readonly text: string;
}

/** Steps of 1, 2 or 5 times a power of ten. At most about `most`. */
export function countTicks(from: number, to: number, most: number): Tick[] {
  const step = Math.max(1, decimalStep((to - from) / most));
  return multiples(from, to, step).map((value) => ({ value, text: value.toLocaleString('en') }));
}

/** Powers of two, in the unit that fits the highest. */
export function byteTicks(from: number, to: number, most: number): Tick[] {
  const step = 2 ** Math.ceil(Math.log2(Math.max(1, (to - from) / most)));
  const [unit, name] =
    to >= 2 * GIB ? [GIB, 'GiB'] : to >= 2 * MIB ? [MIB, 'MiB'] : to >= 2 * KIB ? [KIB, 'KiB'] : [1, 'B'];
  const digits = Math.max(0, Math.min(2, Math.ceil(-Math.log2(step / unit))));
  return multiples(from, to, step).map((value) => ({
    value,
    text: value === 0 ? '0' : `${(value / unit).toFixed(digits)} ${name}`,
  }));
}

/** Seconds since a moment, of values in microseconds. */
export function timeTicks(fromUs: number, toUs: number, startUs: number, most: number): Tick[] {
  const step = decimalStep((toUs - fromUs) / most) || 1;
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / 1e6) + 1e-9)));
  return multiples(fromUs - startUs, toUs - startUs, step).map((value) => ({
    value: value + startUs,
    text: `${(value / 1e6).toFixed(digits)} s`,
  }));
}

function decimalStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((factor) => factor * power >= least) ?? 10) * power;
}

function multiples(from: number, to: number, step: number): number[] {
  const first = Math.ceil(from / step);
  const count = Math.max(0, Math.floor(to / step) - first + 1);
  return Array.from({ length: count }, (_, i) => (first + i) * step);
}

/** A duration as people say it: `12 µs`, `3.4 ms`, `2.51 s`, `4 min 10 s`. */
export function formatDuration(us: number): string {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1e3).toFixed(us < 1e5 ? 1 : 0)} ms`;
  if (us < 120e6) return `${(us / 1e6).toFixed(2)} s`;
  const seconds = Math.round(us / 1e6);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

// Round values along axes, and how they are written.

import { describe, expect, test } from 'vitest';
import { GIB, MIB } from '../../lib/units.js';
import { byteTicks, countTicks, formatDuration, timeTicks } from '../../lib/viewer/timeline/ticks.js';

describe('ticks', () => {
  test('of counts are round and whole', () => {
    expect(countTicks(-1, 1_000_000, 6).map(({ text }) => text)).toEqual([
      '0',
      '200,000',
      '400,000',
      '600,000',
      '800,000',
      '1,000,000',
    ]);
    expect(countTicks(3, 5, 10).map(({ value }) => value)).toEqual([3, 4, 5]);
  });

  test('of bytes are powers of two in one unit', () => {
    expect(byteTicks(0, 5 * GIB, 5).map(({ text }) => text)).toEqual([
      '0',
      '1 GiB',
      '2 GiB',
      '3 GiB',
      '4 GiB',
      '5 GiB',
    ]);
    expect(byteTicks(0, 3 * MIB, 6).map(({ text }) => text)).toEqual([
      '0',
      '0.5 MiB',
      '1.0 MiB',
      '1.5 MiB',
      '2.0 MiB',
      '2.5 MiB',
      '3.0 MiB',
    ]);
    expect(byteTicks(0, 1, 6).map(({ text }) => text)).toEqual(['0', '1 B']);
  });

  test('of time are seconds since the start', () => {
    expect(timeTicks(1e15, 1e15 + 2e6, 1e15, 4).map(({ text }) => text)).toEqual([
      '0.0 s',
      '0.5 s',
      '1.0 s',
      '1.5 s',
      '2.0 s',
    ]);
    expect(timeTicks(1e15, 1e15, 1e15, 4).map(({ text }) => text)).toEqual(['0.000000 s']);
  });
});

test('durations have the unit that fits', () => {
  expect([3, 3400, 340_000, 2_510_000, 250_000_000].map(formatDuration)).toEqual([
    '3 µs',
    '3.4 ms',
    '340 ms',
    '2.51 s',
    '4 min 10 s',
  ]);
});

// The horizontal axis: moments to distances and back, by events and by time, and what a column shows.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { eventAxis, marksAlong, momentsOfColumns, timeAxis } from '../../../lib/viewer/timeline/axis.js';
import { HighestIn } from '../../../lib/viewer/timeline/highest-in.js';

describe('along time', () => {
  const times = Float64Array.from([1000, 1010, 1010, 1100, 5000]);

  test('moments are where their time is', () => {
    const axis = timeAxis({ from: 0, to: 4 }, 4000, times);
    expect(axis.xOf(0)).toBe(0);
    expect(axis.xOf(1)).toBeCloseTo(10);
    expect(axis.xOf(2)).toBeCloseTo(10);
    expect(axis.xOf(3)).toBeCloseTo(100);
    expect(axis.xOf(3.5)).toBeCloseTo(2050);
    expect(axis.momentAt(2050)).toBeCloseTo(3.5);
    // Of events at one time the last is what is seen.
    expect(Math.floor(axis.momentAt(10.001))).toBe(2);
  });

  test('there and back is the same moment', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 2, maxLength: 50 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (gaps, share) => {
          let now = 1e15;
          const ascending = Float64Array.from(gaps, (gap) => (now += gap));
          const axis = timeAxis({ from: -1, to: gaps.length }, 1000, ascending);
          const moment = -1 + share * (gaps.length + 1);
          expect(axis.momentAt(axis.xOf(moment))).toBeCloseTo(moment, 3);
        },
      ),
    );
  });

  test('all events at one time are no fault', () => {
    const axis = timeAxis({ from: -1, to: 3 }, 100, new Float64Array([5, 5, 5]));
    expect([0, 50, 100].map((x) => Number.isFinite(axis.momentAt(x)))).toEqual([true, true, true]);
  });
});

describe('a column', () => {
  const active = Float64Array.from([0, 1, 5, 2, 9, 3, 4]);

  test('shows the highest of the moments that begin in it', () => {
    const moments = momentsOfColumns(eventAxis({ from: -1, to: 5 }, 3), 6, new HighestIn(active));
    expect([...moments]).toEqual([0, 1, 3]);
  });

  test('shows what goes on where none begins', () => {
    const moments = momentsOfColumns(eventAxis({ from: 1, to: 3 }, 8), 6, new HighestIn(active));
    expect([...moments]).toEqual([1, 1, 1, 1, 2, 2, 2, 2]);
  });

  test('ascends, and never leaves what is there', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(100), { minLength: 1, maxLength: 300 }),
        fc.integer({ min: 1, max: 64 }),
        fc.double({ min: -1, max: 300, noNaN: true }),
        fc.double({ min: 0.01, max: 300, noNaN: true }),
        (values, width, from, length) => {
          const events = values.length - 1;
          const moments = momentsOfColumns(
            eventAxis({ from, to: from + length }, width),
            events,
            new HighestIn(Float64Array.from(values)),
          );
          for (let x = 0; x < width; x++) {
            expect(moments[x]).toBeGreaterThanOrEqual(Math.max(-1, moments[x - 1] ?? -1));
            expect(moments[x]).toBeLessThan(Math.max(1, events));
          }
        },
      ),
    );
  });

  test('of a state without events is that state', () => {
    expect([...momentsOfColumns(eventAxis({ from: -1, to: 0 }, 3), 0, new HighestIn(new Float64Array([7])))]).toEqual([
      -1, -1, -1,
    ]);
  });
});

test('of very many marks there is one for each pixel, and names where there is room', () => {
  const moments = Array.from({ length: 100_000 }, (_, i) => i);
  const marks = marksAlong(eventAxis({ from: 0, to: 100_000 }, 1000), moments, 100);
  expect(marks).toHaveLength(1000);
  expect(marks.filter(({ isNamed }) => isNamed).map(({ x }) => Math.round(x))).toEqual([
    0, 100, 200, 300, 400, 500, 600, 700, 800, 900,
  ]);
  expect(marksAlong(eventAxis({ from: 10, to: 20 }, 100), [3, 12, 12, 30], 10)).toEqual([{ x: 20, isNamed: true }]);
});

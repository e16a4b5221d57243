// What the picture of a timeline contains: every byte of every moment that a column shows, in bands or in sums, nothing else.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { eventAxis, momentsOfColumns, wholeSpan } from '../../../lib/viewer/timeline/axis.js';
import { HighestIn } from '../../../lib/viewer/timeline/highest-in.js';
import { EDGE, NOTHING, NUMBER, PENDING, SUMMED, TimelineRaster } from '../../../lib/viewer/timeline/raster.js';
import { anyLives, type Life, lifetimesOf } from '../../support/lifetimes.js';

const HEIGHT = 64;

function drawn(
  { lives, events }: { readonly lives: readonly Life[]; readonly events: number },
  {
    width = 24,
    top,
    bottom = 0,
    passing = null,
  }: { width?: number; top?: number; bottom?: number; passing?: Uint8Array | null } = {},
) {
  const lifetimes = lifetimesOf(lives, events);
  const axis = eventAxis(wholeSpan({ events }), width);
  const moments = momentsOfColumns(axis, events, new HighestIn(lifetimes.active));
  const raster = new TimelineRaster(lifetimes, width, HEIGHT);
  const highest = Math.max(1, ...lifetimes.active);
  const groupOf = Uint8Array.from({ length: lives.length }, (_, row) => row % 3);
  raster.draw(moments, { passing, groupOf, groups: 3 }, { bottom, top: top ?? highest });
  return { lifetimes, raster, moments };
}

describe('every column', () => {
  test('holds the active bytes of its moment', () => {
    fc.assert(
      fc.property(anyLives, fc.integer({ min: 1, max: 40 }), (recording, width) => {
        const { lifetimes, raster, moments } = drawn(recording, { width });
        moments.forEach((moment, x) => {
          expect(raster.drawn[x]).toBe(lifetimes.active[moment + 1]);
        });
      }),
    );
  });

  test('holds those of the rows that pass', () => {
    fc.assert(
      fc.property(anyLives, fc.integer({ min: 0, max: 3 }), (recording, keep) => {
        const passing = Uint8Array.from({ length: recording.lives.length }, (_, row) => Number(row % 4 === keep));
        const { lifetimes, raster, moments } = drawn(recording, { passing });
        const { blocks } = lifetimes;
        moments.forEach((moment, x) => {
          let bytes = 0;
          for (let row = 0; row < blocks.length; row++)
            if (passing[row] === 1 && blocks.starts[row]! <= moment && moment < blocks.ends[row]!)
              bytes += blocks.sizes[row]!;
          expect(raster.drawn[x]).toBe(bytes);
        });
      }),
    );
  });

  test('names at each pixel a block that lives then, allocated or pending as it is', () => {
    fc.assert(
      fc.property(anyLives, (recording) => {
        const { lifetimes, raster, moments } = drawn(recording);
        const { starts, freed, ends, sizes } = lifetimes.blocks;
        moments.forEach((moment, x) => {
          for (let y = 0; y < HEIGHT; y++) {
            const id = raster.at(x, y);
            if (id === NOTHING || (id & SUMMED) !== 0) continue;
            const row = (id & NUMBER) - 1;
            expect(sizes[row]).toBeGreaterThanOrEqual(raster.thinBelow);
            expect(starts[row]).toBeLessThanOrEqual(moment);
            expect(moment).toBeLessThan(ends[row]!);
            expect((id & PENDING) !== 0).toBe(moment >= freed[row]!);
          }
        });
      }),
    );
  });

  test('is filled to the height of its bytes, and no higher', () => {
    fc.assert(
      fc.property(anyLives, (recording) => {
        const { lifetimes, raster, moments } = drawn(recording);
        const scale = HEIGHT / Math.max(1, ...lifetimes.active);
        moments.forEach((moment, x) => {
          const filled = Array.from({ length: HEIGHT }, (_, y) => raster.at(x, y)).filter(
            (id) => id !== NOTHING,
          ).length;
          expect(filled).toBe(Math.round(lifetimes.active[moment + 1]! * scale));
        });
      }),
    );
  });

  test('has bands of the height of their blocks, within a pixel', () => {
    const lives = [
      { start: 0, freed: 4, end: 4, size: 320 },
      { start: 1, freed: 3, end: 3, size: 640 },
    ];
    const { raster } = drawn({ lives, events: 4 }, { width: 5, top: 1280 });
    // Columns: before the first event, and after events 0 to 3.
    const count = (x: number, row: number) =>
      Array.from({ length: HEIGHT }, (_, y) => raster.at(x, y)).filter((id) => (id & NUMBER) === row + 1).length;
    expect([0, 1, 2, 3, 4].map((x) => [count(x, 0), count(x, 1)])).toEqual([
      [0, 0],
      [16, 0],
      [16, 32],
      [16, 32],
      [16, 0],
    ]);
    expect(raster.at(1, 15) & EDGE).toBe(EDGE);
    expect(raster.at(1, 14) & EDGE).toBe(0);
  });
});

test('blocks thinner than a pixel are in sums by group, on top of the bands', () => {
  const lives = [
    { start: -1, freed: 2, end: 2, size: 640 },
    ...Array.from({ length: 30 }, () => ({ start: 0, freed: 2, end: 2, size: 10 })),
  ];
  const { raster } = drawn({ lives, events: 2 }, { width: 3, top: 1280 });
  expect(raster.thinBelow).toBe(20);
  expect([...raster.summed]).toEqual([0, 300, 300]);
  expect([...raster.drawn]).toEqual([640, 940, 940]);
  expect(raster.at(1, 31) & SUMMED).toBe(0);
  const sums = Array.from({ length: 15 }, (_, y) => raster.at(1, 32 + y));
  expect(sums.every((id) => (id & SUMMED) !== 0)).toBe(true);
  expect(new Set(sums.map((id) => id & NUMBER))).toEqual(new Set([0, 1, 2]));
  expect(raster.at(1, 47)).toBe(NOTHING);
});

test('of blocks that live between the moments shown it says how many', () => {
  // 100 events in 2 columns: of the short-lived ones only those of the highest moments are seen.
  const lives = Array.from({ length: 50 }, (_, i) => ({ start: 2 * i, freed: 2 * i + 1, end: 2 * i + 1, size: 100 }));
  const { raster } = drawn({ lives, events: 100 }, { width: 2 });
  const seen = new Set([...raster.pixels].filter((id) => id !== NOTHING).map((id) => id & NUMBER));
  // Behind the last moment shown nothing is counted: no column follows.
  expect(seen.size).toBe(2);
  expect(raster.between).toBeGreaterThan(0);
  expect(raster.between + seen.size).toBeLessThanOrEqual(50);
});

test('a part that is zoomed into shows the same bytes at the same moments', () => {
  fc.assert(
    fc.property(anyLives, fc.nat(), fc.nat(), (recording, a, b) => {
      const { events, lives } = recording;
      const lifetimes = lifetimesOf(lives, events);
      const from = (a % (events + 1)) - 1;
      const to = from + 1 + (b % (events - from || 1));
      const moments = momentsOfColumns(eventAxis({ from, to }, 16), events, new HighestIn(lifetimes.active));
      const raster = new TimelineRaster(lifetimes, 16, HEIGHT);
      raster.draw(
        moments,
        { passing: null, groupOf: new Uint8Array(lives.length), groups: 1 },
        { bottom: 0, top: 10_000 },
      );
      moments.forEach((moment, x) => {
        expect(moment).toBeGreaterThanOrEqual(from);
        expect(moment).toBeLessThanOrEqual(to);
        expect(raster.drawn[x]).toBe(lifetimes.active[moment + 1]);
      });
    }),
  );
});

// The pixels of the map: what they name, and how they are painted.

import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { type Lifetimes, lifetimesOf } from '../../../lib/analysis/recording/lifetimes.js';
import { LIGHT, pixelOf } from '../../../lib/viewer/palette.js';
import { extentsOf, LINE, MapLayout, PITCH } from '../../../lib/viewer/segments/layout.js';
import {
  type MapPaints,
  MapRaster,
  NOTHING,
  paintMap,
  STRIPE,
  THIN,
  UNMAPPED,
} from '../../../lib/viewer/segments/raster.js';
import { type MapState, mapState, type Run, type RunKind } from '../../../lib/viewer/segments/state.js';
import { programs } from '../../support/programs.js';

const BLOCK = pixelOf('#123456');

function paintsOf(rows: number, more: Partial<MapPaints> = {}): MapPaints {
  return { palette: LIGHT, blocks: new Int32Array(rows).fill(BLOCK), pinned: null, highlighted: null, ...more };
}

function stateOf(kinds: readonly RunKind[]): MapState {
  const runs = kinds.map(
    (kind, i): Run => ({
      address: i * 2 ** 20,
      size: 2 ** 20,
      kind,
      row: kind === 'stuck' || kind === 'wholly_free' ? -1 : i,
      segment: 0,
    }),
  );
  return {
    runs,
    segments: [],
    sums: { allocated: 0, pending: 0, stuck: 0, wholly_free: 0 },
    outside: { count: 0, bytes: 0 },
  };
}

const moments = ({ events }: Lifetimes): number[] => [-1, events >> 2, events >> 1, events - 1];

/** Pixels whose run is not at their address, and the number of those that name runs. */
function misnamed(raster: MapRaster, { runs }: MapState): { wrong: number[]; named: number } {
  const { placed, bytesPerPixel } = raster.layout;
  const wrong: number[] = [];
  let named = 0;
  for (const { at, address, size } of placed) {
    for (let i = 0; i < Math.round(size / bytesPerPixel); i++) {
      const id = raster.ids[at + i]!;
      if (id === UNMAPPED) continue;
      named++;
      const run = runs[id - 1];
      // The middle of the pixel, within the rounding of edges.
      const middle = address + (i + 0.5) * bytesPerPixel;
      const isAt =
        run !== undefined && middle > run.address - bytesPerPixel && middle < run.address + run.size + bytesPerPixel;
      if (!isAt) wrong.push(at + i);
    }
  }
  return { wrong, named };
}

describe('pixels', () => {
  test.each(programs(8))(
    'of $name name the run at their address, in all as many as there are bytes',
    ({ snapshot, conf }) => {
      const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
      const layout = new MapLayout(extentsOf(lifetimes.ranges), { width: 700, height: 400, zoom: 2 });
      const raster = new MapRaster(layout);
      for (const event of moments(lifetimes)) {
        const map = mapState(lifetimes, event);
        raster.draw(map);
        const { wrong, named } = misnamed(raster, map);
        expect(wrong).toEqual([]);
        const drawn = map.runs.filter(({ address }) => layout.extentAt(address) !== undefined);
        const bytes = drawn.reduce((sum, { size }) => sum + size, 0);
        const slack = (map.segments.length + 1) * layout.bytesPerPixel;
        expect(Math.abs(named * layout.bytesPerPixel - bytes)).toBeLessThanOrEqual(slack);
      }
    },
  );

  test('outside of extents name nothing, whichever pools are shown', () => {
    let hidden = 0;
    for (const { name, snapshot, conf } of programs(8)) {
      const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
      const { ranges } = lifetimes;
      for (let pool = 0; pool < ranges.pools.length; pool++) {
        const passing = Uint8Array.from(ranges.poolOf, (one) => Number(one === pool));
        const layout = new MapLayout(extentsOf(ranges, passing), { width: 500, height: 300, zoom: 1 });
        const raster = new MapRaster(layout);
        const inside = new Uint8Array(raster.ids.length);
        for (const { at, size } of layout.placed) inside.fill(1, at, at + Math.round(size / layout.bytesPerPixel));
        for (const event of moments(lifetimes)) {
          const map = mapState(lifetimes, event, passing);
          hidden += mapState(lifetimes, event).runs.length - map.runs.length;
          raster.draw(map);
          expect(
            raster.ids.findIndex((id, i) => inside[i] === 0 && id !== NOTHING && id !== THIN),
            name,
          ).toBe(-1);
          expect(misnamed(raster, map).wrong, name).toEqual([]);
        }
      }
    }
    expect(hidden).toBeGreaterThan(0);
  });

  test('of thin extents are one box, and between lines there is nothing', () => {
    const extents = [
      { address: 0, size: 2 ** 30 },
      ...Array.from({ length: 5 }, (_, i) => ({ address: 2 ** 31 + i * 2 ** 20, size: 512 })),
    ];
    const layout = new MapLayout(extents, { width: 100, height: 60, zoom: 1 });
    expect(layout.thin).toEqual({ count: 5, bytes: 2560 });
    const raster = new MapRaster(layout);
    raster.draw(stateOf([]));
    expect([...raster.ids]).toContain(THIN);
    expect(raster.at(5, LINE.height + 1)).toBe(NOTHING);
    expect(raster.at(5, 3)).toBe(UNMAPPED);
    const beyond = [raster.at(-1, 3), raster.at(5, -1), raster.at(101, 3), raster.at(5, 1e6)];
    expect(beyond).toEqual([NOTHING, NOTHING, NOTHING, NOTHING]);
  });

  test('of runs narrower than one are counted as not seen', () => {
    const raster = new MapRaster(new MapLayout([{ address: 0, size: 2 ** 30 }], { width: 100, height: 60, zoom: 1 }));
    const runs = [{ address: 0, size: 512, kind: 'allocated', row: 0, segment: 0 }] as const;
    raster.draw({ ...stateOf([]), runs });
    expect(raster.hidden).toEqual({ count: 1, bytes: 512 });
  });
});

describe('painted', () => {
  const kinds = ['allocated', 'stuck', 'pending', 'wholly_free'] as const;
  const layout = new MapLayout([{ address: 0, size: 4 * 2 ** 20 }], { width: 80, height: PITCH, zoom: 1 });

  /** The pixels of the first line that each kind has. */
  function painted(more: Partial<MapPaints> = {}): Readonly<Record<RunKind, number[]>> {
    const map = stateOf(kinds);
    const raster = new MapRaster(layout);
    raster.draw(map);
    const picture = new Int32Array(layout.width * layout.height);
    paintMap(raster, map, paintsOf(kinds.length, more), picture);
    const of = (kind: RunKind): number[] => {
      const pixels = picture.subarray(0, layout.width).filter((_, x) => map.runs[raster.ids[x]! - 1]?.kind === kind);
      return [...new Set(pixels)];
    };
    return { allocated: of('allocated'), pending: of('pending'), stuck: of('stuck'), wholly_free: of('wholly_free') };
  }

  test('each kind has its colour; pending has that of its block in stripes', () => {
    const pixels = painted();
    expect(pixels).toMatchObject({
      allocated: [BLOCK],
      stuck: [pixelOf(LIGHT.stuck)],
      wholly_free: [pixelOf(LIGHT.whollyFree)],
    });
    expect(pixels.pending.sort()).toEqual([BLOCK, pixelOf(LIGHT.pending)].sort());
    expect(layout.width / kinds.length).toBeGreaterThan(2 * STRIPE);
  });

  test('what does not stand out is dimmed, but not what is pinned', () => {
    const dimmed = [pixelOf(LIGHT.dimmed)];
    expect(painted({ highlighted: ({ kind }) => kind === 'stuck', pinned: 2 })).toEqual({
      allocated: dimmed,
      stuck: [pixelOf(LIGHT.stuck)],
      pending: [pixelOf(LIGHT.ink)],
      wholly_free: dimmed,
    });
  });

  test('a part from any row on is that part of the whole', () => {
    const { snapshot, conf } = programs(1)[0]!;
    const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
    const many = new MapLayout(extentsOf(lifetimes.ranges), { width: 90, height: 100, zoom: 3 });
    const raster = new MapRaster(many);
    const map = mapState(lifetimes, lifetimes.events >> 1);
    raster.draw(map);
    const paints = paintsOf(lifetimes.blocks.length);
    const whole = new Int32Array(90 * many.height);
    paintMap(raster, map, paints, whole);
    for (const top of [0, 1, LINE.height, PITCH, 3 * PITCH - 2, many.height - 50]) {
      const part = new Int32Array(90 * 50);
      paintMap(raster, map, paints, part, top);
      expect(part).toEqual(whole.slice(90 * top, 90 * (top + 50)));
    }
    const beyond = new Int32Array(90 * 10);
    paintMap(raster, map, paints, beyond, many.height);
    expect(new Set(beyond)).toEqual(new Set([pixelOf(LIGHT.background)]));
  });
});

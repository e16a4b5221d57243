// The lines of the map: to scale, without overlaps, nothing lost, and the same at every moment.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { lifetimesOf } from '../../../lib/analysis/recording/lifetimes.js';
import { type Extent, extentsOf, LINE, MapLayout } from '../../../lib/viewer/segments/layout.js';
import { MapRaster, NOTHING, THIN, UNMAPPED } from '../../../lib/viewer/segments/raster.js';
import { mapState } from '../../../lib/viewer/segments/state.js';
import { programs } from '../../support/programs.js';

const anyExtents: fc.Arbitrary<Extent[]> = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 2 ** 30 }), fc.integer({ min: 1, max: 2 ** 31 })), { maxLength: 200 })
  .map((pairs) => {
    let address = 0x7f0000000000;
    return pairs.map(([hole, size]) => {
      const extent = { address: address + hole, size };
      address = extent.address + size;
      return extent;
    });
  });

test('extents follow each other without overlap, to scale, and every byte is in one of them or in the box of the thin', () => {
  fc.assert(
    fc.property(
      anyExtents,
      fc.integer({ min: 40, max: 2000 }),
      fc.integer({ min: 20, max: 1200 }),
      (extents, width, height) => {
        const layout = new MapLayout(extents, { width, height, zoom: 1 });
        const total = extents.reduce((sum, { size }) => sum + size, 0);
        expect(layout.placed.reduce((sum, { size }) => sum + size, 0) + layout.thin.bytes).toBe(total);
        expect(layout.placed.length + layout.thin.count).toBe(extents.length);
        let end = 0;
        for (const { at, size } of layout.placed) {
          expect(at).toBeGreaterThanOrEqual(end);
          expect(size).toBeGreaterThanOrEqual(layout.bytesPerPixel);
          end = at + Math.round(size / layout.bytesPerPixel);
        }
        expect(layout.lines * width).toBeGreaterThanOrEqual(end);
        expect(layout.height).toBe(layout.lines * (LINE.height + LINE.gap));
      },
    ),
  );
});

test('zoomed in, a byte has so much more room', () => {
  const extents = [{ address: 4096, size: 2 ** 30 }];
  const plain = new MapLayout(extents, { width: 500, height: 200, zoom: 1 });
  const closer = new MapLayout(extents, { width: 500, height: 200, zoom: 4 });
  expect(plain.bytesPerPixel / closer.bytesPerPixel).toBeCloseTo(4);
  expect(closer.lines).toBeGreaterThan(3 * plain.lines);
});

test('of a recording: every range of every moment lies in an extent', () => {
  for (const { name, snapshot, conf } of programs(8)) {
    const { ranges } = lifetimesOf(snapshot, 0, parseConfig(conf));
    const extents = extentsOf(ranges);
    for (let row = 0; row < ranges.length; row++) {
      const [address, size] = [ranges.addresses[row]!, ranges.sizes[row]!];
      const around = extents.filter(
        (extent) => extent.address <= address && address + size <= extent.address + extent.size,
      );
      expect(around, name).toHaveLength(1);
    }
    for (let i = 1; i < extents.length; i++)
      expect(extents[i]!.address).toBeGreaterThanOrEqual(extents[i - 1]!.address + extents[i - 1]!.size);
  }
});

describe('its pixels', () => {
  test('name the run at their address, and what is not reserved', () => {
    for (const { name, snapshot, conf } of programs(8)) {
      const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
      const layout = new MapLayout(extentsOf(lifetimes.ranges), { width: 700, height: 400, zoom: 2 });
      const raster = new MapRaster(layout);
      for (const event of [-1, lifetimes.events >> 1, lifetimes.events - 1]) {
        const map = mapState(lifetimes, event);
        raster.draw(map);
        let runPixels = 0;
        for (const { at, address, size } of layout.placed) {
          const wide = Math.round(size / layout.bytesPerPixel);
          for (let i = 0; i < wide; i++) {
            const id = raster.ids[at + i]!;
            expect(id, name).not.toBe(NOTHING);
            if (id === UNMAPPED) continue;
            runPixels++;
            const run = map.runs[id - 1]!;
            // The middle of the pixel, within the rounding of edges.
            const middle = address + (i + 0.5) * layout.bytesPerPixel;
            expect(middle).toBeGreaterThan(run.address - layout.bytesPerPixel);
            expect(middle).toBeLessThan(run.address + run.size + layout.bytesPerPixel);
          }
        }
        const hiddenSegments = map.runs
          .filter(({ address }) => layout.extentAt(address) === undefined)
          .reduce((sum, { size }) => sum + size, 0);
        const bytes = Object.values(map.sums).reduce((sum, one) => sum + one, 0);
        expect(Math.abs(runPixels * layout.bytesPerPixel - (bytes - hiddenSegments))).toBeLessThanOrEqual(
          (map.segments.length + 1) * layout.bytesPerPixel + raster.hidden.bytes,
        );
      }
    }
  });

  test('of thin extents are one box, and between lines there is nothing', () => {
    const extents = [
      { address: 0, size: 2 ** 30 },
      ...Array.from({ length: 5 }, (_, i) => ({ address: 2 ** 31 + i * 2 ** 20, size: 512 })),
    ];
    const layout = new MapLayout(extents, { width: 100, height: 60, zoom: 1 });
    expect(layout.thin).toEqual({ count: 5, bytes: 2560 });
    const raster = new MapRaster(layout);
    raster.draw({ runs: [], segments: [], sums: { allocated: 0, pending: 0, stuck: 0, wholly_free: 0 } });
    expect([...raster.ids]).toContain(THIN);
    expect(raster.at(5, LINE.height + 1)).toBe(NOTHING);
    expect(raster.at(5, 3)).toBe(UNMAPPED);
    expect([raster.at(-1, 3), raster.at(5, -1), raster.at(101, 3), raster.at(5, 1e6)]).toEqual([
      NOTHING,
      NOTHING,
      NOTHING,
      NOTHING,
    ]);
  });
});

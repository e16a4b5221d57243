// The lines of the map: to scale, without overlaps, nothing lost, and the same at every moment.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { lifetimesOf } from '../../../lib/analysis/recording/lifetimes.js';
import { type Extent, extentsOf, LINE, MapLayout, PITCH } from '../../../lib/viewer/segments/layout.js';
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

test('without zoom the lines fit the height, unless the spaces alone need more', () => {
  fc.assert(
    fc.property(
      anyExtents,
      fc.integer({ min: 400, max: 2000 }),
      fc.integer({ min: 60, max: 1200 }),
      (extents, width, height) => {
        const lines = Math.floor(height / PITCH);
        fc.pre(extents.length * 8 < lines * width);
        expect(new MapLayout(extents, { width, height, zoom: 1 }).height).toBeLessThanOrEqual(lines * PITCH);
      },
    ),
  );
});

test('the place of an address and the address of a place are of one line', () => {
  fc.assert(
    fc.property(
      anyExtents,
      fc.integer({ min: 1, max: 16 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (extents, zoom, share) => {
        const layout = new MapLayout(extents, { width: 300, height: 200, zoom });
        const extent = layout.placed[Math.floor(share * (layout.placed.length - 1))];
        if (extent === undefined) {
          expect(layout.addressAt(5, 5)).toBeNull();
          return;
        }
        const address = extent.address + Math.floor(share * (extent.size - 1));
        const line = layout.lineOf(address);
        const [first, last] = [layout.addressAt(0, line * PITCH), layout.addressAt(299, line * PITCH)];
        expect(first).toBeLessThanOrEqual(address);
        expect(last! + layout.bytesPerPixel).toBeGreaterThanOrEqual(address);
      },
    ),
  );
});

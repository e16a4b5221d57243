// The gap and its parts: worked out by hand, and summed up for random programs.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { memoryFigures, poolReports } from '../../../lib/analysis/report/gap.js';
import { SimDevice } from '../../../lib/device/sim.js';
import { MIB } from '../../support/devices.js';
import { programs } from '../../support/programs.js';
import { snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;
const live = (mib: number): readonly [number, number] => [mib * MIB, mib * MIB];
const free = (mib: number): readonly [number] => [mib * MIB];

describe('the gap', () => {
  const segments = snapshotOf(
    [
      { address: A, blocks: [live(10), free(15), live(5), free(10)] },
      { address: A + 64 * MIB, blocks: [free(30)] },
      { address: A + 128 * MIB, blocks: [live(20), free(4)], stream: 7 },
      { address: A + 256 * MIB, blocks: [free(16)], stream: 7 },
    ],
    [],
  ).segments;

  test('without a request: wholly free and stuck', () => {
    expect(memoryFigures(segments, null)).toMatchObject({
      reserved: 110 * MIB,
      allocated: 35 * MIB,
      largest_free_block: 30 * MIB,
      gap: { pending: 0, other_stream: 0, wholly_free: 46 * MIB, stuck: 29 * MIB },
    });
  });

  test('with one: what it cannot use comes first', () => {
    expect(memoryFigures(segments, { rounded: 40 * MIB, stream: 0 }).gap).toEqual({
      pending: 0,
      other_stream: 20 * MIB,
      wholly_free: 30 * MIB,
      stuck: 25 * MIB,
    });
    // A small request can use none of the large pool.
    expect(memoryFigures(segments, { rounded: 512, stream: 0 }).gap).toMatchObject({
      other_stream: 75 * MIB,
      stuck: 0,
    });
  });

  test('pending is what another stream awaits', () => {
    const device = new SimDevice({ capacity: 256 * MIB });
    const allocator = new CachingAllocator({ device, conf: '' });
    device.mock.holdEvents();
    const address = allocator.malloc(5 * MIB);
    allocator.recordStream(address, device.createStream());
    allocator.free(address);
    // It pins the rest of its segment of 20 MiB.
    const figures = memoryFigures(allocator.memorySnapshot().segments, null);
    expect(figures).toMatchObject({
      allocated: 0,
      active: 5 * MIB,
      gap: { pending: 5 * MIB, stuck: 15 * MIB, wholly_free: 0 },
    });
  });

  test('its parts sum to it to the byte, for the device as for its pools', () => {
    for (const { name, conf, snapshot } of programs(40)) {
      for (const request of [null, { rounded: 5 * MIB, stream: 0 }, { rounded: 512, stream: 1 }]) {
        const figures = memoryFigures(snapshot.segments, request);
        const pools = poolReports(snapshot.segments, request, parseConfig(conf));
        for (const { reserved, allocated, active, gap } of [figures, ...pools]) {
          expect(gap.pending + gap.other_stream + gap.wholly_free + gap.stuck, name).toBe(reserved - allocated);
          expect(gap.pending, name).toBe(active - allocated);
          expect(active, name).toBeGreaterThanOrEqual(allocated);
          expect(reserved, name).toBeGreaterThanOrEqual(active);
        }
        for (const key of ['reserved', 'allocated', 'active', 'requested', 'rounding'] as const) {
          expect(
            pools.reduce((sum, pool) => sum + pool[key], 0),
            name,
          ).toBe(figures[key]);
        }
        const own = snapshot.segments.reduce((sum, { allocatedSize }) => sum + allocatedSize, 0);
        expect(figures.allocated, name).toBe(own);
      }
    }
  });
});

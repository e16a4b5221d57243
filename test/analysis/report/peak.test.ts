// The course of memory: of random programs it ends in the final state and its peak is that of a recount.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { DEFAULT_CONFIG } from '../../../lib/allocator/config.js';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { memoryFigures } from '../../../lib/analysis/report/gap.js';
import { liveBlocks } from '../../../lib/analysis/report/live-blocks.js';
import { courseOf } from '../../../lib/analysis/report/peak.js';
import { SimDevice } from '../../../lib/device/sim.js';
import type { DeviceTrace } from '../../../lib/snapshot/model.js';
import { MIB } from '../../support/devices.js';
import { CONFS, programs, watchedProgram } from '../../support/programs.js';

describe('the course', () => {
  test('ends in the final state, and its peak is that of a recount', () => {
    for (const { name, conf, snapshot } of programs(24)) {
      const config = parseConfig(conf);
      const { peak, timeline } = courseOf(snapshot, 0, config);
      const figures = memoryFigures(snapshot.segments, null);
      const trace = snapshot.deviceTraces[0] as DeviceTrace;
      expect(timeline.at(-1), name).toEqual([
        trace.length - 1,
        trace.times[trace.length - 1],
        figures.allocated,
        figures.active,
        figures.reserved,
      ]);
      expect(timeline.length).toBeLessThan(260);
      for (const [, , allocated, active, reserved] of timeline as number[][]) {
        expect(active, name).toBeGreaterThanOrEqual(allocated as number);
        expect(reserved, name).toBeGreaterThanOrEqual(active as number);
        expect(peak?.allocated, name).toBeGreaterThanOrEqual(allocated as number);
      }
      const atPeak = liveBlocks(snapshot, 0, peak?.event ?? null, config).reduce((sum, { size }) => sum + size, 0);
      expect(atPeak, name).toBe(peak?.allocated);
    }
  });

  test('has the peak that the allocator counted', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e9 }), fc.constantFrom(...CONFS), (seed, conf) => {
        const { snapshot, peakAllocated } = watchedProgram(seed, conf);
        expect(courseOf(snapshot, 0, parseConfig(conf)).peak?.allocated).toBe(peakAllocated);
      }),
      { numRuns: 60 },
    );
  });

  test('counts as pending only what waits', () => {
    const run = (events: boolean) => {
      const device = new SimDevice({ capacity: 256 * MIB });
      const allocator = new CachingAllocator({ device, conf: '' });
      const other = device.createStream();
      allocator.recordMemoryHistory();
      if (events) device.mock.holdEvents();
      for (const mib of [12, 20]) {
        const address = allocator.malloc(mib * MIB);
        if (events) allocator.recordStream(address, other);
        allocator.free(address);
      }
      return courseOf(allocator.memorySnapshot(), 0, DEFAULT_CONFIG).pending_peak;
    };
    expect(run(false)).toBeNull();
    expect(run(true)).toMatchObject({ bytes: 32 * MIB, by_stream: [{ stream: 0, bytes: 32 * MIB }] });
  });
});

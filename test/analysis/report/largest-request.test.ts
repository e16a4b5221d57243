// The largest request that would succeed now: the allocator whose snapshot it is told from is asked for it, and for one byte more.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { DEFAULT_CONFIG } from '../../../lib/allocator/config.js';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { poolReports } from '../../../lib/analysis/report/gap.js';
import { largestOnDevice, largestServed } from '../../../lib/analysis/report/largest-request.js';
import { judgeSnapshot } from '../../../lib/analysis/report/snapshot-verdict.js';
import { SimDevice } from '../../../lib/device/sim.js';
import type { Stream } from '../../../lib/device/types.js';
import { OutOfMemoryError } from '../../../lib/errors.js';
import { MIB } from '../../support/devices.js';
import { randomFrom, snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;
const PLAIN = ['', 'roundup_power2_divisions:4', 'max_split_size_mb:32', 'large_segment_size_mb:5'];

interface Plan {
  readonly seed: number;
  readonly conf: string;
  readonly capacity: number;
}

interface Running {
  readonly allocator: CachingAllocator;
  readonly streams: readonly Stream[];
}

/** The same state each time for the same plan. */
function run({ seed, conf, capacity }: Plan): Running {
  const random = randomFrom(seed);
  const device = new SimDevice({ capacity });
  const allocator = new CachingAllocator({ device, conf, policy: 'pytorch' });
  const streams = [device.defaultStream, device.createStream()];
  const live: number[] = [];
  for (let i = 0; i < 150; i++) {
    const kind = random();
    const size = Math.ceil(random() * (kind < 0.4 ? 1 : kind < 0.7 ? 12 : 80) * MIB);
    const at = Math.floor(random() * live.length);
    if (random() < 0.45 && live.length > 0) allocator.free(live.splice(at, 1)[0] as number);
    else served(() => live.push(allocator.malloc(size, streams[kind < 0.5 ? 0 : 1])));
  }
  return { allocator, streams };
}

function served(request: () => unknown): boolean {
  try {
    request();
    return true;
  } catch (error) {
    if (error instanceof OutOfMemoryError) return false;
    throw error;
  }
}

function plans(confs: readonly string[]): fc.Arbitrary<Plan> {
  return fc.record({
    seed: fc.integer({ min: 1, max: 1e9 }),
    conf: fc.constantFrom(...confs),
    // Any number of bytes: devices are not whole segments.
    capacity: fc.integer({ min: 4 * MIB, max: 700 * MIB }),
  });
}

/** Whether some stream serves it, in a fresh copy of the state for each. */
function succeeds(plan: Plan, bytes: number): boolean {
  return [0, 1].some((stream) => {
    const { allocator, streams } = run(plan);
    return served(() => allocator.malloc(bytes, streams[stream]));
  });
}

function figureOf(plan: Plan): number {
  return largestOnDevice(run(plan).allocator.memorySnapshot().segments, plan.capacity, parseConfig(plan.conf));
}

test('of a device with plain segments: it succeeds, and one byte more does not', () => {
  fc.assert(
    fc.property(plans(PLAIN), (plan) => {
      const largest = figureOf(plan);
      if (largest > 0) expect(succeeds(plan, largest)).toBe(true);
      expect(succeeds(plan, largest + 1)).toBe(false);
    }),
    { numRuns: 150 },
  );
});

test('of a device with expandable segments: it succeeds, and two pages more do not', () => {
  fc.assert(
    fc.property(plans(['expandable_segments:True']), (plan) => {
      const largest = figureOf(plan);
      if (largest > 0) expect(succeeds(plan, largest)).toBe(true);
      expect(succeeds(plan, largest + 2 * DEFAULT_CONFIG.largeSegmentSize)).toBe(false);
    }),
    { numRuns: 100 },
  );
});

test('the verdict on it is that it would succeed', () => {
  fc.assert(
    fc.property(plans([...PLAIN, 'expandable_segments:True']), (plan) => {
      const largest = figureOf(plan);
      if (largest === 0) return;
      const snapshot = run(plan).allocator.memorySnapshot();
      const kinds = [0, 1].map(
        (stream) => judgeSnapshot(snapshot, { request: largest, stream, capacity: plan.capacity, advise: false }).kind,
      );
      expect(kinds).toContain('none');
    }),
    { numRuns: 60 },
  );
});

test('of a pool and stream: it is served without asking the device, and one byte more is not', () => {
  fc.assert(
    fc.property(plans([...PLAIN, 'expandable_segments:True']), (plan) => {
      const { segments } = run(plan).allocator.memorySnapshot();
      for (const pool of poolReports(segments, null, parseConfig(plan.conf))) {
        const asks = (bytes: number): boolean => {
          const { allocator, streams } = run(plan);
          const before = allocator.memoryStats().num_device_alloc;
          const stream = streams.find(({ id }) => id === pool.stream) as Stream;
          return !served(() => allocator.malloc(bytes, stream)) || allocator.memoryStats().num_device_alloc !== before;
        };
        const largest = pool.largest_request;
        if (largest > 0) expect(asks(largest)).toBe(false);
        // What is too large for the small pool is none of its requests.
        if (pool.pool === 'large' && largest > 0) expect(asks(largest + 1)).toBe(true);
      }
    }),
    { numRuns: 60 },
  );
});

test('a pool serves only what it is for', () => {
  expect(largestServed('small', 2 * MIB, DEFAULT_CONFIG)).toBe(MIB);
  expect(largestServed('small', 1536, DEFAULT_CONFIG)).toBe(1536);
  expect(largestServed('small', 0, DEFAULT_CONFIG)).toBe(0);
  expect(largestServed('large', MIB, DEFAULT_CONFIG)).toBe(0);
  expect(largestServed('large', MIB + 512, DEFAULT_CONFIG)).toBe(MIB + 512);
  // 33 MiB and a byte would take a block of 40.
  expect(largestServed('large', 39 * MIB, parseConfig('roundup_power2_divisions:4'))).toBe(32 * MIB);
});

test('a device gives whole segments, of the usual size below 10 MiB', () => {
  const room = (mib: number): number => largestOnDevice([], mib * MIB, DEFAULT_CONFIG) / MIB;
  expect([1.9, 2, 9.9, 10, 13.5, 19, 21, 1001].map(room)).toEqual([0, 1, 1, 10, 12, 18, 20, 1000]);
});

test('a usual size that is no multiple of 2 MiB is given whole, and its pages are rounded up to one', () => {
  const room = (conf: string) => (mib: number) => largestOnDevice([], mib * MIB, parseConfig(conf)) / MIB;
  expect([4, 5, 7, 9].map(room('large_segment_size_mb:5'))).toEqual([1, 5, 6, 8]);
  expect([5, 6, 11, 12].map(room('expandable_segments:True,large_segment_size_mb:5'))).toEqual([1, 6, 6, 12]);
});

test('a private pool keeps what it has', () => {
  const [segment] = snapshotOf([{ address: A, blocks: [[30 * MIB]] }], []).segments;
  if (segment === undefined) throw new Error('no segment');
  expect(largestOnDevice([segment], 40 * MIB, DEFAULT_CONFIG)).toBe(40 * MIB);
  expect(largestOnDevice([{ ...segment, segmentPoolId: [0, 1] }], 40 * MIB, DEFAULT_CONFIG)).toBe(10 * MIB);
});

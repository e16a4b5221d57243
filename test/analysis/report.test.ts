// The figures of the report: worked out by hand, and for random programs compared with a recount along the events.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { DEFAULT_CONFIG } from '../../lib/allocator/config.js';
import { parseConfig } from '../../lib/allocator/config-parser.js';
import { memoryFigures, poolReports } from '../../lib/analysis/gap.js';
import { growthOf } from '../../lib/analysis/growth.js';
import { holdersOf } from '../../lib/analysis/holders.js';
import { liveBlocks } from '../../lib/analysis/live-blocks.js';
import { courseOf } from '../../lib/analysis/peak.js';
import { pinningOf } from '../../lib/analysis/pinning.js';
import { analyze, mergeReports } from '../../lib/analysis/report.js';
import { SimDevice } from '../../lib/device/sim.js';
import { ALLOC, type DeviceTrace, FREE_REQUESTED, type PyValue, type Snapshot } from '../../lib/snapshot/model.js';
import { MIB } from '../support/devices.js';
import { type RecordingPlan, record, snapshotOf } from '../support/recordings.js';

const A = 0x7f0000000000;
const SEED = Number(process.env.CUDALLOC_SEED ?? 20261201);
const live = (mib: number): readonly [number, number] => [mib * MIB, mib * MIB];
const free = (mib: number): readonly [number] => [mib * MIB];

/** Programs of all kinds. */
function programs(count: number): { readonly name: string; readonly snapshot: Snapshot }[] {
  const confs = ['', 'expandable_segments:True', 'roundup_power2_divisions:4', 'max_split_size_mb:32'];
  return Array.from({ length: count }, (_, i) => {
    const plan: RecordingPlan = {
      seed: SEED + i,
      conf: confs[i % confs.length] as string,
      capacity: i % 3 === 0 ? 600 * MIB : 1024 ** 4,
      late: i % 2 === 1,
      ring: i % 5 === 0 ? 150 : Number.POSITIVE_INFINITY,
      events: i % 4 < 2,
      stacks: true,
      pool: i % 7 === 0,
    };
    return { name: JSON.stringify(plan), snapshot: record(plan).snapshot };
  });
}

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
    for (const { name, snapshot } of programs(40)) {
      for (const request of [null, { rounded: 5 * MIB, stream: 0 }, { rounded: 512, stream: 1 }]) {
        const figures = memoryFigures(snapshot.segments, request);
        const pools = poolReports(snapshot.segments, request);
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

test('pinning: segments in use that hold free bytes, most first', () => {
  const { segments, stacks, ...rest } = snapshotOf(
    [
      { address: A, blocks: [live(10), free(15), live(5), free(10)] },
      { address: A + 64 * MIB, blocks: [free(30)] },
      { address: A + 128 * MIB, blocks: [live(2), free(40)] },
      { address: A + 256 * MIB, blocks: [live(16)] },
    ],
    [],
  );
  const found = pinningOf({ ...rest, segments, stacks });
  expect(
    found.map((entry) => [entry.segment, entry.live_blocks, entry.live_bytes / MIB, entry.pinned_bytes / MIB]),
  ).toEqual([
    [A + 128 * MIB, 1, 2, 40],
    [A, 2, 15, 25],
  ]);
});

describe('live blocks after an event', () => {
  test('are those of a recount along the events', () => {
    for (const { name, snapshot } of programs(24)) {
      const trace = snapshot.deviceTraces[0] as DeviceTrace;
      const config = parseConfig(JSON.parse(name).conf);
      // From the state before the first event on, address by address.
      const before = liveBlocks(snapshot, 0, 0, config);
      const alive = new Map(before.map(({ address, event }) => [address, event]));
      const step = Math.max(1, Math.floor(trace.length / 9));
      for (let event = 1; event < trace.length; event++) {
        const address = trace.addresses[event] as number;
        if (trace.actions[event] === ALLOC) alive.set(address, event);
        else if (trace.actions[event] === FREE_REQUESTED) alive.delete(address);
        if (event % step !== 0 && event !== trace.length - 1) continue;
        const found = liveBlocks(snapshot, 0, event, config);
        expect(new Map(found.map((block) => [block.address, block.event])), `${name} event ${event}`).toEqual(
          new Map([...alive].sort((a, b) => a[0] - b[0])),
        );
      }
      const atEnd = liveBlocks(snapshot, 0, null, config).reduce((sum, { size }) => sum + size, 0);
      expect(atEnd, name).toBe(snapshot.segments.reduce((sum, { allocatedSize }) => sum + allocatedSize, 0));
    }
  });

  test('an address that was used twice has the stack of the life that the event falls into', () => {
    const { snapshot, sites } = twice();
    const at = (event: number | null) =>
      holdersOf(snapshot, 0, liveBlocks(snapshot, 0, event)).map(({ frames }) => frames[0]?.name);
    expect(at(sites.first)).toEqual(['first']);
    expect(at(sites.second)).toEqual(['second']);
    expect(at(null)).toEqual([]);
  });

  test('an event that is not there is refused', () => {
    const snapshot = snapshotOf([{ address: A, blocks: [live(2)] }], [['alloc', A, 2 * MIB]]);
    for (const event of [-1, 1, 0.5, Number.NaN]) expect(() => liveBlocks(snapshot, 0, event)).toThrow(RangeError);
  });
});

/** One address, allocated at two call sites in turn. */
function twice(): { readonly snapshot: Snapshot; readonly sites: { readonly first: number; readonly second: number } } {
  const allocator = new CachingAllocator({ device: new SimDevice({ capacity: 64 * MIB }), conf: '' });
  allocator.recordMemoryHistory({ stacks: true });
  function first(): number {
    return allocator.malloc(3 * MIB);
  }
  function second(): number {
    return allocator.malloc(3 * MIB);
  }
  allocator.free(first());
  allocator.free(second());
  // segment_alloc, alloc, free_requested, free_completed, alloc, ...
  return { snapshot: allocator.memorySnapshot(), sites: { first: 1, second: 4 } };
}

describe('holders', () => {
  test('are summed by call site, and say why there is no stack', () => {
    const allocator = new CachingAllocator({ device: new SimDevice({ capacity: 256 * MIB }), conf: '' });
    allocator.malloc(4 * MIB);
    allocator.recordMemoryHistory({ stacks: true });
    const site = (): number => allocator.malloc(6 * MIB);
    for (let i = 0; i < 3; i++) site();
    const snapshot = allocator.memorySnapshot();
    const holders = holdersOf(snapshot, 0, liveBlocks(snapshot, 0));
    expect(holders).toMatchObject(
      [
        { bytes: 18 * MIB, count: 3, frames: [{ name: 'site' }, {}] },
        { bytes: 4 * MIB, count: 1, frames: [], no_stack: 'before_recording' },
      ].map(({ frames, ...rest }) => (frames.length === 0 ? { ...rest, frames } : rest)),
    );
    expect(holders[0]?.frames[0]?.name).toBe('site');
  });

  test('of a file without events had no stacks to record', () => {
    const snapshot = snapshotOf([{ address: A, blocks: [live(2)] }], []);
    expect(holdersOf(snapshot, 0, liveBlocks(snapshot, 0))).toMatchObject([{ no_stack: 'not_recorded' }]);
  });
});

describe('the course', () => {
  test('ends in the final state, and its peak is that of a recount', () => {
    for (const { name, snapshot } of programs(24)) {
      const config = parseConfig(JSON.parse(name).conf);
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

describe('growth', () => {
  /** Iterations of steady work; `step` may keep something. */
  function train(iterations: number, step: (allocator: CachingAllocator, i: number) => void, marks = false): Snapshot {
    const allocator = new CachingAllocator({ device: new SimDevice({ capacity: 8192 * MIB }), conf: '' });
    allocator.recordMemoryHistory({ stacks: true, maxEntries: Number.POSITIVE_INFINITY });
    const starts: number[] = [];
    for (let i = 0; i < iterations; i++) {
      const entry = allocator.history?.total ?? 0;
      const activations = Array.from({ length: 5 }, () => allocator.malloc(7 * MIB));
      step(allocator, i);
      for (const address of activations) allocator.free(address);
      starts.push(entry);
    }
    const snapshot = allocator.memorySnapshot();
    if (!marks) return snapshot;
    const trace = snapshot.deviceTraces[0] as DeviceTrace;
    // Events of the simulated device may share a microsecond: these are told apart.
    trace.times.forEach((_, event) => {
      trace.times[event] = 1000 + event;
    });
    const annotations: PyValue[] = starts.map(
      (entry) =>
        new Map<PyValue, PyValue>([
          ['stage', 'START'],
          ['name', 'Optimizer.step'],
          ['device', 0],
          ['time_us', 1000 + entry],
        ]),
    );
    return { ...snapshot, extra: new Map<string, PyValue>([['external_annotations', annotations]]) };
  }
  function leak(allocator: CachingAllocator): void {
    allocator.malloc(MIB);
  }

  test.each([false, true])('a leak of 1 MiB an iteration is found (annotations: %s)', (marks) => {
    const found = growthOf(train(40, leak, marks), 0);
    expect(found).toHaveLength(1);
    expect(found[0]?.frames[0]?.name).toBe('leak');
    expect(found[0]?.bytes).toBeGreaterThan(25 * MIB);
    if (marks) expect(found[0]).toMatchObject({ iterations: 39, bytes_per_iteration: MIB, count_per_iteration: 1 });
  });

  test.each([false, true])('steady work and caches that stop growing are none (annotations: %s)', (marks) => {
    expect(
      growthOf(
        train(40, () => {}, marks),
        0,
      ),
    ).toEqual([]);
    const cache = (allocator: CachingAllocator, i: number): void => {
      if (i < 25) allocator.malloc(MIB);
    };
    expect(growthOf(train(40, cache, marks), 0)).toEqual([]);
  });

  test('of a short recording nothing is said', () => {
    expect(growthOf(train(2, leak), 0)).toEqual([]);
    expect(growthOf(snapshotOf([{ address: A, blocks: [live(2)] }], []), 0)).toEqual([]);
  });
});

describe('the whole report', () => {
  test('at an event, at the peak, at an out of memory', () => {
    const { snapshot } = record({
      seed: SEED,
      conf: '',
      capacity: 300 * MIB,
      late: false,
      ring: Number.POSITIVE_INFINITY,
      events: false,
      stacks: true,
    });
    const sum = (at: 'end' | 'peak' | 'oom' | number): number =>
      analyze(snapshot, { at, advise: false }).holders.reduce((total, { bytes }) => total + bytes, 0);
    const report = analyze(snapshot, { advise: false });
    const [device] = report.devices;
    expect(device?.out_of_memories).toBeGreaterThan(0);
    expect(sum('end')).toBe(device?.allocated);
    expect(sum('peak')).toBe(device?.peak?.allocated);
    expect(sum(device?.peak?.event as number)).toBe(device?.peak?.allocated);
    expect(analyze(snapshot, { at: 'oom', advise: false }).at).toMatchObject({
      moment: 'oom',
      event: expect.any(Number),
    });
    expect(() => analyze(snapshot, { at: 1e9 })).toThrow(RangeError);
    expect(() => analyze(snapshotOf([], []), { at: 'oom' })).toThrow(/no out of memory/);
  });

  test('cuts its lists only when asked to', () => {
    const blocks = [live(2), free(4), live(2)];
    const segments = [0, 1, 2].map((i) => ({ address: A + i * 64 * MIB, blocks }));
    const snapshot = snapshotOf(segments, []);
    const whole = analyze(snapshot);
    expect(whole.pinning).toHaveLength(3);
    expect(analyze(snapshot, { top: 2 }).pinning).toEqual(whole.pinning.slice(0, 2));
  });

  test('of nothing at all is empty', () => {
    expect(analyze(snapshotOf([], []))).toMatchObject({
      devices: [],
      pinning: [],
      holders: [],
      verdict: { kind: 'none' },
    });
  });

  test('of several ranks: the worst first, with its verdict', () => {
    const steady = analyze(snapshotOf([{ address: A, blocks: [live(30), free(2)] }], []), { file: 'rank0' });
    const wasteful = analyze(snapshotOf([{ address: A, blocks: [live(2), free(90)] }], []), { file: 'rank1' });
    const failed = analyze(snapshotOf([{ address: A, blocks: [live(60), free(4)] }], [['oom', MIB, 40 * MIB]]), {
      file: 'rank2',
    });
    const merged = mergeReports([steady, wasteful, failed]);
    expect(merged.files).toEqual(['rank2', 'rank1', 'rank0']);
    expect(merged.devices.map(({ file }) => file)).toEqual(['rank2', 'rank1', 'rank0']);
    expect(merged.verdict).toMatchObject({ kind: 'full', file: 'rank2' });
    expect(merged.pinning.map(({ file, pinned_bytes: bytes }) => [file, bytes / MIB])).toEqual([
      ['rank1', 90],
      ['rank2', 4],
      ['rank0', 2],
    ]);
    expect(mergeReports([steady])).toBe(steady);
  });
});

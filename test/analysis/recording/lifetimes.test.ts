// Lifetimes of blocks and of memory from the driver: the state that they give after every event is the one that walking back from the final
// state gives, and at the end that of the segments.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { type Config, DEFAULT_CONFIG } from '../../../lib/allocator/config.js';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { blocksAfter, type Lifetimes, lifetimesOf, rangesAfter } from '../../../lib/analysis/recording/lifetimes.js';
import { recordedConf } from '../../../lib/analysis/recording/recorded-config.js';
import { liveBlocks } from '../../../lib/analysis/report/live-blocks.js';
import { courseOf } from '../../../lib/analysis/report/peak.js';
import { SimDevice } from '../../../lib/device/sim.js';
import { readSnapshot } from '../../../lib/snapshot/files.js';
import {
  ALLOC,
  type DeviceTrace,
  FREE_COMPLETED,
  FREE_REQUESTED,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
  type Snapshot,
} from '../../../lib/snapshot/model.js';
import { MIB } from '../../../lib/units.js';
import { programs } from '../../support/programs.js';
import { snapshotOf } from '../../support/recordings.js';
import { SHARED_SNAPSHOTS } from '../../support/shared-snapshots.js';

function sample(events: number, count: number): number[] {
  const step = Math.max(1, Math.floor(events / count));
  return Array.from({ length: Math.ceil(events / step) }, (_, i) => i * step);
}

/** Blocks in use after an event, as `liveBlocks` gives them. */
function inUse({ blocks, ...rest }: Lifetimes, event: number) {
  return [...blocksAfter({ blocks, ...rest }, event)]
    .filter((row) => blocks.freed[row]! > event)
    .map((row) => ({
      address: blocks.addresses[row],
      size: blocks.sizes[row],
      stack: blocks.stacks[row],
      event: blocks.starts[row],
    }));
}

/** Sums over rows that are there after an event. */
function recount({ blocks, ranges }: Lifetimes, event: number) {
  const sums = { allocated: 0, active: 0, reserved: 0 };
  for (let row = 0; row < blocks.length; row++) {
    if (blocks.starts[row]! > event) continue;
    if (event < blocks.freed[row]!) sums.allocated += blocks.sizes[row]!;
    if (event < blocks.ends[row]!) sums.active += blocks.sizes[row]!;
  }
  for (let row = 0; row < ranges.length; row++)
    if (ranges.starts[row]! <= event && event < ranges.ends[row]!) sums.reserved += ranges.sizes[row]!;
  return sums;
}

function expectFinalState(lifetimes: Lifetimes, snapshot: Snapshot): void {
  const last = lifetimes.events - 1;
  const segments = snapshot.segments.filter(({ device }) => device === lifetimes.device);
  const sum = (pick: (segment: Snapshot['segments'][number]) => number): number =>
    segments.reduce((all, segment) => all + pick(segment), 0);
  const blocks = segments.flatMap((segment) => segment.blocks);
  const inState = (state: string): number =>
    blocks.filter((block) => block.state === state).reduce((all, { size }) => all + size, 0);
  expect(lifetimes.allocated.at(-1)).toBe(inState('active_allocated'));
  expect(lifetimes.active.at(-1)).toBe(inState('active_allocated') + inState('active_pending_free'));
  expect(lifetimes.reserved.at(-1)).toBe(sum(({ totalSize }) => totalSize));
  const { addresses, sizes, freed } = lifetimes.blocks;
  expect([...blocksAfter(lifetimes, last)].map((row) => [addresses[row], sizes[row], freed[row]! > last])).toEqual(
    blocks
      .filter(({ state }) => state !== 'inactive')
      .sort((a, b) => a.address - b.address)
      .map(({ address, size, state }) => [address, size, state === 'active_allocated']),
  );
  // Stretches that touch are one segment in the file.
  const bytes = new Map<number, number>();
  for (const row of rangesAfter(lifetimes, last)) {
    const address = lifetimes.ranges.addresses[row]!;
    const segment = segments.find((one) => one.address <= address && address < one.address + one.totalSize)!;
    bytes.set(segment.address, (bytes.get(segment.address) ?? 0) + lifetimes.ranges.sizes[row]!);
  }
  expect([...bytes].sort()).toEqual(segments.map(({ address, totalSize }) => [address, totalSize]).sort());
}

function expectConsistent(lifetimes: Lifetimes, snapshot: Snapshot, config: Config, events: readonly number[]): void {
  const { blocks } = lifetimes;
  expectFinalState(lifetimes, snapshot);
  for (let row = 1; row < blocks.length; row++)
    expect(blocks.starts[row]).toBeGreaterThanOrEqual(blocks.starts[row - 1]!);
  for (const event of events) {
    const { allocated, active, reserved } = lifetimes;
    expect({ allocated: allocated[event + 1], active: active[event + 1], reserved: reserved[event + 1] }).toEqual(
      recount(lifetimes, event),
    );
    expect(inUse(lifetimes, event)).toEqual(liveBlocks(snapshot, lifetimes.device, event, config));
    expectApart(lifetimes, event);
    let end = 0;
    for (const row of blocksAfter(lifetimes, event)) {
      expect(blocks.addresses[row]).toBeGreaterThanOrEqual(end);
      end = blocks.addresses[row]! + blocks.sizes[row]!;
    }
  }
}

/** No two ranges that are reserved at a time overlap. */
function expectApart(lifetimes: Lifetimes, event: number): void {
  const { addresses, sizes } = lifetimes.ranges;
  let end = 0;
  for (const row of rangesAfter(lifetimes, event)) {
    expect(addresses[row]).toBeGreaterThanOrEqual(end);
    end = addresses[row]! + sizes[row]!;
  }
}

/** Bytes of blocks in use or pending that lie in nothing reserved. */
function outside(lifetimes: Lifetimes, event: number): number {
  const { blocks, ranges } = lifetimes;
  const reserved = [...rangesAfter(lifetimes, event)];
  let bytes = 0;
  for (const row of blocksAfter(lifetimes, event)) {
    const start = blocks.addresses[row]!;
    const end = start + blocks.sizes[row]!;
    bytes += end - start;
    for (const range of reserved) {
      const from = Math.max(start, ranges.addresses[range]!);
      bytes -= Math.max(0, Math.min(end, ranges.addresses[range]! + ranges.sizes[range]!) - from);
    }
  }
  return bytes;
}

describe('of random programs', () => {
  test.each(programs(28))('$name', ({ snapshot, conf }) => {
    const config = parseConfig(conf);
    const lifetimes = lifetimesOf(snapshot, 0, config);
    expectConsistent(lifetimes, snapshot, config, sample(lifetimes.events, 60));
    for (const event of sample(lifetimes.events, 20)) expect(outside(lifetimes, event)).toBe(0);
    const course = courseOf(snapshot, 0, config);
    for (const [event, , allocated, active, reserved] of course.timeline) {
      expect(lifetimes.allocated[event! + 1]).toBe(allocated);
      expect(lifetimes.active[event! + 1]).toBe(active);
      expect(lifetimes.reserved[event! + 1]).toBe(reserved);
    }
    const highest = lifetimes.allocated.subarray(1).reduce((most, bytes) => Math.max(most, bytes), 0);
    expect(highest).toBe(course.peak!.allocated);
  });

  test('every block lies in the range it began in, and blocks never need more than is reserved', () => {
    for (const { name, conf, snapshot } of programs(28)) {
      const { blocks, ranges, active, reserved } = lifetimesOf(snapshot, 0, parseConfig(conf));
      for (let row = 0; row < blocks.length; row++) {
        const range = blocks.ranges[row]!;
        expect(range, name).toBeGreaterThanOrEqual(0);
        expect(blocks.addresses[row], name).toBeGreaterThanOrEqual(ranges.addresses[range]!);
        expect(blocks.addresses[row], name).toBeLessThan(ranges.addresses[range]! + ranges.sizes[range]!);
        expect(ranges.starts[range], name).toBeLessThanOrEqual(blocks.starts[row]!);
      }
      active.forEach((bytes, i) => {
        expect(bytes, name).toBeLessThanOrEqual(reserved[i]!);
      });
    }
  });
});

test.each(SHARED_SNAPSHOTS)('of the real $name', ({ path }) => {
  const snapshot = readSnapshot(path);
  const config = parseConfig(recordedConf(snapshot));
  const lifetimes = lifetimesOf(snapshot, 0, config);
  expectConsistent(lifetimes, snapshot, config, sample(lifetimes.events, 12));
});

test('of a device that is not there: nothing', () => {
  const lifetimes = lifetimesOf(programs(1)[0]!.snapshot, 7);
  expect([lifetimes.events, lifetimes.blocks.length, lifetimes.ranges.length]).toEqual([0, 0, 0]);
  expect([...lifetimes.allocated, ...lifetimes.active, ...lifetimes.reserved]).toEqual([0, 0, 0]);
});

test('a stretch that is unmapped in part ends, and what is left goes on', () => {
  const device = new SimDevice({ capacity: 400 * MIB });
  const allocator = new CachingAllocator({ device, conf: 'expandable_segments:True', policy: 'pytorch' });
  allocator.recordMemoryHistory({ maxEntries: 1000 });
  const addresses = [allocator.malloc(100 * MIB), allocator.malloc(100 * MIB), allocator.malloc(100 * MIB)];
  allocator.free(addresses[1]!);
  allocator.emptyCache();
  const snapshot = allocator.memorySnapshot();
  const lifetimes = lifetimesOf(snapshot, 0);
  expectFinalState(lifetimes, snapshot);
  const { ranges, events } = lifetimes;
  const atEnd = [...rangesAfter(lifetimes, events - 1)];
  expect(atEnd.every((row) => ranges.expandable[row] === 1)).toBe(true);
  const unmaps = snapshot.deviceTraces[0]!.actions.subarray(0, events).filter(
    (action) => action === SEGMENT_UNMAP,
  ).length;
  expect(unmaps).toBeGreaterThan(0);
  expect(
    Array.from({ length: ranges.length }, (_, row) => ranges.ends[row]!).filter((end) => end < events).length,
  ).toBeGreaterThan(0);
});

/** Events that nothing vouches for: any action at a few addresses, over a final state that has nothing to do with them. */
const wild = fc.array(
  fc.record({
    action: fc.constantFrom(
      ALLOC,
      FREE_REQUESTED,
      FREE_COMPLETED,
      SEGMENT_ALLOC,
      SEGMENT_FREE,
      SEGMENT_MAP,
      SEGMENT_UNMAP,
    ),
    place: fc.integer({ min: 0, max: 12 }),
    size: fc.constantFrom(512, MIB, 2 * MIB, 20 * MIB),
  }),
  { maxLength: 60 },
);

test.each([
  ['plain', 3],
  ['expandable', 1],
])(
  'of events that contradict each other and the end, over %s segments: the state after the last is theirs',
  (_, program) => {
    const { snapshot } = programs(4)[program]!;
    fc.assert(
      fc.property(wild, (events) => {
        const base = snapshot.segments[0]!.address;
        const column = (pick: (event: (typeof events)[number]) => number): Float64Array =>
          Float64Array.from(events, pick);
        const trace = snapshot.deviceTraces[0] as DeviceTrace;
        const contradicting = Object.assign(Object.create(Object.getPrototypeOf(trace)), trace, {
          length: events.length,
          actions: Uint8Array.from(events, ({ action }) => action),
          addresses: column(({ place }) => base + place * MIB),
          sizes: column(({ size }) => size),
          streams: new Float64Array(events.length),
          times: new Float64Array(events.length).fill(Number.NaN),
          stacks: new Uint32Array(events.length),
          extras: new Map(),
          layoutOf: null,
        }) as DeviceTrace;
        const changed = { ...snapshot, deviceTraces: [contradicting] };
        const lifetimes = lifetimesOf(changed, 0, DEFAULT_CONFIG);
        expectFinalState(lifetimes, changed);
        for (let event = -1; event < events.length; event++) {
          const { allocated, active, reserved } = lifetimes;
          expect({ allocated: allocated[event + 1], active: active[event + 1], reserved: reserved[event + 1] }).toEqual(
            recount(lifetimes, event),
          );
          expectApart(lifetimes, event);
        }
      }),
      { numRuns: 200 },
    );
  },
);

test('of a state without events: its blocks, from before to the end', () => {
  const { segments } = programs(1)[0]!.snapshot;
  const state = snapshotOf([], []);
  const lifetimes = lifetimesOf({ ...state, segments, deviceTraces: [] }, 0);
  expectFinalState(lifetimes, { ...state, segments, deviceTraces: [] });
  expect([...lifetimes.blocks.starts].every((start) => start === -1)).toBe(true);
});

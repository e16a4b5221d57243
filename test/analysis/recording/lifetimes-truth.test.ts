// Lifetimes against the allocator that was recorded: what they give for a moment is what it had at that moment.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { blocksAfter, type Lifetimes, lifetimesOf, rangesAfter } from '../../../lib/analysis/recording/lifetimes.js';
import { SimDevice } from '../../../lib/device/sim.js';
import { EMPTY_STACK, type Snapshot, type SnapshotSegment } from '../../../lib/snapshot/model.js';
import { MIB } from '../../../lib/units.js';
import { CONFS, SEED } from '../../support/programs.js';
import { randomFrom, snapshotOf } from '../../support/recordings.js';

interface Watched {
  readonly snapshot: Snapshot;
  /** What the allocator had after events of the recording. */
  readonly moments: readonly { readonly event: number; readonly segments: readonly SnapshotSegment[] }[];
}

/** @param keep entries that the history keeps */
function watched(seed: number, conf: string, keep: number): Watched {
  const random = randomFrom(seed);
  const device = new SimDevice({ capacity: 1024 ** 4 });
  const allocator = new CachingAllocator({ device, conf, policy: 'pytorch' });
  const streams = [device.defaultStream, device.createStream()];
  const pool = allocator.createMemPool();
  const live: number[] = [];
  const moments: { event: number; segments: readonly SnapshotSegment[] }[] = [];
  const streamAt = (): (typeof streams)[number] => streams[Math.floor(random() * 2)]!;
  allocator.recordMemoryHistory({ maxEntries: keep });
  device.mock.holdEvents();
  for (let i = 0; i < 300; i++) {
    const kind = random();
    if (live.length === 0 || kind < 0.5) {
      const size = Math.ceil(random() * (random() < 0.5 ? 1 : 30) * MIB);
      const stream = streamAt();
      const serve = (): number => allocator.malloc(size, stream);
      live.push(random() < 0.2 ? allocator.withMemPool(pool, serve) : serve());
    } else if (kind < 0.93) {
      const address = live.splice(Math.floor(random() * live.length), 1)[0]!;
      if (random() < 0.3) allocator.recordStream(address, streamAt());
      allocator.free(address);
    } else if (kind < 0.97) device.mock.completeEvents(streamAt());
    else allocator.emptyCache();
    if (i % 10 === 9) {
      const { segments } = allocator.memorySnapshot();
      moments.push({ event: allocator.history!.total - 1, segments });
    }
  }
  const snapshot = allocator.memorySnapshot();
  const lost = allocator.history!.total - snapshot.deviceTraces[0]!.length;
  return {
    snapshot,
    moments: moments
      .map(({ event, segments }) => ({ event: event - lost, segments }))
      .filter(({ event }) => event >= -1),
  };
}

const byAddress = (a: { readonly address: number }, b: { readonly address: number }): number => a.address - b.address;

function blocksOf(segments: readonly SnapshotSegment[]) {
  return segments
    .flatMap(({ blocks, stream }) => blocks.map((block) => ({ ...block, stream })))
    .filter(({ state }) => state !== 'inactive')
    .map(({ address, size, requestedSize: requested, stream, state }) => ({
      address,
      size,
      requested,
      stream,
      pending: state === 'active_pending_free',
    }))
    .sort(byAddress);
}

function blocksThen(lifetimes: Lifetimes, event: number) {
  const { blocks } = lifetimes;
  return [...blocksAfter(lifetimes, event)].map((row) => ({
    address: blocks.addresses[row]!,
    size: blocks.sizes[row]!,
    requested: blocks.requested[row]!,
    stream: blocks.streams[row]!,
    pending: blocks.freed[row]! <= event,
  }));
}

interface Reserved {
  readonly address: number;
  readonly size: number;
  readonly stream: number;
  readonly segmentType: string;
  readonly isExpandable: boolean;
}

/** Stretches of one expandable segment that touch are one in the file, and may be several rows. */
function joined(stretches: readonly Reserved[]): Reserved[] {
  const all: Reserved[] = [];
  for (const stretch of stretches) {
    const last = all.at(-1);
    const touches =
      last?.isExpandable &&
      stretch.isExpandable &&
      last.stream === stretch.stream &&
      last.address + last.size === stretch.address;
    if (touches) all[all.length - 1] = { ...last, size: last.size + stretch.size };
    else all.push(stretch);
  }
  return all;
}

function rangesThen(lifetimes: Lifetimes, event: number): Reserved[] {
  const { ranges } = lifetimes;
  return joined(
    [...rangesAfter(lifetimes, event)].map((row) => ({
      address: ranges.addresses[row]!,
      size: ranges.sizes[row]!,
      stream: ranges.streams[row]!,
      segmentType: ranges.pools[ranges.poolOf[row]!]!.segmentType,
      isExpandable: ranges.expandable[row] === 1,
    })),
  );
}

const RECORDINGS = Array.from({ length: 24 }, (_, i) => ({ seed: SEED + i, conf: CONFS[i % CONFS.length]! }));

describe.each(RECORDINGS)('recording $seed of $conf', ({ seed, conf }) => {
  test('complete: blocks and segments at every moment are those of the allocator', () => {
    const { snapshot, moments } = watched(seed, conf, Number.POSITIVE_INFINITY);
    const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
    expect(moments.length).toBe(30);
    for (const { event, segments } of moments) {
      expect(blocksThen(lifetimes, event)).toEqual(blocksOf(segments));
      const reserved = [...segments]
        .sort(byAddress)
        .map(({ address, totalSize: size, stream, segmentType, isExpandable }) => ({
          address,
          size,
          stream,
          segmentType,
          isExpandable,
        }));
      expect(rangesThen(lifetimes, event)).toEqual(joined(reserved));
    }
  });

  test('overwritten in part: the same blocks and segments, sizes of blocks from before as far as the file says them', () => {
    const { snapshot, moments } = watched(seed, conf, 200);
    const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
    expect(moments.length).toBeGreaterThan(0);
    for (const { event, segments } of moments) {
      const withoutSize = ({ size: _, requested: __, ...block }: ReturnType<typeof blocksThen>[number]) => block;
      expect(blocksThen(lifetimes, event).map(withoutSize)).toEqual(blocksOf(segments).map(withoutSize));
      const sum = (all: readonly { readonly size: number }[]): number =>
        all.reduce((total, { size }) => total + size, 0);
      expect(sum(rangesThen(lifetimes, event))).toBe(segments.reduce((total, { totalSize }) => total + totalSize, 0));
    }
  });
});

test('what is reserved to the end is of the pool that its segment says', () => {
  const { snapshot } = watched(SEED, '', Number.POSITIVE_INFINITY);
  const { events, ranges } = lifetimesOf(snapshot, 0);
  const kept = snapshot.segments.filter(({ segmentPoolId }) => segmentPoolId[1] !== 0);
  expect(kept.length).toBeGreaterThan(0);
  for (const { address, segmentPoolId } of snapshot.segments) {
    const row = ranges.addresses.findIndex((start, i) => start === address && ranges.ends[i] === events);
    expect(ranges.pools[ranges.poolOf[row]!]!.poolId).toEqual(segmentPoolId);
  }
});

test('a segment that is given back says nothing of the later one at its address', () => {
  const address = 2 ** 40;
  const state = snapshotOf(
    [{ address, blocks: [[512, 500], [2 * MIB - 512]] }],
    [
      ['segment_alloc', address, 20 * MIB],
      ['alloc', address, 15 * MIB],
      ['free_requested', address, 15 * MIB],
      ['free_completed', address, 15 * MIB],
      ['segment_free', address, 20 * MIB],
      ['segment_alloc', address, 2 * MIB],
      ['alloc', address, 500],
    ],
  );
  const segments = state.segments.map((segment) => ({ ...segment, stack: 3, segmentPoolId: [0, 7] as const }));
  const { ranges, blocks } = lifetimesOf({ ...state, segments }, 0);
  expect([...ranges.poolOf].map((pool) => ranges.pools[pool])).toEqual([
    { segmentType: 'large', poolId: [0, 0] },
    { segmentType: 'small', poolId: [0, 7] },
  ]);
  expect([...ranges.stacks]).toEqual([EMPTY_STACK, 3]);
  expect([...blocks.ranges]).toEqual([0, 1]);
});

test('a stretch that was unmapped is of the pool of the expandable segment that is there at the end; a plain one is not', () => {
  const address = 2 ** 40;
  const state = snapshotOf(
    [{ address, blocks: [[20 * MIB, 20 * MIB]] }],
    [
      ['segment_alloc', address, 20 * MIB],
      ['segment_free', address, 20 * MIB],
      ['segment_map', address, 20 * MIB],
      ['segment_unmap', address, 20 * MIB],
      ['segment_map', address, 20 * MIB],
      ['alloc', address, 20 * MIB],
    ],
  );
  const segments = state.segments.map((segment) => ({
    ...segment,
    isExpandable: true,
    stack: 3,
    segmentPoolId: [0, 7] as const,
  }));
  // The last event says itself who mapped it.
  state.deviceTraces[0]!.stacks[4] = 5;
  const { ranges } = lifetimesOf({ ...state, segments }, 0);
  expect([...ranges.poolOf].map((pool) => ranges.pools[pool]!.poolId)).toEqual([
    [0, 0],
    [0, 7],
    [0, 7],
  ]);
  expect([...ranges.stacks]).toEqual([EMPTY_STACK, 3, 5]);
  expect([...ranges.expandable]).toEqual([0, 1, 1]);
});

test('an expandable stretch that was unmapped is not of the pool of a plain segment at its address', () => {
  const address = 2 ** 40;
  const state = snapshotOf(
    [{ address, blocks: [[20 * MIB, 20 * MIB]] }],
    [
      ['segment_map', address, 20 * MIB],
      ['segment_unmap', address, 20 * MIB],
      ['segment_alloc', address, 20 * MIB],
      ['alloc', address, 20 * MIB],
    ],
  );
  const segments = state.segments.map((segment) => ({ ...segment, segmentPoolId: [0, 7] as const }));
  const { ranges } = lifetimesOf({ ...state, segments }, 0);
  expect([...ranges.poolOf].map((pool) => ranges.pools[pool]!.poolId[1])).toEqual([0, 7]);
});

test('blocks in use at the end have the stack that the file gives them, also where events have none', () => {
  const address = 2 ** 40;
  const state = snapshotOf([{ address, blocks: [[512, 500], [512, 10], [2 * MIB - 1024]] }], [['alloc', address, 500]]);
  const segments = state.segments.map((segment) => ({
    ...segment,
    blocks: segment.blocks.map((block, i) => ({ ...block, stack: i + 1 })),
  }));
  const { blocks } = lifetimesOf({ ...state, segments }, 0);
  expect([...blocks.starts]).toEqual([-1, 0]);
  expect([...blocks.stacks]).toEqual([2, 1]);
});

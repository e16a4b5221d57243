// The state of the map: runs tile what is reserved, and their sums are those of the lifetimes.

import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { type Lifetimes, lifetimesOf } from '../../../lib/analysis/recording/lifetimes.js';
import { recordedConf } from '../../../lib/analysis/recording/recorded-config.js';
import { memoryFigures } from '../../../lib/analysis/report/gap.js';
import { readSnapshot } from '../../../lib/snapshot/files.js';
import type { Snapshot } from '../../../lib/snapshot/model.js';
import { mapState, pinnersOf } from '../../../lib/viewer/segments/state.js';
import { programs } from '../../support/programs.js';
import { SHARED_SNAPSHOTS } from '../../support/shared-snapshots.js';

function expectTiled(snapshot: Snapshot, conf: string): void {
  const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
  const step = Math.max(1, Math.floor(lifetimes.events / 25));
  for (let event = -1; event < lifetimes.events; event += step) {
    const { runs, segments, sums, outside } = mapState(lifetimes, event);
    expect(outside).toEqual({ count: 0, bytes: 0 });
    expect(sums.allocated).toBe(lifetimes.allocated[event + 1]);
    expect(sums.allocated + sums.pending).toBe(lifetimes.active[event + 1]);
    expect(sums.allocated + sums.pending + sums.stuck + sums.wholly_free).toBe(lifetimes.reserved[event + 1]);
    let run = 0;
    segments.forEach((segment, i) => {
      let at = segment.address;
      for (; runs[run]?.segment === i; run++) {
        expect(runs[run]!.address).toBe(at);
        at += runs[run]!.size;
      }
      expect(at).toBe(segment.address + segment.size);
      expect(segment.allocated + segment.pending + segment.free).toBe(segment.size);
    });
    expect(run).toBe(runs.length);
  }
}

test.each(programs(16))('of $name', ({ snapshot, conf }) => {
  expectTiled(snapshot, conf);
});

test.each(SHARED_SNAPSHOTS)('of the real $name', ({ path }) => {
  const snapshot = readSnapshot(path);
  expectTiled(snapshot, recordedConf(snapshot));
});

test('of a stream or a pool are its segments alone, and together they are all', () => {
  for (const { name, snapshot, conf } of programs(8)) {
    const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
    const { ranges } = lifetimes;
    for (const event of [-1, lifetimes.events >> 1, lifetimes.events - 1]) {
      const all = mapState(lifetimes, event);
      const parts = ranges.pools.map((_, pool) =>
        mapState(
          lifetimes,
          event,
          Uint8Array.from(ranges.poolOf, (one) => Number(one === pool)),
        ),
      );
      for (const kind of ['allocated', 'pending', 'stuck', 'wholly_free'] as const)
        expect(
          parts.reduce((sum, { sums }) => sum + sums[kind], 0),
          name,
        ).toBe(all.sums[kind]);
      const addresses = parts.flatMap(({ segments }) => segments.map(({ address }) => address));
      expect(
        addresses.sort((a, b) => a - b),
        name,
      ).toEqual(all.segments.map(({ address }) => address));
      for (const { outside } of parts) expect(outside.count, name).toBe(0);
    }
  }
});

describe('where the recording contradicts itself', () => {
  const range = (address: number, size: number) => ({ address, size });
  /** Made up: all there from the start. */
  function contradicting(ranges: { address: number; size: number }[], blocks: { address: number; size: number }[]) {
    const columns = (rows: { address: number; size: number }[]) => ({
      length: rows.length,
      addresses: Float64Array.from(rows, ({ address }) => address),
      sizes: Float64Array.from(rows, ({ size }) => size),
      streams: new Float64Array(rows.length),
      stacks: new Uint32Array(rows.length),
      starts: new Int32Array(rows.length).fill(-1),
      ends: new Int32Array(rows.length),
    });
    const lifetimes: Lifetimes = {
      ...lifetimesOf({ ...programs(1)[0]!.snapshot, segments: [], deviceTraces: [] }, 0),
      blocks: {
        ...columns(blocks),
        requested: new Float64Array(blocks.length),
        freed: new Int32Array(blocks.length),
        ranges: new Int32Array(blocks.length).fill(-1),
      },
      ranges: {
        ...columns(ranges),
        expandable: new Uint8Array(ranges.length),
        poolOf: new Uint16Array(ranges.length),
        pools: [{ segmentType: 'large', poolId: [0, 0] }],
      },
    };
    return mapState(lifetimes, -1);
  }

  test('blocks outside of segments are counted and not drawn', () => {
    const { runs, sums, outside } = contradicting(
      [range(100, 50), range(300, 50)],
      [range(10, 20), range(200, 30), range(310, 10), range(400, 5)],
    );
    expect(outside).toEqual({ count: 3, bytes: 55 });
    expect(sums).toEqual({ allocated: 10, pending: 0, stuck: 40, wholly_free: 50 });
    expect(runs.map(({ address, size, kind }) => [address, size, kind])).toEqual([
      [100, 50, 'wholly_free'],
      [300, 10, 'stuck'],
      [310, 10, 'allocated'],
      [320, 30, 'stuck'],
    ]);
  });

  test('of blocks that stick out or lie over others the rest is drawn, and the runs tile the segment', () => {
    const { runs, outside } = contradicting(
      [range(100, 50)],
      [range(90, 20), range(105, 10), range(106, 2), range(140, 30)],
    );
    expect(runs.map(({ address, size, row }) => [address, size, row])).toEqual([
      [100, 10, 0],
      [110, 5, 1],
      [115, 25, -1],
      [140, 10, 3],
    ]);
    expect(outside).toEqual({ count: 4, bytes: 10 + 5 + 2 + 20 });
  });
});

describe('at the end', () => {
  test('free memory is stuck or wholly free as the report says', () => {
    for (const { name, snapshot, conf } of programs(16)) {
      const { gap, largest_free_block: largest } = memoryFigures(snapshot.segments, null);
      const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
      const { segments, sums } = mapState(lifetimes, lifetimes.events - 1);
      expect([sums.pending, sums.stuck, sums.wholly_free], name).toEqual([gap.pending, gap.stuck, gap.wholly_free]);
      expect(segments.length, name).toBe(snapshot.segments.length);
      expect(Math.max(0, ...segments.map(({ largestHole }) => largestHole)), name).toBe(largest);
    }
  });

  test('what pins a segment are its blocks, the largest first', () => {
    const { snapshot, conf } = programs(2)[1]!;
    const lifetimes = lifetimesOf(snapshot, 0, parseConfig(conf));
    const { segments } = mapState(lifetimes, lifetimes.events - 1);
    const pinned = segments.find(({ blocks }) => blocks.length > 1)!;
    const sizes = pinnersOf(lifetimes, pinned).map((row) => lifetimes.blocks.sizes[row]!);
    expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(pinned.allocated + pinned.pending);
  });
});

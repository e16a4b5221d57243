// The state of the map: runs tile what is reserved, and their sums are those of the lifetimes.

import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { lifetimesOf } from '../../../lib/analysis/recording/lifetimes.js';
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
    const { runs, segments, sums } = mapState(lifetimes, event);
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

// Which segments are pinned, worked out by hand.

import { expect, test } from 'vitest';
import { pinningOf } from '../../../lib/analysis/report/pinning.js';
import { MIB } from '../../support/devices.js';
import { snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;
const live = (mib: number): readonly [number, number] => [mib * MIB, mib * MIB];
const free = (mib: number): readonly [number] => [mib * MIB];

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

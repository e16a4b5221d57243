// Live blocks summed by call site, and why some have no stack.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { holdersOf } from '../../../lib/analysis/report/holders.js';
import { liveBlocks } from '../../../lib/analysis/report/live-blocks.js';
import { SimDevice } from '../../../lib/device/sim.js';
import { MIB } from '../../support/devices.js';
import { snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;
const live = (mib: number): readonly [number, number] => [mib * MIB, mib * MIB];

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

  test('with frames of machine code only are said to have no others', () => {
    const base = snapshotOf([{ address: A, blocks: [live(2), live(4), live(8)] }], []);
    const [segment] = base.segments;
    if (segment === undefined) throw new Error('no segment');
    const native = { name: 'at::_ops::mul', filename: '??', line: 0 };
    const script = { name: 'train', filename: '/home/me/train.py', line: 3 };
    const stacks = [[native], [native, script]].map((frames) => base.stacks.internFrames(frames));
    const blocks = segment.blocks.map((block, i) => ({ ...block, stack: stacks[i] ?? 0 }));
    const snapshot = { ...base, segments: [{ ...segment, blocks }] };
    expect(
      holdersOf(snapshot, 0, liveBlocks(snapshot, 0)).map((holder) => [holder.bytes / MIB, holder.no_stack]),
    ).toEqual([
      [8, 'not_recorded'],
      [4, undefined],
      [2, 'native_only'],
    ]);
  });
});

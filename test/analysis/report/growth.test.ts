// Call sites that grow: made-up trainings with a leak, with a cache that fills, and with neither.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { growthOf } from '../../../lib/analysis/report/growth.js';
import { SimDevice } from '../../../lib/device/sim.js';
import type { DeviceTrace, PyValue, Snapshot } from '../../../lib/snapshot/model.js';
import { MIB } from '../../support/devices.js';
import { snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;
const live = (mib: number): readonly [number, number] => [mib * MIB, mib * MIB];

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

  test('a model that is being loaded is no loop', () => {
    const allocator = new CachingAllocator({ device: new SimDevice({ capacity: 8192 * MIB }), conf: '' });
    allocator.recordMemoryHistory({ stacks: true, maxEntries: Number.POSITIVE_INFINITY });
    for (let i = 0; i < 200; i++) allocator.malloc(MIB);
    expect(growthOf(allocator.memorySnapshot(), 0)).toEqual([]);
  });

  test('of a short recording nothing is said', () => {
    expect(growthOf(train(2, leak), 0)).toEqual([]);
    expect(growthOf(snapshotOf([{ address: A, blocks: [live(2)] }], []), 0)).toEqual([]);
  });
});

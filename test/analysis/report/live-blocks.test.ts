// Live blocks at any event: of random programs they are those of a recount along the events.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { holdersOf } from '../../../lib/analysis/report/holders.js';
import { liveBlocks } from '../../../lib/analysis/report/live-blocks.js';
import { SimDevice } from '../../../lib/device/sim.js';
import { ALLOC, type DeviceTrace, FREE_REQUESTED, type Snapshot } from '../../../lib/snapshot/model.js';
import { MIB } from '../../support/devices.js';
import { CONFS, programs, watchedProgram } from '../../support/programs.js';
import { snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;
const live = (mib: number): readonly [number, number] => [mib * MIB, mib * MIB];

describe('live blocks after an event', () => {
  test('are those of a recount along the events', () => {
    for (const { name, conf, snapshot } of programs(24)) {
      const trace = snapshot.deviceTraces[0] as DeviceTrace;
      const config = parseConfig(conf);
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

  test('have the bytes that the allocator counted', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e9 }), fc.constantFrom(...CONFS), (seed, conf) => {
        const { snapshot, samples } = watchedProgram(seed, conf);
        for (const { event, allocated } of samples.filter((_, i) => i % 20 === 0)) {
          const blocks = liveBlocks(snapshot, 0, event, parseConfig(conf));
          expect(
            blocks.reduce((sum, { size }) => sum + size, 0),
            `event ${event}`,
          ).toBe(allocated);
        }
      }),
      { numRuns: 40 },
    );
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

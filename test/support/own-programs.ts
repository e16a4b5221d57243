// Allocators in every state that a snapshot has to hold: small programs on simulated devices, by name.

import '../../lib/dump-snapshot.js';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { AllocatorOptions } from '../../lib/allocator/options.js';
import { OutOfMemoryError } from '../../lib/errors.js';
import { MIB, open } from './devices.js';

export interface OwnProgram {
  readonly name: string;
  run(): CachingAllocator;
}

function make(options: Omit<AllocatorOptions, 'device'> = {}, index?: number): CachingAllocator {
  const device = open('sim', { capacity: 256 * MIB, ...(index === undefined ? {} : { index }) });
  return new CachingAllocator({ device, ...options });
}

/** What most programs do: sizes of both pools, some of it freed. */
function work(allocator: CachingAllocator): number[] {
  const blocks = [1000, 3 * MIB, 30 * MIB, 512, 7 * MIB].map((bytes) => allocator.malloc(bytes));
  for (const address of blocks.splice(1, 2)) allocator.free(address);
  return blocks;
}

/** Frees a block that another stream still uses. */
function leavePending(allocator: CachingAllocator): void {
  const { device } = allocator;
  device.mock?.holdEvents();
  const address = allocator.malloc(5 * MIB);
  allocator.recordStream(address, device.createStream());
  allocator.free(address);
}

export const OWN_PROGRAMS: readonly OwnProgram[] = [
  { name: 'nothing allocated, nothing recorded', run: () => make() },
  {
    name: 'plain segments, no history',
    run: () => {
      const allocator = make();
      work(allocator);
      return allocator;
    },
  },
  {
    name: 'plain segments, history without stacks',
    run: () => {
      const allocator = make();
      allocator.recordMemoryHistory();
      work(allocator);
      return allocator;
    },
  },
  {
    name: 'plain segments, history with stacks',
    run: () => {
      const allocator = make();
      allocator.recordMemoryHistory({ stacks: true });
      work(allocator);
      return allocator;
    },
  },
  {
    name: 'a history that has overflowed',
    run: () => {
      const allocator = make();
      allocator.recordMemoryHistory({ stacks: true, maxEntries: 5 });
      work(allocator);
      return allocator;
    },
  },
  {
    name: 'an expandable segment with holes',
    run: () => {
      const allocator = make({ conf: 'expandable_segments:True' });
      allocator.recordMemoryHistory({ stacks: true });
      const blocks = Array.from({ length: 6 }, () => allocator.malloc(20 * MIB));
      for (const at of [1, 3]) allocator.free(blocks[at] as number);
      allocator.emptyCache();
      return allocator;
    },
  },
  {
    name: 'a free that another stream awaits',
    run: () => {
      const allocator = make();
      allocator.recordMemoryHistory({ stacks: true });
      leavePending(allocator);
      return allocator;
    },
  },
  {
    name: 'several streams and a private pool',
    run: () => {
      const allocator = make();
      allocator.recordMemoryHistory({ stacks: true });
      work(allocator);
      const { device } = allocator;
      for (const stream of [device.createStream(), device.createStream()]) allocator.malloc(2 * MIB, stream);
      allocator.withMemPool(allocator.createMemPool(), () => work(allocator));
      return allocator;
    },
  },
  {
    name: 'an out of memory',
    run: () => {
      const allocator = make();
      allocator.recordMemoryHistory({ stacks: true });
      work(allocator);
      try {
        allocator.malloc(500 * MIB);
      } catch (error) {
        if (!(error instanceof OutOfMemoryError)) throw error;
      }
      return allocator;
    },
  },
  {
    name: 'the second device, under settings',
    run: () => {
      const conf = 'max_split_size_mb:100,roundup_power2_divisions:[1:2,>:4],garbage_collection_threshold:0.75';
      const allocator = make({ conf: `${conf},per_process_memory_fraction:0.5`, policy: 'pytorch' }, 1);
      allocator.recordMemoryHistory({ stacks: true });
      work(allocator);
      return allocator;
    },
  },
];

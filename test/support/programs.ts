// Recordings of many random programs, of all kinds: with each group of settings, with and without failures, late starts, overwritten
// events, waiting frees and private pools.

import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { SimDevice } from '../../lib/device/sim.js';
import type { Snapshot } from '../../lib/snapshot/model.js';
import { MIB } from '../../lib/units.js';
import { type RecordingPlan, randomFrom, record } from './recordings.js';

/** Each decides sizes of blocks its own way. */
export const CONFS: readonly string[] = [
  '',
  'expandable_segments:True',
  'roundup_power2_divisions:4',
  'max_split_size_mb:32',
];
export const SEED = Number(process.env.CUDALLOC_SEED ?? 20261201);

export interface Program {
  /** The plan, with its seed: what a failing test prints. */
  readonly name: string;
  readonly conf: string;
  readonly snapshot: Snapshot;
}

export function programs(count: number): Program[] {
  return Array.from({ length: count }, (_, i) => {
    const plan: RecordingPlan = {
      seed: SEED + i,
      conf: CONFS[i % CONFS.length] as string,
      capacity: i % 3 === 0 ? 600 * MIB : 1024 ** 4,
      late: i % 2 === 1,
      ring: i % 5 === 0 ? 150 : Number.POSITIVE_INFINITY,
      events: i % 4 < 2,
      stacks: true,
      pool: i % 7 === 0,
    };
    return { name: JSON.stringify(plan), conf: plan.conf, snapshot: record(plan).snapshot };
  });
}

/** A complete recording of a random program, and what the allocator itself said on the way. Bytes. */
export interface WatchedProgram {
  readonly snapshot: Snapshot;
  readonly peakAllocated: number;
  /** After the last event of an operation. */
  readonly samples: readonly { readonly event: number; readonly allocated: number }[];
}

export function watchedProgram(seed: number, conf: string): WatchedProgram {
  const random = randomFrom(seed);
  const allocator = new CachingAllocator({ device: new SimDevice({ capacity: 1024 ** 4 }), conf, policy: 'pytorch' });
  allocator.recordMemoryHistory({ maxEntries: Number.POSITIVE_INFINITY });
  const live: number[] = [];
  const samples: { event: number; allocated: number }[] = [];
  for (let i = 0; i < 200; i++) {
    const at = Math.floor(random() * live.length);
    if (random() < 0.45 && live.length > 0) allocator.free(live.splice(at, 1)[0] as number);
    else live.push(allocator.malloc(Math.ceil(random() * (random() < 0.4 ? 1 : 40) * MIB)));
    if (random() < 0.03) allocator.emptyCache();
    samples.push({ event: (allocator.history?.total ?? 0) - 1, allocated: allocator.memoryAllocated() });
  }
  return { snapshot: allocator.memorySnapshot(), peakAllocated: allocator.maxMemoryAllocated(), samples };
}

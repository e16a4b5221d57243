// Recordings of random programs on our own allocator: everything that a snapshot of a real program may have gone through.

import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { SimDevice } from '../../lib/device/sim.js';
import { OutOfMemoryError } from '../../lib/errors.js';
import { DeviceTraceBuilder, type Snapshot, StackTable } from '../../lib/snapshot/model.js';
import { MIB } from '../../lib/units.js';

export interface RecordingPlan {
  readonly seed: number;
  readonly conf: string;
  readonly capacity: number;
  /** Start recording halfway. */
  readonly late: boolean;
  /** Entries that the history keeps. */
  readonly ring: number;
  /** Let some frees wait for other streams. */
  readonly events: boolean;
  readonly stacks: boolean;
  /** Use a private pool too. */
  readonly pool?: boolean;
  readonly operations?: number;
  /** Empty the cache now and then. Default true. */
  readonly emptyCache?: boolean;
}

export interface RecordedProgram {
  readonly snapshot: Snapshot;
  readonly outOfMemories: number;
  readonly peakReserved: number;
}

/** xorshift32: a number from 0 to below 1. */
export function randomFrom(seed: number): () => number {
  let x = Math.imul(seed, 0x9e3779b1) | 1;
  return () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) / 2 ** 32;
  };
}

export function record(plan: RecordingPlan): RecordedProgram {
  const random = randomFrom(plan.seed);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const device = new SimDevice({ capacity: plan.capacity });
  const allocator = new CachingAllocator({ device, conf: plan.conf, policy: 'pytorch' });
  const streams = [device.defaultStream, device.createStream(), device.createStream()];
  const pool = allocator.createMemPool();
  const live: number[] = [];
  let outOfMemories = 0;
  const takeOne = (): number => live.splice(Math.floor(random() * live.length), 1)[0] as number;
  const allocate = (): void => {
    const kind = random();
    const size = Math.ceil(random() * (kind < 0.4 ? 1 : kind < 0.7 ? 12 : 80) * MIB);
    const stream = pick(streams);
    const serve = (): number => allocator.malloc(size, stream);
    try {
      live.push(plan.pool && random() < 0.3 ? allocator.withMemPool(pool, serve) : serve());
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
      outOfMemories++;
      for (let i = 0; i < 5 && live.length > 0; i++) allocator.free(takeOne());
    }
  };
  if (plan.events) device.mock.holdEvents();
  const operations = plan.operations ?? 400;
  for (let i = 0; i < operations; i++) {
    if (i === (plan.late ? operations / 2 : 0)) {
      allocator.recordMemoryHistory({ maxEntries: plan.ring, stacks: plan.stacks });
    }
    const kind = random();
    if (kind < 0.5 || live.length === 0) allocate();
    else if (kind < 0.93) {
      const address = takeOne();
      if (plan.events && random() < 0.3) allocator.recordStream(address, pick(streams));
      allocator.free(address);
    } else if (kind < 0.96) {
      if (plan.events) device.mock.completeEvents(pick(streams));
    } else if (kind < 0.975 && plan.emptyCache !== false) allocator.emptyCache();
  }
  return { snapshot: allocator.memorySnapshot(), outOfMemories, peakReserved: allocator.maxMemoryReserved() };
}

/** An event as a test writes it. */
export type Event = readonly [action: string, address: number, size: number, stream?: number];

/** A snapshot of one plain segment or several, from blocks and events. Blocks: size, and requested bytes where in use. */
export function snapshotOf(
  segments: readonly {
    readonly address: number;
    readonly blocks: readonly (readonly [size: number, requested?: number])[];
    readonly stream?: number;
  }[],
  events: readonly Event[],
): Snapshot {
  const trace = new DeviceTraceBuilder();
  for (const [action, address, size, stream = 0] of events) {
    trace.push(trace.actionCode(action), address, size, stream, Number.NaN, 0);
  }
  return {
    segments: segments.map(({ address, blocks, stream = 0 }) => {
      const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);
      const totalSize = sum(blocks.map(([size]) => size));
      const used = blocks.filter(([, requested]) => requested !== undefined);
      let at = address;
      return {
        device: 0,
        address,
        totalSize,
        allocatedSize: sum(used.map(([size]) => size)),
        activeSize: sum(used.map(([size]) => size)),
        requestedSize: sum(used.map(([, requested = 0]) => requested)),
        stream,
        segmentType: totalSize === 2 * MIB ? 'small' : 'large',
        segmentPoolId: [0, 0],
        isExpandable: false,
        stack: 0,
        blocks: blocks.map(([size, requested]) => {
          const block = { address: at, size, requestedSize: requested ?? 0, stack: 0 };
          at += size;
          return { ...block, state: requested === undefined ? ('inactive' as const) : ('active_allocated' as const) };
        }),
      };
    }),
    deviceTraces: [trace.build()],
    stacks: new StackTable(),
    traceOverflowed: null,
  };
}

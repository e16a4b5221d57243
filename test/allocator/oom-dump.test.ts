// The snapshot of an out of memory: what was there before anything was released, whatever led to the failure; and that nothing about it
// hides the failure or costs those who do not want it.

import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { type DumpOnOutOfMemory, installSnapshotWriter } from '../../lib/allocator/oom-dump.js';
import type { PolicyName } from '../../lib/allocator/policy.js';
import { openRecording, replayExactly } from '../../lib/analysis/replay/snapshot-replay.js';
import { ConfigError, OutOfMemoryError } from '../../lib/errors.js';
import { OOM, type Snapshot, type TraceEntry } from '../../lib/snapshot/model.js';
import { MIB, open, thrownBy } from '../support/devices.js';
import { randomFrom } from '../support/recordings.js';

interface Written {
  readonly path: string;
  readonly snapshot: Snapshot;
}

let written: Written[] = [];
beforeEach(() => {
  written = [];
  installSnapshotWriter((snapshot, path) => written.push({ path, snapshot }));
});
afterEach(() => {
  installSnapshotWriter(() => undefined);
});

interface Options {
  readonly capacity?: number;
  readonly conf?: string;
  readonly policy?: PolicyName;
  readonly dump?: string | DumpOnOutOfMemory;
}

function make({ capacity = 100 * MIB, conf = '', policy = 'default', dump = 'oom' }: Options = {}): CachingAllocator {
  const device = open('sim', { capacity });
  const allocator = new CachingAllocator({ device, conf, policy, dumpOnOutOfMemory: dump });
  allocator.recordMemoryHistory({ maxEntries: Number.POSITIVE_INFINITY, stacks: true });
  return allocator;
}

function fail(allocator: CachingAllocator, bytes: number): OutOfMemoryError {
  const error = thrownBy(() => allocator.malloc(bytes));
  expect(error).toBeInstanceOf(OutOfMemoryError);
  return error as OutOfMemoryError;
}

function eventsOf({ deviceTraces, stacks }: Snapshot): TraceEntry[] {
  return deviceTraces[0]?.entries(stacks) ?? [];
}

const only = (): Snapshot => {
  expect(written).toHaveLength(1);
  return (written[0] as Written).snapshot;
};

describe('holds the memory before the failure released anything', () => {
  test('cached segments are still there, and the out of memory is the last event', () => {
    const allocator = make();
    const address = allocator.malloc(40 * MIB);
    allocator.malloc(30 * MIB);
    allocator.free(address);
    const { segments } = allocator.snapshot();
    const error = fail(allocator, 80 * MIB + 1);
    expect(allocator.snapshot().segments).toHaveLength(1);
    expect(only().segments).toEqual(segments);
    const events = eventsOf(only());
    expect(events.map(({ action }) => action)).toEqual([
      'segment_alloc',
      'alloc',
      'segment_alloc',
      'alloc',
      'free_requested',
      'free_completed',
      'oom',
    ]);
    // Free on the device at that moment, and the rounded request.
    expect(events.at(-1)).toMatchObject({ address: 30 * MIB, size: 80 * MIB + 512, stream: 0 });
    expect(events.at(-1)?.frames[0]?.filename).toContain('oom-dump.test.ts');
    expect(error.details.snapshot).toBe('oom');
    expect(error.message).toContain('The snapshot oom shows the memory before it.');
    // The allocator's own history goes on.
    expect(
      allocator.history
        ?.entries()
        .map(({ action }) => action)
        .slice(-2),
    ).toEqual(['segment_free', 'oom']);
  });

  test('frees that other streams await are still pending', () => {
    const allocator = make();
    const { device } = allocator;
    device.mock?.holdEvents();
    const address = allocator.malloc(40 * MIB);
    allocator.recordStream(address, device.createStream());
    allocator.free(address);
    fail(allocator, 101 * MIB);
    expect(only().segments[0]?.blocks[0]?.state).toBe('active_pending_free');
    expect(eventsOf(only()).map(({ action }) => action)).toEqual(['segment_alloc', 'alloc', 'free_requested', 'oom']);
  });

  test('oversize blocks that a split limit lets go first are still there', () => {
    const allocator = make({ conf: 'max_split_size_mb:32' });
    allocator.free(allocator.malloc(40 * MIB));
    fail(allocator, 101 * MIB);
    expect(only().segments.map(({ totalSize }) => totalSize)).toEqual([40 * MIB]);
  });

  test('pressure handlers have not been asked yet', () => {
    const allocator = make();
    const blocks = [allocator.malloc(40 * MIB), allocator.malloc(40 * MIB)];
    allocator.registerPressureHandler({
      reclaimSync: () => {
        const address = blocks.pop();
        if (address !== undefined) allocator.free(address);
        return address === undefined ? 0 : 40 * MIB;
      },
      reclaim: async () => 0,
    });
    fail(allocator, 101 * MIB);
    expect(blocks).toEqual([]);
    expect(only().segments.map(({ allocatedSize }) => allocatedSize)).toEqual([40 * MIB, 40 * MIB]);
  });

  test('nor for an asynchronous request, which fails several times before it fails', async () => {
    const allocator = make();
    let live = [allocator.malloc(20 * MIB), allocator.malloc(20 * MIB)];
    allocator.free(allocator.malloc(30 * MIB));
    const { segments } = allocator.snapshot();
    allocator.registerPressureHandler({
      reclaimSync: () => 0,
      reclaim: async () => {
        const freed = live.length * 20 * MIB;
        for (const address of live) allocator.free(address);
        live = [];
        return freed;
      },
    });
    await expect(allocator.allocateAsync(101 * MIB)).rejects.toBeInstanceOf(OutOfMemoryError);
    expect(segments).toHaveLength(3);
    expect(only().segments).toEqual(segments);
  });

  test('two asynchronous requests at once do not mix up their states', async () => {
    const allocator = make({ dump: 'oom-{n}' });
    allocator.free(allocator.malloc(30 * MIB));
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    allocator.registerPressureHandler({ reclaimSync: () => 0, reclaim: async () => released.then(() => 0) });
    const first = allocator.allocateAsync(101 * MIB);
    allocator.malloc(10 * MIB);
    const second = allocator.allocateAsync(102 * MIB);
    release();
    await Promise.allSettled([first, second]);
    expect(
      written.map(({ snapshot }) => [snapshot.segments.map((s) => s.totalSize / MIB), eventsOf(snapshot).at(-1)?.size]),
    ).toEqual([
      [[30], 101 * MIB],
      [[10], 102 * MIB],
    ]);
  });

  test('a handler that runs out of memory itself has a dump of its own', () => {
    const allocator = make({ dump: 'oom-{n}' });
    allocator.free(allocator.malloc(30 * MIB));
    allocator.registerPressureHandler({
      reclaimSync: () => {
        fail(allocator, 200 * MIB);
        return 0;
      },
      reclaim: async () => 0,
    });
    fail(allocator, 101 * MIB);
    expect(written.map(({ snapshot }) => [snapshot.segments.length, eventsOf(snapshot).at(-1)?.size])).toEqual([
      [0, 200 * MIB],
      [1, 101 * MIB],
    ]);
  });

  test('without a history it is the state and the out of memory alone', () => {
    const allocator = make();
    allocator.recordMemoryHistory(null);
    allocator.malloc(10 * MIB);
    fail(allocator, 100 * MIB);
    expect(only().segments).toHaveLength(1);
    expect(only().traceOverflowed).toBe(false);
    expect(eventsOf(only()).map(({ action }) => action)).toEqual(['oom']);
  });

  test('in a full ring the releases push out the oldest events, none of the others', () => {
    const allocator = make();
    allocator.recordMemoryHistory({ maxEntries: 6 });
    for (let i = 0; i < 4; i++) allocator.free(allocator.malloc(20 * MIB));
    const blocks = [allocator.malloc(20 * MIB), allocator.malloc(20 * MIB), allocator.malloc(20 * MIB)];
    for (const address of blocks) allocator.free(address);
    fail(allocator, 101 * MIB);
    expect(only().traceOverflowed).toBe(true);
    expect(eventsOf(only()).map(({ action }) => action)).toEqual([
      'free_completed',
      'free_requested',
      'free_completed',
      'oom',
    ]);
  });
});

test('a request that is served after a retry is not dumped', () => {
  const allocator = make();
  allocator.free(allocator.malloc(60 * MIB));
  allocator.malloc(80 * MIB);
  expect(allocator.memoryStats().num_alloc_retries).toBe(1);
  expect(written).toEqual([]);
});

describe('which failures are dumped', () => {
  const paths = (dump: string | DumpOnOutOfMemory, failures: number): (string | null)[] => {
    const allocator = make({ dump });
    return Array.from({ length: failures }, () => fail(allocator, 101 * MIB).details.snapshot);
  };

  test('the first, without a number in the path', () => {
    expect(paths('a.pickle', 3)).toEqual(['a.pickle', null, null]);
    expect(written.map(({ path }) => path)).toEqual(['a.pickle']);
  });

  test('the first ten with one', () => {
    const expected = Array.from({ length: 10 }, (_, i) => `a-${i + 1}.json.gz`);
    expect(paths('a-{n}.json.gz', 11)).toEqual([...expected, null]);
  });

  test('as many as asked for', () => {
    expect(paths({ path: 'a{n}{n}', max: 2 }, 3)).toEqual(['a11', 'a22', null]);
    expect(paths({ path: 'a', max: 2 }, 3)).toEqual(['a', 'a', null]);
  });

  test('none without the option', () => {
    const allocator = new CachingAllocator({ device: open('sim') });
    const error = fail(allocator, 101 * MIB);
    expect(error.details.snapshot).toBeNull();
    expect(error.message).not.toContain('napshot');
    expect(written).toEqual([]);
  });

  test.each([
    ['', 'path'],
    [{ path: '' }, 'path'],
    [{}, 'path'],
    [{ path: 'a', max: 0 }, 'max'],
    [{ path: 'a', max: 1.5 }, 'max'],
    [{ path: 'a', max: Number.NaN }, 'max'],
  ])('%o is refused', (dump, key) => {
    const error = thrownBy(() => make({ dump: dump as DumpOnOutOfMemory }));
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as ConfigError).key).toBe(`dumpOnOutOfMemory.${key}`);
  });
});

describe('a dump that cannot be written', () => {
  test('is the cause of the error, before what observers throw, and the next failure is tried again', () => {
    const allocator = make();
    const full = new Error('no space left on device');
    installSnapshotWriter(() => {
      throw full;
    });
    const failing = make();
    failing.onOutOfMemory(() => {
      throw new Error('of the observer');
    });
    const error = fail(failing, 101 * MIB);
    expect(error.cause).toBe(full);
    expect(error.details.snapshot).toBeNull();
    expect(failing.memoryStats().num_ooms).toBe(1);
    expect(failing.history?.entries().map(({ action }) => action)).toEqual(['oom']);
    expect(fail(failing, 101 * MIB).cause).toBe(full);
    expect(fail(allocator, 101 * MIB).details.snapshot).toBe('oom');
  });
});

describe('observers', () => {
  test('are told when the file is there, and see the memory after the release', () => {
    const allocator = make();
    allocator.free(allocator.malloc(30 * MIB));
    let told: unknown[] = [];
    allocator.onOutOfMemory(({ error }) => {
      told = [written.length, error.details.snapshot, allocator.snapshot().segments.length];
    });
    fail(allocator, 101 * MIB);
    expect(told).toEqual([1, 'oom', 0]);
    expect(only().segments).toHaveLength(1);
  });
});

describe('replays', () => {
  const CONFS = ['', 'expandable_segments:True', 'max_split_size_mb:32', 'roundup_power2_divisions:4'];
  const CASES = CONFS.flatMap((conf) => (['pytorch', 'default'] as const).map((policy) => [conf, policy] as const));
  const SEED = Number(process.env.CUDALLOC_SEED ?? 20261201);

  /** A random program that goes on after each out of memory, of which `onFailure` is told. */
  function run(allocator: CachingAllocator, seed: number, onFailure: () => void): void {
    const random = randomFrom(seed);
    const { device } = allocator;
    const other = device.createStream();
    const live: number[] = [];
    const free = (): void => {
      const [address] = live.splice(Math.floor(random() * live.length), 1) as [number];
      if (random() < 0.2) allocator.recordStream(address, other);
      allocator.free(address);
    };
    for (let i = 0; i < 300; i++) {
      if (random() < 0.6 || live.length === 0) {
        const size = Math.ceil(random() * (random() < 0.3 ? 1 : random() < 0.7 ? 12 : 60) * MIB);
        try {
          live.push(allocator.malloc(size, random() < 0.8 ? device.defaultStream : other));
        } catch (error) {
          if (!(error instanceof OutOfMemoryError)) throw error;
          onFailure();
          for (let n = 0; n < 4 && live.length > 0; n++) free();
        }
      } else if (random() < 0.95) free();
      else device.mock?.completeEvents();
    }
  }

  const make256 = (conf: string, policy: PolicyName): CachingAllocator =>
    make({ capacity: 256 * MIB, conf, policy, dump: { path: 'o', max: Number.POSITIVE_INFINITY } });

  test.each(CASES)('exactly: settings "%s", policy %s', (conf, policy) => {
    let allocations = 0;
    for (let seed = SEED; seed < SEED + 8; seed++) {
      written = [];
      run(make256(conf, policy), seed, () => undefined);
      expect(written.length, `seed ${seed}`).toBeGreaterThan(0);
      for (const [n, { snapshot }] of written.entries()) {
        const trace = snapshot.deviceTraces[0];
        expect(trace?.actions[trace.length - 1]).toBe(OOM);
        const { fidelity, report } = replayExactly(openRecording(snapshot));
        const what = `seed ${seed}, dump ${n}`;
        expect(fidelity, what).toMatchObject({ exact: fidelity.allocations, first_difference: null, conflicts: 0 });
        expect(fidelity.unknown_blocks + fidelity.incomplete_history, what).toBe(0);
        expect(report.ooms, what).toBe(n + 1);
        allocations += fidelity.allocations;
      }
    }
    expect(allocations).toBeGreaterThan(1000);
  });

  // Which frees completed before and which within a request is not recorded.
  test.each(CASES)('nearly so with events held back: settings "%s", policy %s', (conf, policy) => {
    const sum = { allocations: 0, exact: 0 };
    let failures = 0;
    for (let seed = SEED; seed < SEED + 8; seed++) {
      const allocator = make256(conf, policy);
      allocator.device.mock?.holdEvents();
      run(allocator, seed, () => {
        failures++;
        const { fidelity } = replayExactly(openRecording(written.at(-1)?.snapshot as Snapshot));
        expect(fidelity.conflicts, `seed ${seed}, failure ${failures}`).toBe(0);
        sum.allocations += fidelity.allocations;
        sum.exact += fidelity.exact;
      });
    }
    expect(failures).toBeGreaterThan(20);
    expect(sum.exact / sum.allocations).toBeGreaterThan(0.95);
  });
});

// A failure at every position of the calls that a short workload makes: whatever fails, the error is typed, everything that must hold
// holds, the same request works the next time, and nothing is left on the device at the end.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { openDevice } from '../../lib/device/open.js';
import type { Device, MockControls, Stream } from '../../lib/device/types.js';
import { CudallocError, DeviceLostError } from '../../lib/errors.js';
import { checkEmpty, checkInvariants } from '../support/invariants.js';

const MIB = 1024 * 1024;
const CAPACITY = 96 * MIB;

interface Setup {
  readonly backend: 'sim' | 'mock';
  readonly policy: 'pytorch' | 'default' | 'paged';
  readonly conf: string;
}

interface Bench {
  readonly allocator: CachingAllocator;
  readonly device: Device & { readonly mock: MockControls };
  readonly streams: readonly [Stream, Stream];
  readonly addresses: (number | undefined)[];
}

type Step = (bench: Bench) => void;

const alloc =
  (slot: number, mib: number, stream: 0 | 1 = 0): Step =>
  ({ allocator, streams, addresses }) => {
    addresses[slot] = allocator.malloc(mib * MIB, streams[stream]);
  };
const free =
  (slot: number): Step =>
  ({ allocator, addresses }) => {
    allocator.free(addresses[slot] as number);
    addresses[slot] = undefined;
  };
const use =
  (slot: number, stream: 0 | 1): Step =>
  ({ allocator, streams, addresses }) =>
    allocator.recordStream(addresses[slot] as number, streams[stream]);

/** Grows, splits, waits for events, fills holes, runs out of memory into a flush, collects, and gives everything back. */
const WORKLOAD: readonly Step[] = [
  alloc(0, 0.5),
  alloc(1, 30),
  alloc(2, 22),
  alloc(3, 6, 1),
  use(1, 1),
  ({ device }) => device.mock.holdEvents(),
  free(1),
  alloc(4, 0.25),
  ({ device }) => device.mock.releaseEvents(),
  free(2),
  alloc(5, 12),
  alloc(6, 26),
  use(3, 0),
  free(3),
  free(5),
  // Does not fit beside what is cached: wait, flush, again.
  alloc(7, 40),
  free(7),
  free(6),
  ({ allocator }) => allocator.emptyCache(),
  alloc(8, 64),
  free(8),
  alloc(9, 2),
];

/** Takes pages from where they lie free, stitches pieces of them, does so again, takes pages from another stream, trims, and moves buffers. */
const PAGED: readonly Step[] = [
  free(9),
  ({ allocator }) => allocator.emptyCache(),
  ...[10, 11, 12, 13, 14, 15].map((slot) => alloc(slot, 12)),
  free(11),
  free(14),
  alloc(16, 24),
  free(16),
  alloc(16, 24),
  free(16),
  free(10),
  alloc(17, 24, 1),
  free(17),
  free(12),
  free(13),
  alloc(18, 40),
  free(18),
  ({ allocator }) => void allocator.trim(24 * MIB),
  alloc(19, 30, 1),
  free(19),
  ({ allocator }) => void allocator.compact(),
];

function workloadOf({ policy }: Setup): readonly Step[] {
  return policy === 'paged' ? [...WORKLOAD, ...PAGED] : WORKLOAD;
}

function setUp({ backend, policy, conf }: Setup): Bench {
  const device = openDevice({ backend, capacity: CAPACITY }) as Bench['device'];
  const streams = [device.createStream(), device.createStream()] as const;
  const allocator = new CachingAllocator({ device, conf, policy });
  // The default stream's handle and other things that are asked once are not part of the workload.
  device.mock.resetCounters();
  return { allocator, device, streams, addresses: [] };
}

/** The mock counts these too, but does not let them fail: they only look after the thread's context and the texts of errors. */
const BOOKKEEPING = /^(cuCtxPushCurrent|cuCtxPopCurrent|cuGetErrorName|cuGetErrorString|cudaGetLastError)/;

/** Calls that may fail. @param name which of them */
function callsMade({ device }: Bench, name = /./): number {
  return Object.entries(device.mock.counters())
    .filter(([fn]) => name.test(fn) && !BOOKKEEPING.test(fn))
    .reduce((sum, [, count]) => sum + count, 0);
}

/** Everything is given back and nothing is left. */
function finish({ allocator, device, addresses }: Bench): void {
  for (const address of addresses) if (address !== undefined) allocator.free(address);
  allocator.emptyCache();
  checkEmpty(allocator);
  allocator.close();
  expect(device.memGetInfo().free).toBe(CAPACITY);
  device.close();
}

/** Runs the workload with a failure at call `position`. @returns whether an error came out */
function runWithFailure(setup: Setup, position: number, error: string): boolean {
  const bench = setUp(setup);
  bench.device.mock.failNth('*', position, error);
  let failed: unknown;
  let happened = false;
  for (const step of workloadOf(setup)) {
    try {
      step(bench);
    } catch (thrown) {
      failed = thrown;
      if (!(thrown instanceof CudallocError)) throw thrown;
    }
    if (happened || callsMade(bench) < position) continue;
    happened = true;
    expect(callsMade(bench, /_failed$/)).toBeGreaterThan(0);
    bench.device.mock.clearFailures();
    checkInvariants(bench.allocator);
    if (failed !== undefined) step(bench);
    checkInvariants(bench.allocator);
  }
  if (!happened) throw new Error(`call ${position} was never made`);
  finish(bench);
  return failed !== undefined;
}

const SETUPS: readonly Setup[] = (['sim', 'mock'] as const).flatMap((backend) => [
  ...(['pytorch', 'default'] as const).flatMap((policy) =>
    ['', 'expandable_segments:True'].map((conf) => ({ backend, policy, conf })),
  ),
  { backend, policy: 'paged', conf: '' },
]);

describe.each(SETUPS)('$backend, $policy, "$conf"', (setup) => {
  test.each(['CUDA_ERROR_OUT_OF_MEMORY', 'CUDA_ERROR_UNKNOWN'])('%s at every call', (error) => {
    const clean = setUp(setup);
    for (const step of workloadOf(setup)) step(clean);
    const calls = callsMade(clean);
    finish(clean);
    let injected = 0;
    let errors = 0;
    const failures: string[] = [];
    for (let position = 1; position <= calls; position++) {
      injected++;
      try {
        if (runWithFailure(setup, position, error)) errors++;
      } catch (cause) {
        failures.push(`call ${position}: ${cause instanceof Error ? cause.message : String(cause)}`);
      }
    }
    const name = `${setup.backend}, ${setup.policy}, ${setup.conf || 'plain'}, ${error}`;
    console.log(`${name}: positions injected ${injected} = calls made ${calls}, errors seen ${errors}`);
    expect(failures).toEqual([]);
    expect(injected).toBe(calls);
    expect(errors).toBeGreaterThan(0);
  });

  test('the device is lost at every step', () => {
    for (let lost = 0; lost < WORKLOAD.length; lost++) {
      const bench = setUp(setup);
      for (const step of WORKLOAD.slice(0, lost)) step(bench);
      bench.device.mock.loseDevice();
      expect(() => bench.allocator.malloc(90 * MIB)).toThrow(DeviceLostError);
      const { 'reserved_bytes.all.current': reserved } = bench.allocator.memoryStats();
      // What needs no driver goes on; the account stays right.
      for (const address of bench.addresses) {
        if (address === undefined) continue;
        try {
          bench.allocator.free(address);
        } catch (error) {
          expect(error).toBeInstanceOf(DeviceLostError);
        }
      }
      expect(bench.allocator.memoryStats()['reserved_bytes.all.current']).toBe(reserved);
      bench.device.close();
    }
  });
});

describe.each(['sim', 'mock'] as const)(
  '%s: a failure in the middle of growing leaves no trace under policy default',
  (backend) => {
    const CALLS = ['cuMemCreate', 'cuMemMap', 'cuMemSetAccess'] as const;

    test.each(
      CALLS.flatMap((fn) => ['CUDA_ERROR_UNKNOWN', 'CUDA_ERROR_INVALID_VALUE'].map((error) => [fn, error] as const)),
    )('%s fails with %s, wherever in the run of pages', (fn, error) => {
      let positions = 0;
      for (let n = 1; ; n++) {
        const bench = setUp({ backend, policy: 'default', conf: 'expandable_segments:True' });
        const { allocator, device } = bench;
        // A live block between a free one and a hole on either side, so that growth has several holes to fill.
        const [first, second, third] = [20, 20, 20].map((mib) => allocator.malloc(mib * MIB)) as [
          number,
          number,
          number,
        ];
        allocator.free(second);
        allocator.emptyCache();
        allocator.free(third);
        allocator.free(first);
        const stats = allocator.memoryStats();
        const { segments } = allocator.memorySnapshot();
        device.mock.failNth(fn, n, error);
        let thrown: unknown = null;
        try {
          allocator.malloc(80 * MIB);
        } catch (caught) {
          thrown = caught;
        }
        device.mock.clearFailures();
        if (thrown === null) {
          device.close();
          break;
        }
        positions++;
        expect(thrown).toBeInstanceOf(CudallocError);
        expect(allocator.memoryStats()).toEqual(stats);
        expect(allocator.memorySnapshot().segments).toEqual(segments);
        checkInvariants(allocator);
        allocator.free(allocator.malloc(80 * MIB));
        finish(bench);
      }
      expect(positions).toBe(2);
    });
  },
);

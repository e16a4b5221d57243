// Movable buffers: what holds them, what moves them, and what does not survive is nothing. On the CPU mock, whose memory has bytes.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { DeviceBuffer } from '../../lib/allocator/device-buffer.js';
import type { PolicyName } from '../../lib/allocator/policy.js';
import { openDevice } from '../../lib/device/open.js';
import { CudallocError, DoubleFreeError, OutOfMemoryError, UseAfterFreeError } from '../../lib/errors.js';
import { MIB, type MockDevice, open, PAGE, thrownBy } from '../support/devices.js';
import { checkEmpty, checkInvariants } from '../support/invariants.js';

const CONF = `expandable_segments_page_size:${PAGE}`;
const CONFS: readonly { readonly policy: PolicyName; readonly conf: string }[] = [
  { policy: 'paged', conf: '' },
  { policy: 'default', conf: '' },
  { policy: 'default', conf: 'expandable_segments:True' },
  { policy: 'pytorch', conf: 'expandable_segments:True' },
];

/** A buffer whose bytes say which it is. */
function filled(allocator: CachingAllocator, bytes: number, seed: number, movable = true): DeviceBuffer {
  const buffer = allocator.allocate(bytes, { movable });
  buffer.fill(seed % 256);
  return buffer;
}

function expectWhole(buffer: DeviceBuffer, seed: number): void {
  expect(Buffer.from(buffer.read()).equals(Buffer.alloc(buffer.size, seed % 256))).toBe(true);
}

/** Fills the device with buffers of 1.5 MiB and frees three of four, so that free memory is everywhere and nowhere enough. */
function scattered(device: MockDevice, policy: PolicyName, conf: string, movable: boolean) {
  const allocator = new CachingAllocator({ device, policy, conf });
  const all: DeviceBuffer[] = [];
  for (;;) {
    try {
      all.push(filled(allocator, 1.5 * MIB, all.length, movable));
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
      break;
    }
  }
  const kept = new Map<DeviceBuffer, number>();
  all.forEach((buffer, i) => {
    if (i % 4 === 1) kept.set(buffer, i);
    else buffer.free();
  });
  return { allocator, kept };
}

describe.each(CONFS)('policy $policy, "$conf"', ({ policy, conf }) => {
  const canAlone = policy !== 'pytorch';

  test('a request that only scattered memory has moves what may move, and its bytes with it', () => {
    const device = open('mock', { capacity: 96 * MIB });
    const { allocator, kept } = scattered(device, policy, conf, true);
    const wanted = 52 * MIB;
    if (!canAlone) {
      expect(thrownBy(() => allocator.allocate(wanted))).toBeInstanceOf(OutOfMemoryError);
      expect(allocator.compact()).toBeGreaterThan(0);
    }
    const big = allocator.allocate(wanted);
    big.fill(0xee);
    for (const [buffer, seed] of kept) expectWhole(buffer, seed);
    const stats = allocator.memoryStats();
    expect(stats['cudalloc.compactions']).toBeGreaterThan(0);
    expect(stats['cudalloc.compacted_bytes']).toBe(1.5 * MIB * (stats['cudalloc.compactions'] as number));
    checkInvariants(allocator);
    big.free();
    for (const buffer of kept.keys()) buffer.free();
    allocator.emptyCache();
    checkEmpty(allocator);
    allocator.close();
  });

  test('without movable buffers the same request fails', () => {
    const device = open('mock', { capacity: 96 * MIB });
    const { allocator, kept } = scattered(device, policy, conf, false);
    expect(thrownBy(() => allocator.allocate(52 * MIB))).toBeInstanceOf(OutOfMemoryError);
    allocator.compact();
    for (const [buffer, seed] of kept) expectWhole(buffer, seed);
    expect(allocator.memoryStats()['cudalloc.compactions']).toBe(0);
    allocator.close();
  });

  test('an address that somebody has stays; unpinned it may move', () => {
    const device = open('mock', { capacity: 96 * MIB });
    const { allocator, kept } = scattered(device, policy, conf, true);
    const addresses = new Map([...kept.keys()].map((buffer) => [buffer, buffer.address]));
    for (const buffer of kept.keys()) expect(buffer.pinned).toBe(true);
    allocator.compact();
    expect(allocator.memoryStats()['cudalloc.compactions']).toBe(0);
    for (const buffer of kept.keys()) buffer.unpin();
    const reserved = allocator.memoryReserved();
    const freed = allocator.compact();
    expect(freed).toBeGreaterThan(0);
    expect(allocator.memoryReserved()).toBe(reserved - freed);
    const moved = [...kept.keys()].filter(
      (buffer) => buffer.withAddress((address) => address) !== addresses.get(buffer),
    );
    expect(moved.length).toBeGreaterThan(0);
    // Hardly one is copied twice.
    expect(allocator.memoryStats()['cudalloc.compactions']).toBeLessThan(1.2 * moved.length);
    for (const [buffer, seed] of kept) expectWhole(buffer, seed);
    // What is compact already is left alone.
    expect(allocator.compact()).toBe(0);
    for (const buffer of kept.keys()) buffer.free();
    allocator.emptyCache();
    checkEmpty(allocator);
    allocator.close();
  });

  test('every call of a compaction failing once: the error is typed, nothing is lost, and the next one works', () => {
    const counting = open('mock', { capacity: 96 * MIB });
    const first = scattered(counting, policy, conf, true);
    const before = counting.driverCalls();
    first.allocator.compact();
    const calls = Object.entries(counting.driverCalls()).map(
      ([name, count]) => [name, count - (before[name] ?? 0)] as const,
    );
    first.allocator.close();
    let positions = 0;
    for (const [name, count] of calls) {
      for (let nth = 1; nth <= count; nth++) {
        const device = openDevice({ backend: 'mock', capacity: 96 * MIB }) as MockDevice;
        const { allocator, kept } = scattered(device, policy, conf, true);
        device.mock.failNth(name, nth, 'CUDA_ERROR_UNKNOWN');
        let failure: unknown = null;
        try {
          allocator.compact();
        } catch (error) {
          failure = error;
        }
        if (failure !== null) expect(failure).toBeInstanceOf(CudallocError);
        device.mock.clearFailures();
        checkInvariants(allocator);
        for (const [buffer, seed] of kept) expectWhole(buffer, seed);
        allocator.compact();
        allocator.allocate(52 * MIB).free();
        for (const [buffer, seed] of kept) expectWhole(buffer, seed);
        for (const buffer of kept.keys()) buffer.free();
        allocator.emptyCache();
        checkEmpty(allocator);
        allocator.close();
        device.close();
        positions++;
      }
    }
    console.log(`compaction, ${policy} "${conf}": ${positions} positions`);
    expect(positions).toBeGreaterThan(10);
  });
});

describe('what holds a buffer', () => {
  const make = (): { allocator: CachingAllocator; buffer: DeviceBuffer } => {
    const allocator = new CachingAllocator({ device: open('mock'), policy: 'paged' });
    return { allocator, buffer: allocator.allocate(MIB, { movable: true }) };
  };

  test('reading the address, until unpin', () => {
    const { buffer } = make();
    expect([buffer.movable, buffer.pinned]).toEqual([true, false]);
    expect(buffer.address).toBeGreaterThan(0);
    expect(buffer.pinned).toBe(true);
    buffer.unpin();
    expect(buffer.pinned).toBe(false);
    expect(buffer.addressBigInt).toBe(BigInt(buffer.address));
  });

  test('withAddress, for the call or for its promise', async () => {
    const { allocator, buffer } = make();
    expect(buffer.withAddress((address) => [address > 0, buffer.pinned])).toEqual([true, true]);
    expect(buffer.pinned).toBe(false);
    expect(thrownBy(() => buffer.withAddress(() => { throw new Error('mine'); }))).toMatchObject({ message: 'mine' }); // biome-ignore format: one line
    expect(buffer.pinned).toBe(false);
    const promise = buffer.withAddress(async (address) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      return address;
    });
    expect(buffer.pinned).toBe(true);
    buffer.free();
    // The memory goes when the address is not used any more.
    expect(allocator.memoryAllocated()).toBe(MIB);
    expect(await promise).toBeGreaterThan(0);
    expect(allocator.memoryAllocated()).toBe(0);
    expect(thrownBy(() => buffer.free())).toBeInstanceOf(DoubleFreeError);
    expect(thrownBy(() => buffer.withAddress(() => 0))).toBeInstanceOf(UseAfterFreeError);
    expect(thrownBy(() => buffer.unpin())).toBeInstanceOf(UseAfterFreeError);
  });

  test('an asynchronous copy, until it ends', async () => {
    const { buffer } = make();
    const copy = buffer.writeAsync(new Uint8Array(16));
    expect(buffer.pinned).toBe(true);
    await copy;
    expect(buffer.pinned).toBe(false);
  });

  test('a buffer that is not movable is always pinned', () => {
    const { allocator } = make();
    const buffer = allocator.allocate(MIB);
    buffer.unpin();
    expect([buffer.movable, buffer.pinned]).toEqual([false, true]);
  });

  test('a stream being captured, and a pool of its own', () => {
    const device = open('mock', { capacity: 96 * MIB });
    const { allocator } = scattered(device, 'paged', CONF, true);
    const pool = allocator.createMemPool();
    allocator.compact();
    const before = allocator.memoryStats()['cudalloc.compactions'];
    const inPool = Array.from({ length: 40 }, () => allocator.allocate(1.5 * MIB, { pool, movable: true }));
    inPool.forEach((buffer, i) => {
      if (i % 4 !== 1) buffer.free();
    });
    allocator.compact();
    expect(allocator.memoryStats()['cudalloc.compactions']).toBe(before);
    allocator.close();
  });
});

test('random buffers on two streams, some pinned, compacted at random: every byte is where its buffer is', () => {
  let moves = 0;
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('allocate' as const), kib: fc.integer({ min: 1, max: 9000 }), stream: fc.nat(1), movable: fc.nat(9).map((n) => n > 0) }) }, // biome-ignore format: one line
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('free' as const), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('pin' as const), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('unpin' as const), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('record' as const), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('compact' as const) }) },
  );
  const runs = Math.ceil(40 * Number(process.env.CUDALLOC_RUNS ?? 1));
  fc.assert(
    fc.property(
      fc.constantFrom(...CONFS),
      fc.array(step, { minLength: 100, maxLength: 250 }),
      ({ policy, conf }, steps) => {
        const device = openDevice({ backend: 'mock', capacity: 128 * MIB }) as MockDevice;
        try {
          const allocator = new CachingAllocator({ device, policy, conf });
          const streams = [device.createStream(), device.createStream()] as const;
          const live: { buffer: DeviceBuffer; seed: number; pinnedAt: number | null }[] = [];
          steps.forEach((one, seed) => {
            if (one.kind === 'allocate') {
              try {
                const buffer = allocator.allocate(one.kib * 1024, {
                  movable: one.movable,
                  stream: streams[one.stream as 0 | 1],
                });
                buffer.fill(seed % 256);
                live.push({ buffer, seed, pinnedAt: null });
              } catch (error) {
                if (!(error instanceof OutOfMemoryError)) throw error;
              }
            } else if (one.kind === 'compact') {
              allocator.compact();
            } else if (live.length > 0) {
              const entry = live[one.which % live.length] as (typeof live)[number];
              if (one.kind === 'free') {
                expectWhole(entry.buffer, entry.seed);
                entry.buffer.free();
                live.splice(one.which % live.length, 1);
              } else if (one.kind === 'pin') entry.pinnedAt = entry.buffer.address;
              else if (one.kind === 'record') entry.buffer.recordStream(streams[(seed % 2) as 0 | 1]);
              else {
                entry.pinnedAt = null;
                entry.buffer.unpin();
              }
            }
            for (const { buffer, pinnedAt } of live) if (pinnedAt !== null) expect(buffer.address).toBe(pinnedAt);
            checkInvariants(allocator);
          });
          for (const { buffer, seed } of live) expectWhole(buffer, seed);
          moves += allocator.memoryStats()['cudalloc.compactions'] as number;
          for (const { buffer } of live) buffer.free();
          allocator.emptyCache();
          checkEmpty(allocator);
          allocator.close();
        } finally {
          device.close();
        }
      },
    ),
    { numRuns: runs, seed: 20261207, endOnFailure: true },
  );
  console.log(`random compactions: ${moves} moves in ${runs} runs`);
  expect(moves).toBeGreaterThan(runs);
}, 120_000);

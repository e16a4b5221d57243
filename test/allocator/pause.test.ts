// pause() and resume(): all memory goes back to the device while addresses stay, and comes back with or without its contents.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { DeviceBuffer } from '../../lib/allocator/device-buffer.js';
import {
  ConfigError,
  DeviceOutOfMemoryError,
  DriverError,
  PausedError,
  UnsupportedError,
  UseAfterFreeError,
} from '../../lib/errors.js';
import { MIB, type MockDevice, open, thrownBy } from '../support/devices.js';
import { checkInvariants } from '../support/invariants.js';

const CAPACITY = 256 * MIB;

function pagedOn(device: MockDevice): CachingAllocator {
  return new CachingAllocator({ device, policy: 'paged', leakWarnings: false });
}

function expandableOn(device: MockDevice): CachingAllocator {
  return new CachingAllocator({ device, policy: 'default', conf: 'expandable_segments:True', leakWarnings: false });
}

const KINDS = [
  ['paged', pagedOn],
  ['expandable segments', expandableOn],
] as const;

/** Buffers of many sizes, the fourth of each five freed again, each filled with its number. */
function fill(allocator: CachingAllocator): DeviceBuffer[] {
  const sizes = [1000, MIB / 2, 3 * MIB, 30 * MIB, 25 * MIB, 4096, 18 * MIB, 2 * MIB, 40 * MIB, 7 * MIB];
  const buffers = sizes.map((size) => allocator.allocate(size));
  for (const at of [8, 3]) (buffers.splice(at, 1)[0] as DeviceBuffer).free();
  buffers.push(allocator.allocate(35 * MIB));
  buffers.forEach((buffer, i) => {
    if (allocator.device.backend === 'mock') buffer.fill(i + 1);
  });
  return buffers;
}

function expectContents(buffers: readonly DeviceBuffer[]): void {
  buffers.forEach((buffer, i) => {
    expect(Buffer.alloc(buffer.size, i + 1).equals(buffer.read()), `buffer ${i}`).toBe(true);
  });
}

describe.each(KINDS)('%s', (_, make) => {
  test('the device has everything meanwhile, and contents come back behind the same addresses', () => {
    const device = open('mock', { capacity: CAPACITY });
    const allocator = make(device);
    const buffers = fill(allocator);
    const addresses = buffers.map(({ address }) => address);
    const held = allocator.memoryReserved();
    const inUse = allocator.memoryAllocated();
    expect(allocator.pause()).toBe(held);
    expect(allocator.paused).toBe(true);
    expect(allocator.pause()).toBe(0);
    expect(device.memGetInfo().free).toBe(CAPACITY);
    expect(allocator.memoryReserved()).toBe(0);
    expect(allocator.memoryAllocated()).toBe(inUse);
    expect(allocator.memoryStats()['cudalloc.paused_bytes']).toBe(inUse);
    device.mock.takeByOthers(CAPACITY);
    device.mock.takeByOthers(-CAPACITY);
    const again = allocator.resume();
    expect(again).toBeLessThanOrEqual(held);
    expect(allocator.memoryReserved()).toBe(again);
    expect(CAPACITY - device.memGetInfo().free).toBe(again);
    expect(allocator.resume()).toBe(0);
    expect(buffers.map(({ address }) => address)).toEqual(addresses);
    expectContents(buffers);
    checkInvariants(allocator);
    for (const buffer of buffers) buffer.free();
    allocator.emptyCache();
    expect(device.memGetInfo().free).toBe(CAPACITY);
  });

  test.each(['sim', 'mock'] as const)('contents can be dropped: %s', (backend) => {
    const device = open(backend, { capacity: CAPACITY });
    const allocator = make(device);
    const buffers = fill(allocator);
    allocator.pause({ content: 'drop' });
    expect(device.memGetInfo().free).toBe(CAPACITY);
    expect(allocator.memoryStats()['cudalloc.paused_bytes']).toBe(0);
    allocator.resume();
    checkInvariants(allocator);
    for (const buffer of buffers) buffer.free();
    allocator.emptyCache();
    expect(device.memGetInfo().free).toBe(CAPACITY);
  });

  test('while it is paused nothing is allocated, read or written, and free works', async () => {
    const device = open('mock', { capacity: CAPACITY });
    const allocator = make(device);
    const buffers = fill(allocator);
    allocator.pause();
    const [first, second, third] = buffers as [DeviceBuffer, DeviceBuffer, DeviceBuffer];
    for (const forbidden of [
      () => allocator.malloc(100),
      () => allocator.malloc(100 * MIB),
      () => allocator.allocate(1),
      () => first.read(),
      () => first.write(new Uint8Array(1)),
      () => first.fill(1),
      () => first.copyTo(second),
    ]) {
      expect(thrownBy(forbidden)).toBeInstanceOf(PausedError);
    }
    await expect(allocator.allocateAsync(1)).rejects.toBeInstanceOf(PausedError);
    await expect(first.readAsync()).rejects.toBeInstanceOf(PausedError);
    third.free();
    allocator.emptyCache();
    expect(allocator.trim(0)).toBe(0);
    allocator.setConf('');
    expect(thrownBy(() => allocator.malloc(100))).toBeInstanceOf(PausedError);
    allocator.memorySnapshot();
    allocator.memorySummary();
    allocator.resume();
    expectContents(buffers.slice(0, 2));
    checkInvariants(allocator);
    allocator.malloc(100 * MIB);
  });

  test('what frees wait for is waited for first', () => {
    const device = open('mock', { capacity: CAPACITY });
    const allocator = make(device);
    const stream = device.createStream();
    const address = allocator.malloc(30 * MIB);
    allocator.recordStream(address, stream);
    allocator.free(address);
    allocator.pause();
    allocator.resume();
    expect(allocator.memoryReserved()).toBe(0);
  });

  test('without enough memory it stays paused, and can be resumed later', () => {
    const device = open('mock', { capacity: CAPACITY });
    const allocator = make(device);
    const buffers = fill(allocator);
    allocator.pause();
    device.mock.takeByOthers(200 * MIB);
    expect(thrownBy(() => allocator.resume())).toBeInstanceOf(DeviceOutOfMemoryError);
    expect(allocator.paused).toBe(true);
    expect(device.memGetInfo().free).toBe(56 * MIB);
    device.mock.takeByOthers(-200 * MIB);
    allocator.resume();
    expectContents(buffers);
  });

  test('another allocator of the process has the memory meanwhile, and gives back what it only caches', () => {
    const device = open('mock', { capacity: CAPACITY });
    const allocator = make(device);
    const buffers = fill(allocator);
    allocator.pause();
    const other = new CachingAllocator({ device, policy: 'pytorch' });
    other.free(other.malloc(250 * MIB));
    allocator.resume();
    expect(other.memoryReserved()).toBe(0);
    expectContents(buffers);
  });

  test('private pools keep their addresses', () => {
    const device = open('mock', { capacity: CAPACITY });
    const allocator = make(device);
    const pool = allocator.createMemPool();
    const kept = allocator.withMemPool(pool, () => allocator.allocate(30 * MIB));
    allocator.withMemPool(pool, () => allocator.free(allocator.malloc(44 * MIB)));
    kept.fill(9);
    allocator.pause();
    expect(device.memGetInfo().free).toBe(CAPACITY);
    allocator.resume();
    expect(Buffer.alloc(30 * MIB, 9).equals(kept.read())).toBe(true);
    const before = device.driverCalls().cuMemCreate;
    allocator.withMemPool(pool, () => allocator.malloc(44 * MIB));
    expect(device.driverCalls().cuMemCreate).toBe(before);
    checkInvariants(allocator);
  });

  test('closing a paused one gives its addresses back', () => {
    const device = open('mock', { capacity: CAPACITY });
    const allocator = make(device);
    const buffers = fill(allocator);
    allocator.pause();
    allocator.close();
    const calls = device.driverCalls();
    expect(calls.cuMemAddressFree).toBe(calls.cuMemAddressReserve);
    expect(device.memGetInfo().free).toBe(CAPACITY);
    expect(thrownBy(() => buffers[0]?.read())).toBeInstanceOf(UseAfterFreeError);
    expect(thrownBy(() => allocator.pause())).toBeInstanceOf(UseAfterFreeError);
    expect(thrownBy(() => allocator.resume())).toBeInstanceOf(UseAfterFreeError);
  });

  test.each(['pause', 'resume'] as const)('whichever driver call fails during %s, nothing is lost', (what) => {
    let positions = 0;
    for (let n = 1; ; n++) {
      const device = open('mock', { capacity: CAPACITY });
      const allocator = make(device);
      const buffers = [30 * MIB, MIB, 21 * MIB, 3000].map((size) => allocator.allocate(size));
      buffers.forEach((buffer, i) => {
        buffer.fill(i + 1);
      });
      if (what === 'resume') allocator.pause();
      device.mock.failNth('*', n, 'CUDA_ERROR_UNKNOWN');
      let error: unknown = null;
      try {
        if (what === 'pause') allocator.pause();
        else allocator.resume();
      } catch (thrown) {
        error = thrown;
      }
      const left = device.mock.counters();
      device.mock.clearFailures();
      const failed = Object.entries(left).some(([name, count]) => name.endsWith('_failed') && count > 0);
      if (!failed && error === null) {
        positions = n - 1;
        break;
      }
      if (error !== null) {
        expect(error, `call ${n}`).toBeInstanceOf(DriverError);
        expect(allocator.paused, `call ${n}`).toBe(what === 'resume');
      }
      if (allocator.paused) allocator.resume();
      expectContents(buffers);
      checkInvariants(allocator);
      allocator.pause();
      allocator.resume();
      expectContents(buffers);
      for (const buffer of buffers) buffer.free();
      allocator.emptyCache();
      expect(device.memGetInfo().free, `call ${n}`).toBe(CAPACITY);
      device.close();
    }
    console.log(`${what}: ${positions} positions`);
    expect(positions).toBeGreaterThan(8);
  });
});

describe('pausing', () => {
  test('segments of cudaMalloc cannot be paused: how many, and what to set', () => {
    const device = open('mock', { capacity: CAPACITY });
    const allocator = new CachingAllocator({ device, policy: 'pytorch', conf: '' });
    const buffer = allocator.allocate(30 * MIB);
    allocator.free(allocator.malloc(MIB));
    expect(() => allocator.pause()).toThrow(UnsupportedError);
    expect(() => allocator.pause()).toThrow(/1 segment.*paged/);
    expect(allocator.paused).toBe(false);
    buffer.fill(3);
    buffer.free();
    expect(allocator.pause()).toBe(30 * MIB);
  });

  test.each([['kept'], [null], [1]])('content is keep or drop, not %s', (content) => {
    const allocator = pagedOn(open('sim'));
    expect(() => allocator.pause({ content: content as 'keep' })).toThrow(ConfigError);
  });

  test('survives at any moment of any run: stitched segments, aliases, several streams', () => {
    let pauses = 0;
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            what: fc.constantFrom(...Array(7).fill('allocate'), ...Array(5).fill('free'), 'pause'),
            size: fc.integer({ min: 1, max: 45 }),
            at: fc.nat(),
          }),
          { minLength: 20, maxLength: 40 },
        ),
        (steps) => {
          const device = open('mock', { capacity: 128 * MIB });
          const allocator = pagedOn(device);
          const streams = [device.defaultStream, device.createStream()];
          const live: [DeviceBuffer, number][] = [];
          let number = 0;
          for (const { what, size, at } of steps) {
            if (what === 'allocate') {
              try {
                const stream = streams[at % 2] as (typeof streams)[number];
                const buffer = allocator.allocate(size * (at % 5 === 0 ? 1000 : MIB), { stream });
                number = (number % 250) + 1;
                // Both ends and a place between: whole contents would take too long here.
                for (const offset of placesOf(buffer)) buffer.fill(number, offset, 500);
                live.push([buffer, number]);
              } catch (error) {
                if ((error as { code?: string }).code !== 'ERR_CUDALLOC_OUT_OF_MEMORY') throw error;
              }
            } else if (what === 'free') {
              live.splice(at % Math.max(1, live.length), 1)[0]?.[0].free();
            } else {
              pauses++;
              allocator.pause();
              expect(device.memGetInfo().free).toBe(128 * MIB);
              allocator.resume();
            }
            checkInvariants(allocator);
            for (const [buffer, stamp] of live) {
              for (const offset of placesOf(buffer)) {
                expect(buffer.read(offset, 500).every((byte) => byte === stamp)).toBe(true);
              }
            }
          }
          device.close();
        },
      ),
      { numRuns: 10, endOnFailure: true },
    );
    expect(pauses).toBeGreaterThan(0);
  });
});

function placesOf({ size }: DeviceBuffer): number[] {
  return [0, Math.floor(size / 2), size - 500].filter((at) => at >= 0);
}

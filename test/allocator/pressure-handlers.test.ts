// Those who make room when everything else has failed, and requests that may wait for them.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { DriverError, OutOfMemoryError, UseAfterFreeError } from '../../lib/errors.js';
import { MIB, open } from '../support/devices.js';

function make(backend: 'sim' | 'mock' = 'sim', capacity = 100 * MIB): CachingAllocator {
  return new CachingAllocator({ device: open(backend, { capacity }), conf: '' });
}

const nothing = { reclaimSync: () => 0, reclaim: async () => 0 };

describe('malloc', () => {
  test('asks when its own means are exhausted, with the bytes it needs, and does not count it', () => {
    const allocator = make();
    const victims = [40, 40].map((mib) => allocator.malloc(mib * MIB));
    const asked: number[] = [];
    allocator.registerPressureHandler({
      ...nothing,
      reclaimSync(bytes) {
        asked.push(bytes);
        const victim = victims.pop();
        if (victim === undefined) return 0;
        allocator.free(victim);
        return 40 * MIB;
      },
    });
    allocator.malloc(30 * MIB + 1);
    expect(asked).toEqual([30 * MIB + 512]);
    expect(victims).toHaveLength(1);
    expect(allocator.memoryStats()).toMatchObject({ num_ooms: 0, num_alloc_retries: 1 });
  });

  test('asks again while something is freed, then the next one, then fails', () => {
    const allocator = make();
    const blocks = [10, 10].map((mib) => allocator.malloc(mib * MIB));
    allocator.malloc(80 * MIB);
    const log: string[] = [];
    const handler = (name: string, answer: () => number) => ({
      ...nothing,
      reclaimSync() {
        log.push(name);
        return answer();
      },
    });
    const freeOne = () => {
      const block = blocks.pop();
      if (block !== undefined) allocator.free(block);
      return block === undefined ? 0 : 10 * MIB;
    };
    allocator.registerPressureHandler(handler('first', freeOne));
    const end = allocator.registerPressureHandler(handler('second', () => 0));
    expect(() => allocator.malloc(50 * MIB)).toThrow(OutOfMemoryError);
    expect(log).toEqual(['first', 'first', 'first', 'second']);
    expect(allocator.memoryStats()).toMatchObject({ num_ooms: 1, num_alloc_retries: 1 });
    end();
    log.length = 0;
    expect(() => allocator.malloc(50 * MIB)).toThrow(OutOfMemoryError);
    expect(log).toEqual(['first']);
  });

  test('one that claims to have freed what it has not is not asked again', () => {
    const allocator = make();
    allocator.malloc(100 * MIB);
    let asked = 0;
    allocator.registerPressureHandler({ ...nothing, reclaimSync: () => ++asked });
    expect(() => allocator.malloc(1)).toThrow(OutOfMemoryError);
    expect(asked).toBe(1);
  });

  test('one that closes the allocator ends the request', () => {
    const allocator = make();
    allocator.malloc(100 * MIB);
    allocator.registerPressureHandler({
      ...nothing,
      reclaimSync() {
        allocator.close();
        return 1;
      },
    });
    expect(() => allocator.malloc(1)).toThrow(UseAfterFreeError);
  });

  test('a handler that allocates is not asked meanwhile', () => {
    const allocator = make();
    const blocks = [allocator.malloc(60 * MIB), allocator.malloc(40 * MIB)];
    let asked = 0;
    allocator.registerPressureHandler({
      ...nothing,
      reclaimSync() {
        asked++;
        expect(() => allocator.malloc(50 * MIB)).toThrow(OutOfMemoryError);
        const block = blocks.pop();
        if (block === undefined) return 0;
        allocator.free(block);
        allocator.free(allocator.malloc(20 * MIB));
        return 40 * MIB;
      },
    });
    allocator.malloc(30 * MIB);
    expect(asked).toBe(1);
  });

  test('what a handler throws comes out, and the next request asks again', () => {
    const allocator = make();
    const block = allocator.malloc(100 * MIB);
    let fail = true;
    allocator.registerPressureHandler({
      ...nothing,
      reclaimSync() {
        if (fail) throw new Error('of the handler');
        allocator.free(block);
        return 100 * MIB;
      },
    });
    expect(() => allocator.malloc(1)).toThrow('of the handler');
    fail = false;
    allocator.malloc(1);
  });

  test('is not asked where a flush suffices', () => {
    const allocator = make();
    allocator.registerPressureHandler({
      ...nothing,
      reclaimSync: () => {
        throw new Error('asked');
      },
    });
    allocator.free(allocator.malloc(80 * MIB));
    allocator.malloc(90 * MIB);
  });
});

describe('allocateAsync', () => {
  test('gives what allocate gives', async () => {
    const allocator = make('mock');
    const buffer = await allocator.allocateAsync(1000);
    buffer.write(Uint8Array.of(1, 2, 3));
    expect([...buffer.read(0, 3)]).toEqual([1, 2, 3]);
    await expect(allocator.allocateAsync(200 * MIB)).rejects.toBeInstanceOf(OutOfMemoryError);
    allocator.close();
    await expect(allocator.allocateAsync(1)).rejects.toBeInstanceOf(UseAfterFreeError);
  });

  test.each(['sim', 'mock'] as const)('waits for frees that are pending (%s)', async (backend) => {
    const allocator = make(backend);
    const { device } = allocator;
    const stream = device.createStream();
    const first = allocator.allocate(80 * MIB);
    const { address } = first;
    first.recordStream(stream);
    device.mock?.holdEvents();
    first.free();
    device.mock?.releaseEvents();
    const second = await allocator.allocateAsync(80 * MIB);
    expect(second.address).toBe(address);
    expect(allocator.memoryStats()).toMatchObject({ num_ooms: 0, num_alloc_retries: 0 });
  });

  test('waits for handlers that can wait', async () => {
    const allocator = make();
    const blocks = [allocator.malloc(50 * MIB), allocator.malloc(50 * MIB)];
    const asked: number[] = [];
    allocator.registerPressureHandler({
      ...nothing,
      async reclaim(bytes) {
        asked.push(bytes);
        await new Promise((resolve) => setTimeout(resolve, 5));
        const block = blocks.pop();
        if (block === undefined) return 0;
        allocator.free(block);
        return 50 * MIB;
      },
    });
    await allocator.allocateAsync(80 * MIB);
    expect(asked).toEqual([80 * MIB, 80 * MIB]);
    await expect(allocator.allocateAsync(80 * MIB)).rejects.toBeInstanceOf(OutOfMemoryError);
  });

  test('two requests at a time are both served', async () => {
    const allocator = make();
    const blocks = [50, 50].map((mib) => allocator.malloc(mib * MIB));
    allocator.registerPressureHandler({
      ...nothing,
      async reclaim() {
        await new Promise((resolve) => setTimeout(resolve, 2));
        const block = blocks.pop();
        if (block === undefined) return 0;
        allocator.free(block);
        return 50 * MIB;
      },
    });
    const buffers = await Promise.all([allocator.allocateAsync(50 * MIB), allocator.allocateAsync(50 * MIB)]);
    expect(new Set(buffers.map((buffer) => buffer.address)).size).toBe(2);
  });

  test('a handler may allocate while it frees', async () => {
    const allocator = make();
    const block = allocator.malloc(100 * MIB);
    let asked = 0;
    allocator.registerPressureHandler({
      ...nothing,
      async reclaim() {
        asked++;
        expect(() => allocator.malloc(30 * MIB)).toThrow(OutOfMemoryError);
        allocator.free(block);
        allocator.free(allocator.malloc(30 * MIB));
        return 100 * MIB;
      },
    });
    await allocator.allocateAsync(40 * MIB);
    expect(asked).toBe(1);
  });

  test('an abort ends it before, while waiting, and after a handler; nothing is left', async () => {
    const allocator = make();
    const aborted = AbortSignal.abort(new Error('before'));
    await expect(allocator.allocateAsync(1, { signal: aborted })).rejects.toThrow('before');
    const stream = allocator.device.createStream();
    const first = allocator.allocate(MIB);
    first.recordStream(stream);
    allocator.device.mock?.holdEvents();
    first.free();
    const waiting = new AbortController();
    const request = allocator.allocateAsync(90 * MIB, { signal: waiting.signal });
    waiting.abort(new Error('while waiting'));
    await expect(request).rejects.toThrow('while waiting');
    const block = allocator.malloc(98 * MIB);
    const late = new AbortController();
    allocator.registerPressureHandler({
      ...nothing,
      async reclaim() {
        late.abort(new Error('after'));
        allocator.free(block);
        return 98 * MIB;
      },
    });
    await expect(allocator.allocateAsync(50 * MIB, { signal: late.signal })).rejects.toThrow('after');
    expect(allocator.memoryAllocated()).toBe(0);
  });

  test('an error of the driver comes out', async () => {
    const allocator = make();
    allocator.device.mock?.failNth('cudaMalloc', 1, 'CUDA_ERROR_UNKNOWN');
    await expect(allocator.allocateAsync(1)).rejects.toBeInstanceOf(DriverError);
  });
});

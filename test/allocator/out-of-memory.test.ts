// The out-of-memory error: its numbers, its text, its observers; and that nothing on the way to it replaces it.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { OutOfMemoryInfo } from '../../lib/allocator/out-of-memory.js';
import { OutOfMemoryError } from '../../lib/errors.js';
import { formatSize } from '../../lib/units.js';
import { MIB, open, thrownBy } from '../support/devices.js';

function make(conf = '', capacity = 100 * MIB): CachingAllocator {
  return new CachingAllocator({ device: open('sim', { capacity }), conf });
}

function failure(allocator: CachingAllocator, bytes: number): OutOfMemoryError {
  const error = thrownBy(() => allocator.malloc(bytes));
  expect(error).toBeInstanceOf(OutOfMemoryError);
  return error as OutOfMemoryError;
}

describe('the error', () => {
  test('carries every number', () => {
    const allocator = make();
    const stream = allocator.device.createStream();
    allocator.malloc(1000);
    allocator.malloc(4 * MIB);
    allocator.malloc(30 * MIB, stream);
    const error = failure(allocator, 70 * MIB + 1);
    const { details } = error;
    expect(error.code).toBe('ERR_CUDALLOC_OUT_OF_MEMORY');
    expect(details).toMatchObject({
      device: 0,
      requested: 70 * MIB + 1,
      rounded: 70 * MIB + 512,
      segmentSize: 72 * MIB,
      free: 48 * MIB,
      total: 100 * MIB,
      limit: 100 * MIB,
      allocated: 34 * MIB + 1024,
      active: 34 * MIB + 1024,
      reserved: 52 * MIB,
      inactiveSplit: 18 * MIB - 1024,
      largestFreeBlock: 16 * MIB,
    });
    expect(details.pools).toEqual([
      {
        pool: 'small',
        stream: 0,
        poolId: [0, 0],
        reserved: 2 * MIB,
        allocated: 1024,
        active: 1024,
        free: 2 * MIB - 1024,
        largestFreeBlock: 2 * MIB - 1024,
      },
      {
        pool: 'large',
        stream: 0,
        poolId: [0, 0],
        reserved: 20 * MIB,
        allocated: 4 * MIB,
        active: 4 * MIB,
        free: 16 * MIB,
        largestFreeBlock: 16 * MIB,
      },
      {
        pool: 'large',
        stream: 1,
        poolId: [0, 0],
        reserved: 30 * MIB,
        allocated: 30 * MIB,
        active: 30 * MIB,
        free: 0,
        largestFreeBlock: 0,
      },
    ]);
    expect(error.requested).toBe(70 * MIB + 1);
  });

  test.each([
    [1, '2.00 MiB'],
    [5 * MIB, '20.00 MiB'],
    [11 * MIB, '12.00 MiB'],
    [1024 * MIB, '1024.00 MiB'],
    [1025 * MIB, '1.00 GiB'],
  ])('the text names the segment that %i bytes want: %s', (bytes, wanted) => {
    const allocator = make('', 10 * MIB + 4096);
    allocator.malloc(10 * MIB);
    const error = failure(allocator, bytes);
    expect(error.details.figures).toEqual([wanted, '10.00 MiB', '4.00 KiB', '10.00 MiB', '0 bytes']);
    for (const figure of error.details.figures) expect(error.message).toContain(figure);
    expect(error.message).toContain(formatSize(bytes));
  });

  test('the fraction is in it when there is one', () => {
    const allocator = make('per_process_memory_fraction:0.25');
    allocator.malloc(20 * MIB);
    const error = failure(allocator, 20 * MIB);
    expect(error.details.limit).toBe(25 * MIB);
    expect(error.message).toContain('25.00 MiB');
    expect(failure(make(), 200 * MIB).message).not.toContain('fraction');
  });

  test('comes out although the device does not answer how much is free', () => {
    const allocator = make();
    allocator.device.mock?.failNth('cudaMemGetInfo', 1, 'CUDA_ERROR_UNKNOWN');
    const error = thrownBy(() => allocator.malloc(200 * MIB));
    expect(error).toBeInstanceOf(OutOfMemoryError);
    expect(allocator.memoryStats().num_ooms).toBe(1);
  });

  test('live blocks survive it, and a smaller request works', () => {
    const allocator = make();
    const address = allocator.malloc(60 * MIB);
    for (let i = 0; i < 3; i++) failure(allocator, 60 * MIB);
    expect(allocator.memoryStats()).toMatchObject({ num_ooms: 3, 'allocated_bytes.all.current': 60 * MIB });
    allocator.malloc(40 * MIB);
    allocator.free(address);
    allocator.malloc(60 * MIB);
  });

  test('a request larger than the device, again and again, does not use up addresses', () => {
    const allocator = make('expandable_segments:True');
    failure(allocator, 200 * MIB);
    const { 'cudalloc.reserved_address_bytes': first } = allocator.memoryStats();
    for (let i = 0; i < 10; i++) failure(allocator, 200 * MIB);
    expect(allocator.memoryStats()['cudalloc.reserved_address_bytes']).toBe(first);
  });
});

describe('observers', () => {
  test('are told before the error is thrown, until they end it', () => {
    const allocator = make();
    const told: OutOfMemoryInfo[] = [];
    const end = allocator.onOutOfMemory((info) => told.push(info));
    const error = failure(allocator, 150 * MIB);
    expect(told).toEqual([{ allocSize: 150 * MIB, limit: 100 * MIB, deviceFree: 100 * MIB, error }]);
    end();
    failure(allocator, 150 * MIB);
    expect(told).toHaveLength(1);
  });

  test('one that throws takes nothing away from the others or the error', () => {
    const allocator = make();
    const cause = new Error('of the observer');
    let second = 0;
    allocator.onOutOfMemory(() => {
      throw cause;
    });
    allocator.onOutOfMemory(() => second++);
    const error = failure(allocator, 150 * MIB);
    expect(error.cause).toBe(cause);
    expect(second).toBe(1);
    expect(allocator.memoryStats().num_ooms).toBe(1);
  });

  test('may use the allocator, also to fail in it, of which they are not told', () => {
    const allocator = make();
    const blocks = [allocator.malloc(40 * MIB), allocator.malloc(40 * MIB)];
    let depth = 0;
    allocator.onOutOfMemory(() => {
      if (depth++ > 0) return;
      allocator.free(blocks.pop() as number);
      failure(allocator, 90 * MIB);
      allocator.memorySnapshot();
    });
    failure(allocator, 30 * MIB);
    expect(depth).toBe(1);
    allocator.malloc(30 * MIB);
  });
});

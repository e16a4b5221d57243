// Private pools: they share no memory with the others, and give it back when they are given up.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { OutOfMemoryError, UseAfterFreeError, WrongThreadError } from '../../lib/errors.js';
import { MIB, open } from '../support/devices.js';
import { checkInvariants } from '../support/invariants.js';

function make(conf = '', capacity = 100 * MIB): CachingAllocator {
  return new CachingAllocator({ device: open('sim', { capacity }), conf });
}

describe.each(['', 'expandable_segments:True'])('with "%s"', (conf) => {
  test('blocks of a pool come from its own segments, of both sizes', () => {
    const allocator = make(conf);
    const pool = allocator.createMemPool();
    const other = allocator.createMemPool();
    allocator.free(allocator.malloc(4 * MIB));
    allocator.free(allocator.malloc(512));
    const before = allocator.memoryReserved();
    for (const owner of [pool, other]) {
      allocator.withMemPool(owner, () => {
        allocator.free(allocator.malloc(4 * MIB));
        allocator.free(allocator.malloc(512));
      });
    }
    expect(allocator.memoryReserved()).toBe(3 * before);
    const { segments } = checkInvariants(allocator);
    expect(new Set(segments.map((segment) => segment.segmentPoolId.join()))).toEqual(new Set(['0,0', '0,1', '0,2']));
    expect([pool.id, other.id]).toEqual([
      [0, 1],
      [0, 2],
    ]);
  });

  test('a flush keeps what a pool in use has cached, and takes it when the pool is given up', () => {
    const allocator = make(conf);
    const pool = allocator.createMemPool();
    const kept = allocator.allocate(4 * MIB, { pool });
    allocator.allocate(30 * MIB, { pool }).free();
    const reserved = allocator.memoryReserved();
    allocator.emptyCache();
    expect(allocator.memoryReserved()).toBe(reserved);
    pool.release();
    allocator.emptyCache();
    expect(allocator.memoryReserved()).toBeLessThan(reserved);
    kept.free();
    allocator.emptyCache();
    expect(allocator.memoryReserved()).toBe(0);
    expect(allocator.memorySnapshot().segments).toEqual([]);
  });

  test('an out of memory takes back the memory of pools that were given up', () => {
    const allocator = make(conf);
    const pool = allocator.createMemPool();
    allocator.allocate(60 * MIB, { pool }).free();
    expect(() => allocator.malloc(80 * MIB)).toThrow(OutOfMemoryError);
    pool.release();
    expect(allocator.malloc(80 * MIB)).toBeGreaterThan(0);
  });
});

describe('the scope of a pool', () => {
  test('ends with the function, also by an error, and nests', () => {
    const allocator = make();
    const [outer, inner] = [allocator.createMemPool(), allocator.createMemPool()];
    const poolOf = (address: number): number | undefined =>
      allocator.memorySnapshot().segments.find((segment) => segment.blocks.some((block) => block.address === address))
        ?.segmentPoolId[1];
    const result = allocator.withMemPool(outer, () => {
      const first = poolOf(allocator.malloc(512));
      const second = allocator.withMemPool(inner, () => poolOf(allocator.malloc(512)));
      return [first, second, poolOf(allocator.malloc(512)), poolOf(allocator.allocate(512, { pool: inner }).address)];
    });
    expect(result).toEqual([1, 2, 1, 2]);
    expect(() =>
      allocator.withMemPool(outer, () => {
        throw new Error('inside');
      }),
    ).toThrow('inside');
    expect(poolOf(allocator.malloc(512))).toBe(0);
  });

  test('an asynchronous function is refused, and the pool is left', async () => {
    const allocator = make();
    const pool = allocator.createMemPool();
    expect(() => allocator.withMemPool(pool, async () => 1)).toThrow(TypeError);
    allocator.malloc(512);
    expect(allocator.memorySnapshot().segments[0]?.segmentPoolId).toEqual([0, 0]);
  });

  test('a pool that was given up, or of another allocator, serves nothing', () => {
    const [one, two] = [make(), make()];
    const pool = one.createMemPool();
    expect(() => two.allocate(512, { pool })).toThrow(WrongThreadError);
    const buffer = one.allocate(512, { pool });
    {
      using scoped = pool;
      expect(scoped.released).toBe(false);
    }
    pool.release();
    expect(pool.released).toBe(true);
    expect(() => one.allocate(512, { pool })).toThrow(UseAfterFreeError);
    expect(() => one.withMemPool(pool, () => 1)).toThrow(UseAfterFreeError);
    buffer.free();
  });

  test('statistics count pools in', () => {
    const allocator = make();
    allocator.allocate(4 * MIB, { pool: allocator.createMemPool() });
    expect(allocator.memoryStats()).toMatchObject({
      'allocated_bytes.large_pool.current': 4 * MIB,
      'segment.all.current': 1,
    });
    expect(allocator.cacheInfo().largestBlock).toBe(80 * MIB);
  });
});

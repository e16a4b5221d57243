// Statistics: every key of PyTorch's, what resets do, and the peaks at the places where they are easy to miss.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { STAT_ROWS } from '../../lib/allocator/stats.js';
import { OutOfMemoryError } from '../../lib/errors.js';
import { MIB, open } from '../support/devices.js';

function make(conf = ''): CachingAllocator {
  return new CachingAllocator({ device: open('sim', { capacity: 256 * MIB }), conf });
}

const POOL_ROWS =
  'allocation allocated_bytes requested_bytes active active_bytes inactive_split inactive_split_bytes segment reserved_bytes'.split(
    ' ',
  );

describe('memoryStats', () => {
  test('has the keys of PyTorch and nothing unknown', () => {
    const names = ['current', 'peak', 'allocated', 'freed'];
    const expected = [
      ...POOL_ROWS.flatMap((row) =>
        ['all', 'small_pool', 'large_pool'].flatMap((pool) => names.map((name) => `${row}.${pool}.${name}`)),
      ),
      ...['oversize_allocations', 'oversize_segments'].flatMap((row) => names.map((name) => `${row}.${name}`)),
      ...[
        'num_alloc_retries',
        'num_ooms',
        'num_sync_all_streams',
        'num_device_alloc',
        'num_device_free',
        'max_split_size',
      ],
    ];
    const keys = Object.keys(make().memoryStats());
    expect(keys.filter((key) => !key.startsWith('cudalloc.')).sort()).toEqual(expected.sort());
    expect(STAT_ROWS.map((row) => row.key)).toEqual([...POOL_ROWS, 'oversize_allocations', 'oversize_segments']);
  });

  test('everything is 0 at the start; the split limit is what was set then', () => {
    expect(Object.values(make('max_split_size_mb:64').memoryStats()).filter((value) => value !== 0)).toEqual([
      64 * MIB,
    ]);
    const allocator = make();
    expect(allocator.memoryStats().max_split_size).toBe(-1);
    allocator.setConf('max_split_size_mb:64');
    expect(allocator.memoryStats().max_split_size).toBe(-1);
  });

  test('the short forms say the same', () => {
    const allocator = make();
    const address = allocator.malloc(3 * MIB);
    allocator.malloc(1);
    allocator.free(address);
    const stats = allocator.memoryStats();
    expect([
      allocator.memoryAllocated(),
      allocator.maxMemoryAllocated(),
      allocator.memoryReserved(),
      allocator.maxMemoryReserved(),
    ]).toEqual([512, 3 * MIB + 512, 22 * MIB, 22 * MIB]);
    expect(stats).toMatchObject({ 'allocated_bytes.all.current': 512, 'allocated_bytes.all.peak': 3 * MIB + 512 });
  });

  test('the peak over both pools is that of their sum, not the sum of their peaks', () => {
    const allocator = make();
    allocator.free(allocator.malloc(3 * MIB));
    allocator.free(allocator.malloc(MIB));
    expect(allocator.memoryStats()).toMatchObject({
      'allocated_bytes.large_pool.peak': 3 * MIB,
      'allocated_bytes.small_pool.peak': MIB,
      'allocated_bytes.all.peak': 3 * MIB,
      'allocation.all.peak': 1,
    });
  });

  test('what is requested is kept apart from what is allocated', () => {
    const allocator = make();
    const address = allocator.malloc(1000);
    expect(allocator.memoryStats()).toMatchObject({
      'requested_bytes.all.current': 1000,
      'allocated_bytes.all.current': 1024,
    });
    allocator.free(address);
    expect(allocator.memoryStats()).toMatchObject({
      'requested_bytes.all.freed': 1000,
      'requested_bytes.all.current': 0,
    });
  });

  test('a block that waits is active but not allocated, and its peak is that of both together', () => {
    const allocator = make();
    const { device } = allocator;
    const stream = device.createStream();
    device.mock?.holdEvents();
    const address = allocator.malloc(4 * MIB);
    allocator.recordStream(address, stream);
    allocator.free(address);
    allocator.malloc(5 * MIB);
    device.mock?.releaseEvents();
    allocator.malloc(1);
    expect(allocator.memoryStats()).toMatchObject({
      'active_bytes.all.current': 5 * MIB + 512,
      'active_bytes.all.peak': 9 * MIB,
      'allocated_bytes.all.peak': 5 * MIB + 512,
      'active.all.freed': 1,
      'active.all.allocated': 3,
    });
  });

  test('inactive splits: a cut adds the rest, a further cut takes from its bytes, joining all ends them', () => {
    const allocator = make();
    const read = (): number[] => {
      const stats = allocator.memoryStats();
      return ['inactive_split.all.current', 'inactive_split_bytes.all.current'].map((key) => stats[key] as number);
    };
    const first = allocator.malloc(4 * MIB);
    expect(read()).toEqual([1, 16 * MIB]);
    const second = allocator.malloc(4 * MIB);
    expect(read()).toEqual([1, 12 * MIB]);
    allocator.free(first);
    expect(read()).toEqual([2, 16 * MIB]);
    allocator.free(second);
    expect(read()).toEqual([0, 0]);
    const stats = allocator.memoryStats();
    expect(stats).toMatchObject({
      'inactive_split.all.peak': 2,
      'inactive_split.all.allocated': 2,
      'inactive_split.all.freed': 2,
    });
  });
});

describe('resets', () => {
  test('of peaks: to the current values', () => {
    const allocator = make();
    const address = allocator.malloc(50 * MIB);
    allocator.malloc(1);
    allocator.free(address);
    allocator.emptyCache();
    allocator.resetPeakMemoryStats();
    const stats = allocator.memoryStats();
    for (const [key, value] of Object.entries(stats)) {
      if (key.endsWith('.peak')) expect(value, key).toBe(stats[key.replace('.peak', '.current')]);
    }
    allocator.malloc(30 * MIB);
    expect(allocator.maxMemoryAllocated()).toBe(30 * MIB + 512);
  });

  test('of accumulated numbers: what was added and taken off counts from there, counters too', () => {
    const allocator = make();
    const address = allocator.malloc(50 * MIB);
    expect(() => allocator.malloc(300 * MIB)).toThrow(OutOfMemoryError);
    allocator.resetAccumulatedMemoryStats();
    const zeros = Object.entries(allocator.memoryStats()).filter(([key]) => /allocated$|freed$|^num_/.test(key));
    expect(zeros.filter(([, value]) => value !== 0)).toEqual([]);
    allocator.free(address);
    allocator.malloc(1);
    expect(allocator.memoryStats()).toMatchObject({
      'allocated_bytes.all.allocated': 512,
      'allocated_bytes.all.freed': 50 * MIB,
      'allocated_bytes.all.current': 512,
      'active.all.freed': 1,
      num_device_alloc: 1,
    });
  });
});

describe('memorySummary', () => {
  test('has a row of every statistic with its four numbers', () => {
    const allocator = make();
    allocator.free(allocator.malloc(3 * MIB));
    allocator.malloc(1000);
    expect(() => allocator.malloc(300 * MIB)).toThrow(OutOfMemoryError);
    const summary = allocator.memorySummary();
    for (const row of STAT_ROWS) expect(summary).toContain(row.label);
    expect(summary).toMatch(/out of memory: 1, retries after a flush: 1/);
    const row = summary.split('\n').find((line) => line.startsWith('Allocated memory'));
    expect(row?.split(/ {2,}/)).toEqual(['Allocated memory', '1024 bytes', '3.00 MiB', '3.00 MiB', '3.00 MiB']);
    expect(
      new Set(
        summary
          .split('\n')
          .filter((line) => /^[=-]+$/.test(line))
          .map((line) => line.length),
      ).size,
    ).toBe(1);
  });
});

describe('cacheInfo and baseAllocation', () => {
  test('the largest free block, or what the device still has', () => {
    const allocator = make();
    expect(allocator.cacheInfo().largestBlock).toBe(256 * MIB);
    allocator.free(allocator.malloc(200 * MIB));
    expect(allocator.cacheInfo().largestBlock).toBe(200 * MIB);
    allocator.malloc(50 * MIB);
    expect(allocator.cacheInfo().largestBlock).toBe(150 * MIB);
  });

  test('the segment of an address', () => {
    const allocator = make();
    const first = allocator.malloc(512);
    const second = allocator.malloc(512);
    expect(allocator.baseAllocation(second)).toEqual({ base: first, size: 2 * MIB });
    const expandable = make('expandable_segments:True');
    const address = expandable.malloc(512);
    expect(() => expandable.baseAllocation(address)).toThrow(/expandable/);
  });
});

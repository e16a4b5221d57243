// The decisions of the allocator, one rule at a time, on workloads small enough to be worked out by hand. The golden cases compare whole
// traces with PyTorch; these say which rule is broken.

import { describe, expect, test } from 'vitest';
import { MIB } from '../support/devices.js';
import { checkInvariants } from '../support/invariants.js';
import { layoutMib, make, mallocAll, mallocMib, reservedMib, segmentsMib } from '../support/sim-allocator.js';

describe('segment sizes', () => {
  test.each([
    [1, 2],
    [MIB, 2],
    [MIB + 1, 20],
    [10 * MIB - 512, 20],
    [10 * MIB - 511, 10],
    [10 * MIB, 10],
    [10 * MIB + 1, 12],
    [31 * MIB, 32],
  ])('%i bytes take a segment of %i MiB', (bytes, mib) => {
    const allocator = make();
    allocator.malloc(bytes);
    expect(reservedMib(allocator)).toBe(mib);
  });

  test('large_segment_size_mb is the segment of what is smaller, and the page of expandable segments', () => {
    const allocator = make('large_segment_size_mb:4');
    mallocMib(allocator, 3);
    expect(reservedMib(allocator)).toBe(4);
    mallocMib(allocator, 5);
    expect(reservedMib(allocator)).toBe(10);
    const expandable = make('expandable_segments:True,large_segment_size_mb:12');
    mallocMib(expandable, 3);
    expect(reservedMib(expandable)).toBe(12);
    mallocMib(expandable, 10);
    expect(reservedMib(expandable)).toBe(24);
  });

  test('0 bytes take nothing and do not look at pending frees', () => {
    const allocator = make();
    const stream = allocator.device.createStream();
    const address = mallocMib(allocator, 2);
    allocator.recordStream(address, stream);
    allocator.free(address);
    expect(allocator.malloc(0)).toBe(0);
    expect(allocator.memoryStats()['active.all.current']).toBe(1);
    allocator.free(0);
    expect(allocator.malloc(1)).toBeGreaterThan(0);
    expect(allocator.memoryStats()['active.all.current']).toBe(1);
  });
});

describe('splitting', () => {
  test('small pool: a rest of 512 bytes is cut off', () => {
    const allocator = make();
    allocator.malloc(MIB);
    allocator.malloc(MIB - 512);
    expect(allocator.memorySnapshot().segments[0]?.blocks.map((block) => block.size)).toEqual([MIB, MIB - 512, 512]);
  });

  test('large pool: a rest of exactly 1 MiB is left to the block, one of more is cut off', () => {
    const whole = make();
    mallocMib(whole, 11);
    expect(layoutMib(whole)).toEqual([12]);
    const cut = make();
    cut.malloc(11 * MIB - 512);
    expect(cut.memorySnapshot().segments[0]?.blocks.map((block) => block.size)).toEqual([11 * MIB - 512, MIB + 512]);
  });

  test('expandable segments: any rest is cut off', () => {
    const allocator = make('expandable_segments:True');
    mallocMib(allocator, 19.5);
    expect(layoutMib(allocator)).toEqual([19.5, -0.5]);
  });

  test('a request of the split limit or more is not split, one below it is', () => {
    const conf = 'max_split_size_mb:32,max_non_split_rounding_mb:100';
    const allocator = make(conf);
    allocator.free(mallocMib(allocator, 60));
    mallocMib(allocator, 32);
    expect(layoutMib(allocator)).toEqual([60]);
    const below = make(conf);
    below.free(below.malloc(30 * MIB));
    below.malloc(28 * MIB - 512);
    expect(below.memorySnapshot().segments[0]?.blocks.map((block) => block.size)).toEqual([
      28 * MIB - 512,
      2 * MIB + 512,
    ]);
  });
});

describe('coalescing', () => {
  test.each([
    ['to the left', [0, 1], [-8, 4, -4]],
    ['to the right', [1, 0], [-8, 4, -4]],
    ['with both', [0, 2, 1], [-16]],
  ])('%s', (_, order, expected) => {
    const allocator = make('large_segment_size_mb:16');
    const addresses = mallocAll(allocator, 4, 3);
    expect(layoutMib(allocator)).toEqual([4, 4, 4, -4]);
    for (const i of order) allocator.free(addresses[i] as number);
    expect(layoutMib(allocator)).toEqual(expected);
    checkInvariants(allocator);
  });
});

describe('best fit', () => {
  test('the smallest block that is large enough', () => {
    const allocator = make();
    const addresses = [30, 14, 22].map((mib) => mallocMib(allocator, mib));
    for (const address of addresses) allocator.free(address);
    expect(mallocMib(allocator, 21)).toBe(addresses[2]);
    expect(mallocMib(allocator, 14)).toBe(addresses[1]);
    expect(mallocMib(allocator, 23)).toBe(addresses[0]);
  });

  test('of equal ones that of the older segment, then the lower one', () => {
    const allocator = make();
    const addresses = mallocAll(allocator, 12, 3);
    for (const i of [2, 0, 1]) allocator.free(addresses[i] as number);
    expect(mallocAll(allocator, 12, 3)).toEqual(addresses);
    const small = make();
    const blocks = Array.from({ length: 6 }, () => small.malloc(512));
    for (const i of [3, 1, 5]) small.free(blocks[i] as number);
    small.malloc(2 * MIB - 6 * 512);
    expect(small.malloc(512)).toBe(blocks[1]);
  });

  test('never in the memory of another stream or of the other pool', () => {
    const allocator = make();
    const stream = allocator.device.createStream();
    const mine = mallocMib(allocator, 12);
    allocator.free(mine);
    const other = allocator.malloc(12 * MIB, stream);
    expect(other).not.toBe(mine);
    allocator.malloc(512);
    expect(reservedMib(allocator)).toBe(12 + 12 + 2);
  });
});

describe('the split limit', () => {
  test('a request below it never takes an oversize block, of exactly the limit neither', () => {
    const allocator = make('max_split_size_mb:32');
    const block = mallocMib(allocator, 32);
    allocator.free(block);
    expect(mallocMib(allocator, 30)).not.toBe(block);
    expect(reservedMib(allocator)).toBe(62);
  });

  test('an oversize request takes a block only below its size plus max_non_split_rounding_mb', () => {
    const allocator = make('max_split_size_mb:32,max_non_split_rounding_mb:8');
    const block = mallocMib(allocator, 48);
    allocator.free(block);
    const exact = mallocMib(allocator, 40);
    expect(exact).not.toBe(block);
    expect(allocator.malloc(40 * MIB + 512)).toBe(block);
  });

  test('oversize blocks are released before anything is flushed: the smallest that covers the request', () => {
    const allocator = make('max_split_size_mb:32', 200 * MIB);
    const [, b, c] = [40, 60, 50].map((mib) => mallocMib(allocator, mib)) as [number, number, number];
    const small = mallocMib(allocator, 12);
    for (const address of [b, c, small]) allocator.free(address);
    mallocMib(allocator, 45 + 40);
    expect(segmentsMib(allocator)).toEqual([40, 12, 86]);
    expect(allocator.memoryStats()).toMatchObject({ num_alloc_retries: 0, num_ooms: 0, num_device_free: 2 });
  });

  test('of exactly the limit counts as oversize', () => {
    const allocator = make('max_split_size_mb:32');
    mallocMib(allocator, 32);
    mallocMib(allocator, 30);
    expect(allocator.memoryStats()).toMatchObject({
      'oversize_allocations.current': 1,
      'oversize_segments.current': 1,
    });
  });
});

describe('setConf', () => {
  test('resets what it does not name, but not expandable_segments', () => {
    const allocator = make(
      'expandable_segments:True,max_split_size_mb:64,garbage_collection_threshold:0.5,roundup_power2_divisions:4',
    );
    allocator.setConf('');
    expect(allocator.config).toMatchObject({
      expandableSegments: true,
      maxSplitSize: Number.POSITIVE_INFINITY,
      garbageCollectionThreshold: 0,
      hasRoundup: false,
    });
  });

  test('a refused string changes nothing', () => {
    const allocator = make('max_split_size_mb:64');
    const { config } = allocator;
    expect(() => allocator.setConf('max_split_size_mb:64,nonsense:1')).toThrow();
    expect(allocator.config).toBe(config);
  });
});

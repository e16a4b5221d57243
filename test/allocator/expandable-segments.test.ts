// Expandable segments: how they grow, what a flush takes from them, and the small workloads of public reports about them.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { PolicyName } from '../../lib/allocator/policy.js';
import { MIB, open } from '../support/devices.js';
import { checkInvariants } from '../support/invariants.js';
import { make, mallocAll, mallocMib, reservedMib } from '../support/sim-allocator.js';

describe('expandable segments', () => {
  test('T1: 8 x 16 MiB, freed, then 4 x 32 MiB, and the other way round', () => {
    const run = (conf: string, order: readonly (readonly [mib: number, count: number])[]): number[] => {
      const allocator = make(conf);
      return order.map(([mib, count]) => {
        for (const address of mallocAll(allocator, mib, count)) allocator.free(address);
        return reservedMib(allocator);
      });
    };
    const order = [
      [16, 8],
      [32, 4],
    ] as const;
    expect(run('', order)).toEqual([128, 256]);
    expect(run('', [order[1], order[0]])).toEqual([128, 128]);
    expect(run('expandable_segments:True', order)).toEqual([140, 140]);
  });

  test('T2: pools grow apart', () => {
    const allocator = make('expandable_segments:True');
    allocator.free(mallocMib(allocator, 2));
    mallocMib(allocator, 0.5);
    expect(reservedMib(allocator)).toBe(22);
    const same = make('expandable_segments:True');
    same.free(mallocMib(same, 2));
    mallocMib(same, 2);
    expect(reservedMib(same)).toBe(20);
  });

  const cycles = (conf: string, policy: PolicyName): number => {
    const allocator = make(conf, 16384 * MIB, policy);
    for (let cycle = 0; cycle < 100; cycle++) {
      const pair = [mallocMib(allocator, 91), mallocMib(allocator, 45.5)];
      mallocMib(allocator, 2);
      for (const address of pair) allocator.free(address);
    }
    return reservedMib(allocator);
  };

  test('T3: reserved memory climbs only with a split limit and expandable segments under PyTorch rules', () => {
    expect(cycles('expandable_segments:True,max_split_size_mb:128', 'pytorch')).toBeGreaterThan(10_000);
    expect(cycles('expandable_segments:True,max_split_size_mb:128', 'default')).toBeLessThan(500);
    expect(cycles('max_split_size_mb:128', 'pytorch')).toBeLessThan(500);
    expect(cycles('expandable_segments:True', 'pytorch')).toBeLessThan(500);
  });

  test('T4: they grow when free space is interleaved with live blocks', () => {
    const allocator = make('expandable_segments:True');
    const addresses = mallocAll(allocator, 16, 4);
    allocator.free(addresses[0] as number);
    allocator.free(addresses[2] as number);
    const before = reservedMib(allocator);
    mallocMib(allocator, 32);
    expect(before).toBe(80);
    expect(reservedMib(allocator)).toBe(100);
  });

  test('T5: long-lived blocks of 270 MiB in cached segments of 530 MiB', () => {
    const run = (conf: string): number => {
      const allocator = make(conf, 32768 * MIB);
      const big = mallocAll(allocator, 530, 4);
      for (const address of big) {
        allocator.free(address);
        mallocMib(allocator, 270);
      }
      allocator.emptyCache();
      return reservedMib(allocator) - 4 * 270;
    };
    expect(run('')).toBe(4 * 260);
    expect(run('max_split_size_mb:21')).toBe(0);
    expect(run('expandable_segments:True')).toBeLessThanOrEqual(40);
  });

  test('a flush unmaps whole pages inside free blocks and keeps the rest', () => {
    const allocator = make('expandable_segments:True');
    const [, second] = [30, 60, 10].map((mib) => mallocMib(allocator, mib)) as [number, number, number];
    expect(reservedMib(allocator)).toBe(100);
    allocator.free(second);
    allocator.emptyCache();
    const { segments } = allocator.memorySnapshot();
    expect(segments.map(({ place, totalSize }) => [(place?.[1] ?? -1) / MIB, totalSize / MIB])).toEqual([
      [0, 40],
      [80, 20],
    ]);
    checkInvariants(allocator);
    expect(mallocMib(allocator, 60)).toBe(second);
    expect(reservedMib(allocator)).toBe(100);
  });

  test('a stream is waited for before its pages are unmapped', () => {
    const allocator = make('expandable_segments:True');
    const { device } = allocator;
    const stream = device.createStream();
    const event = device.createEvent();
    const address = allocator.malloc(20 * MIB, stream);
    device.mock?.holdEvents();
    event.record(stream);
    allocator.free(address);
    allocator.emptyCache();
    expect(event.query()).toBe(true);
    expect(device.driverCalls().cudaStreamSynchronize).toBe(1);
  });

  test('a range without pages is given back', () => {
    const allocator = make('expandable_segments:True');
    allocator.free(mallocMib(allocator, 40));
    allocator.emptyCache();
    expect(allocator.memoryStats()['cudalloc.reserved_address_bytes']).toBe(0);
    expect(allocator.memorySnapshot().segments).toEqual([]);
  });

  test('switched off in mid-run, their free blocks are passed over', () => {
    const allocator = make('expandable_segments:True');
    const address = mallocMib(allocator, 20);
    allocator.free(address);
    allocator.setConf('expandable_segments:False');
    expect(mallocMib(allocator, 20)).not.toBe(address);
    expect(reservedMib(allocator)).toBe(40);
  });
});

test('one live buffer keeps its bytes through 200 cycles of growing, shrinking and running out', () => {
  const device = open('mock', { capacity: 256 * MIB });
  const allocator = new CachingAllocator({ device, conf: 'expandable_segments:True' });
  const canary = allocator.allocate(24 * MIB);
  const pattern = new Uint8Array(24 * MIB).map((_, i) => (i * 31 + (i >>> 16)) & 255);
  canary.write(pattern);
  for (let cycle = 0; cycle < 200; cycle++) {
    const blocks = [30, 22, 60].map((mib) => allocator.malloc((mib + (cycle % 7)) * MIB));
    expect(() => allocator.malloc(250 * MIB)).toThrow();
    for (const address of blocks) allocator.free(address);
    if (cycle % 3 === 0) allocator.emptyCache();
    if (cycle % 20 === 0) expect(Buffer.compare(canary.read(), pattern)).toBe(0);
  }
  expect(Buffer.compare(canary.read(), pattern)).toBe(0);
});

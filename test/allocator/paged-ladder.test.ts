// What the policy paged does step by step: which pages serve a request, on which stream, at what cost in calls, and what it refuses.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { OutOfMemoryError, UnsupportedError } from '../../lib/errors.js';
import { MIB, type MockDevice, open, thrownBy } from '../support/devices.js';
import { checkEmpty, checkInvariants } from '../support/invariants.js';

const BACKENDS = ['sim', 'mock'] as const;

function calls(device: MockDevice): number {
  return Object.values(device.driverCalls()).reduce((sum, count) => sum + count, 0);
}

describe.each(BACKENDS)('%s', (backend) => {
  const make = (mib: number, conf = '') => {
    const device = open(backend, { capacity: mib * MIB });
    return { device, allocator: new CachingAllocator({ device, policy: 'paged', conf }) };
  };

  test('four blocks of 16 MiB, the first and the third freed, then 32 MiB: nothing grows', () => {
    const { device, allocator } = make(64, 'large_segment_size_mb:16,expandable_segments_page_size:16777216');
    const blocks = Array.from({ length: 4 }, () => allocator.malloc(16 * MIB));
    expect(device.memGetInfo().free).toBe(0);
    allocator.free(blocks[0] as number);
    allocator.free(blocks[2] as number);
    const { cuMemCreate } = device.driverCalls();
    const joined = allocator.malloc(32 * MIB);
    expect(allocator.memoryReserved()).toBe(64 * MIB);
    expect(device.driverCalls().cuMemCreate).toBe(cuMemCreate);
    checkInvariants(allocator);
    for (const address of [joined, blocks[1] as number, blocks[3] as number]) allocator.free(address);
    allocator.emptyCache();
    checkEmpty(allocator);
  });

  test('the free end of one page and the free start of another are stitched, and stay so for the next request', () => {
    const { device, allocator } = make(80);
    // Each pair fills a page.
    const blocks = Array.from({ length: 4 }, () => [allocator.malloc(10 * MIB), allocator.malloc(10 * MIB)] as const);
    expect(device.memGetInfo().free).toBe(0);
    const [first, second] = blocks as [(typeof blocks)[number], (typeof blocks)[number]];
    allocator.free(first[1]);
    allocator.free((blocks[2] as (typeof blocks)[number])[0]);
    const joined = allocator.malloc(20 * MIB);
    const { cuMemMap } = device.driverCalls();
    allocator.free(joined);
    // Nothing serves this one; its parts have gone back on the way.
    expect(thrownBy(() => allocator.malloc(30 * MIB))).toBeInstanceOf(OutOfMemoryError);
    const again = allocator.malloc(20 * MIB);
    expect(again).toBe(joined);
    expect(device.driverCalls().cuMemMap).toBe(cuMemMap);
    checkInvariants(allocator);
    expect(allocator.memoryReserved()).toBe(80 * MIB);
    allocator.free(second[0]);
    allocator.close();
  });

  test('a steady workload makes no driver call after its first iterations', () => {
    const { device, allocator } = make(200);
    const sizes = [70, 3, 0.3, 44, 12, 0.001, 25].map((mib) => Math.ceil(mib * MIB));
    const iterate = (): void => {
      const addresses = sizes.map((bytes) => allocator.malloc(bytes));
      for (const address of addresses) allocator.free(address);
      for (const bytes of [...sizes].reverse()) allocator.free(allocator.malloc(bytes));
    };
    for (let i = 0; i < 3; i++) iterate();
    const before = calls(device);
    for (let i = 0; i < 50; i++) iterate();
    expect(calls(device)).toBe(before);
  });

  test('no page is taken from another stream before the work there so far is waited for', () => {
    const { device, allocator } = make(80);
    const other = device.createStream();
    const blocks = Array.from({ length: 4 }, () => allocator.malloc(20 * MIB, other));
    for (const address of blocks) allocator.free(address);
    const waits = (): number => device.mock.counters().cuStreamWaitEvent ?? 0;
    const before = waits();
    allocator.malloc(60 * MIB);
    expect(waits()).toBeGreaterThan(before);
    expect(allocator.memoryReserved()).toBe(80 * MIB);
  });

  test('memory that another stream still uses is not reused before its event, then it is', () => {
    const { device, allocator } = make(80);
    const other = device.createStream();
    const address = allocator.malloc(80 * MIB);
    allocator.recordStream(address, other);
    device.mock.holdEvents();
    allocator.free(address);
    expect(allocator.memoryStats()['active_bytes.all.current']).toBe(80 * MIB);
    device.mock.releaseEvents();
    expect(allocator.malloc(80 * MIB)).toBe(address);
  });

  test('an out of memory says that the free memory shares pages with live blocks', () => {
    const { device, allocator } = make(80);
    const blocks = Array.from({ length: 16 }, () => allocator.malloc(5 * MIB));
    expect(device.memGetInfo().free).toBe(0);
    blocks.forEach((address, i) => {
      if (i % 2 === 0) allocator.free(address);
    });
    const error = thrownBy(() => allocator.malloc(38 * MIB)) as OutOfMemoryError;
    expect(error.verdict).toMatchObject({ kind: 'fragmented', advice: null });
    expect(error.message).toMatch(/share pages.*movable/);
  });
});

test('without virtual memory the policy is refused when it is asked for', () => {
  const device = open('sim');
  const lacking = Object.create(device, {
    features: { value: { ...device.features, virtualMemory: { works: false, reason: 'no cuMemMap here' } } },
  }) as MockDevice;
  const error = thrownBy(() => new CachingAllocator({ device: lacking, policy: 'paged' }));
  expect(error).toBeInstanceOf(UnsupportedError);
  expect((error as Error).message).toBe('the policy paged needs virtual memory: no cuMemMap here');
});

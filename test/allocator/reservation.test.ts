// Address ranges that the driver refuses: asked for again in smaller sizes, then given up for plain segments, and told.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { DriverError } from '../../lib/errors.js';
import { MIB, type MockDevice, open } from '../support/devices.js';
import { checkEmpty, checkInvariants } from '../support/invariants.js';

const RESERVE = 'cuMemAddressReserve';

function refuse(device: MockDevice, times: number): void {
  // Of failures that are due at once each waits for the next call.
  for (let n = 0; n < times; n++) device.mock.failNth(RESERVE, 1, 'CUDA_ERROR_INVALID_VALUE');
}

/** The device as if its driver had no virtual memory. */
function withoutVirtualMemory(device: MockDevice): MockDevice {
  const virtualMemory = { works: false, reason: 'this driver has no virtual memory' };
  return Object.defineProperty(device, 'features', { value: { ...device.features, virtualMemory } });
}

describe.each(['sim', 'mock'] as const)('%s', (backend) => {
  const make = (conf = 'expandable_segments:True'): { device: MockDevice; allocator: CachingAllocator } => {
    const device = open(backend, { capacity: 256 * MIB });
    return { device, allocator: new CachingAllocator({ device, conf }) };
  };

  test('nine eighths of the device, in whole pages', () => {
    const { allocator } = make();
    allocator.malloc(MIB + 1);
    expect(allocator.memoryStats()).toMatchObject({
      'cudalloc.reserved_address_bytes': 300 * MIB,
      'cudalloc.reservation_step_downs': 0,
      'cudalloc.expandable_segments_refused': 0,
    });
    allocator.malloc(512);
    expect(allocator.memoryStats()['cudalloc.reserved_address_bytes']).toBe((300 + 288) * MIB);
  });

  test.each([
    [1, 160],
    [2, 80],
    [3, 40],
  ])('after %i refusals: %i MiB', (times, mib) => {
    const { device, allocator } = make();
    refuse(device, times);
    allocator.malloc(20 * MIB);
    expect(allocator.memoryStats()).toMatchObject({
      'cudalloc.reserved_address_bytes': mib * MIB,
      'cudalloc.reservation_step_downs': 1,
      'cudalloc.expandable_segments_refused': 0,
    });
    expect(allocator.expandableSegments).toEqual({ works: true });
    // A request beyond the small range gets another.
    allocator.malloc(200 * MIB);
    checkInvariants(allocator);
    expect(new Set(allocator.memorySnapshot().segments.map((segment) => segment.place?.[0])).size).toBe(2);
  });

  test('never smaller than the request', () => {
    const { device, allocator } = make();
    refuse(device, 1);
    allocator.malloc(220 * MIB);
    expect(allocator.memoryStats()['cudalloc.reserved_address_bytes']).toBe(220 * MIB);
  });

  test('given up: plain segments serve this request and all later ones', () => {
    const { device, allocator } = make();
    const early = allocator.malloc(512);
    refuse(device, 20);
    const address = allocator.malloc(30 * MIB);
    device.mock.clearFailures();
    allocator.malloc(30 * MIB, device.createStream());
    const { segments } = checkInvariants(allocator);
    expect(segments.map((segment) => segment.isExpandable)).toEqual([true, false, false]);
    expect(allocator.expandableSegments).toMatchObject({ works: false, reason: expect.stringContaining(RESERVE) });
    expect(allocator.memoryStats()).toMatchObject({ 'cudalloc.expandable_segments_refused': 1, num_ooms: 0 });
    allocator.free(early);
    allocator.free(address);
    allocator.close();
    expect(device.memGetInfo().free).toBe(256 * MIB);
  });

  test('a range that cannot be freed yet is used again', () => {
    const { device, allocator } = make();
    const address = allocator.malloc(20 * MIB);
    allocator.free(address);
    device.mock.failNth('cuMemAddressFree', 1, 'CUDA_ERROR_UNKNOWN');
    expect(() => allocator.emptyCache()).toThrow(DriverError);
    checkInvariants(allocator);
    expect(allocator.malloc(20 * MIB)).toBe(address);
    allocator.free(address);
    allocator.emptyCache();
    checkEmpty(allocator);
    expect(allocator.memoryStats()['cudalloc.reserved_address_bytes']).toBe(0);
  });

  test('pages that the driver does not take back are counted, used again, and given back by the next flush', () => {
    const { device, allocator } = make();
    const address = allocator.malloc(100 * MIB);
    allocator.free(address);
    device.mock.failNth('cuMemRelease', 2, 'CUDA_ERROR_UNKNOWN');
    expect(() => allocator.emptyCache()).toThrow(DriverError);
    expect(allocator.memoryStats()['cudalloc.unreleased_page_bytes']).toBe(80 * MIB);
    checkInvariants(allocator);
    const again = allocator.malloc(40 * MIB);
    expect(allocator.memoryStats()['cudalloc.unreleased_page_bytes']).toBe(40 * MIB);
    checkInvariants(allocator);
    allocator.free(again);
    allocator.emptyCache();
    checkEmpty(allocator);
    expect(allocator.memoryStats()['cudalloc.unreleased_page_bytes']).toBe(0);
  });
});

test('where expandable segments cannot be had, the rules are those of plain segments', () => {
  const capacity = 256 * MIB;
  const asked = new CachingAllocator({
    device: withoutVirtualMemory(open('sim', { capacity })),
    conf: 'expandable_segments:True,max_split_size_mb:32',
  });
  const plain = new CachingAllocator({ device: open('sim', { capacity }), conf: 'max_split_size_mb:32' });
  expect(asked.expandableSegments).toEqual({ works: false, reason: 'this driver has no virtual memory' });
  const [first, second] = [asked, plain].map((allocator) => {
    const malloc = (mib: number): number => allocator.malloc(mib * MIB);
    allocator.free(malloc(40));
    malloc(11);
    malloc(36);
    malloc(19.5);
    return allocator.memorySnapshot().segments.map((segment) => segment.blocks.map(({ size, state }) => [size, state]));
  });
  expect(first).toEqual(second);
});

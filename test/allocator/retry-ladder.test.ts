// What is tried before an out of memory, and in which order: waiting, flushing, the memory fraction, collection of what is old.

import { describe, expect, test } from 'vitest';
import { OutOfMemoryError } from '../../lib/errors.js';
import { MIB } from '../support/devices.js';
import { make, mallocMib, reservedMib, segmentsMib } from '../support/sim-allocator.js';

describe('the retry ladder', () => {
  test('flushes what is cached and counts a retry', () => {
    const allocator = make('', 100 * MIB);
    allocator.free(mallocMib(allocator, 60));
    mallocMib(allocator, 80);
    expect(allocator.memoryStats()).toMatchObject({ num_alloc_retries: 1, num_ooms: 0 });
    expect(reservedMib(allocator)).toBe(80);
  });

  test('the fraction is checked with the segment, and may be reached exactly', () => {
    const allocator = make('per_process_memory_fraction:0.5', 80 * MIB);
    mallocMib(allocator, 20);
    mallocMib(allocator, 20);
    expect(() => allocator.malloc(1)).toThrow(OutOfMemoryError);
    expect(reservedMib(allocator)).toBe(40);
  });

  test.each(['pytorch', 'default'] as const)('T6: all that is free waits for an event (%s)', (policy) => {
    const allocator = make('', 100 * MIB, policy);
    const { mock } = allocator.device;
    const stream = allocator.device.createStream();
    const outer = mallocMib(allocator, 90);
    allocator.free(outer);
    const address = mallocMib(allocator, 60);
    const rest = mallocMib(allocator, 29);
    allocator.recordStream(address, stream);
    mock?.holdEvents();
    allocator.free(address);
    const request = (): number => mallocMib(allocator, 60);
    // The segment is pinned by the other block, so a flush does not help; the block itself does.
    if (policy === 'pytorch') {
      expect(request).toThrow(OutOfMemoryError);
      expect(allocator.memoryStats()).toMatchObject({ num_ooms: 1, num_alloc_retries: 1 });
    }
    expect(request()).toBe(address);
    expect(allocator.memoryStats()).toMatchObject({ num_ooms: policy === 'pytorch' ? 1 : 0 });
    if (policy === 'default')
      expect(allocator.memoryStats()).toMatchObject({ num_alloc_retries: 0, num_device_free: 0 });
    allocator.free(rest);
  });

  test('T6 as reported: one block of 90 of 100 MiB, freed with a pending event, is given out again', () => {
    const allocator = make('', 100 * MIB);
    const stream = allocator.device.createStream();
    const address = mallocMib(allocator, 90);
    allocator.recordStream(address, stream);
    allocator.device.mock?.holdEvents();
    allocator.free(address);
    expect(mallocMib(allocator, 90)).toBe(address);
    expect(allocator.memoryStats()).toMatchObject({ num_ooms: 0, num_device_alloc: 1, num_device_free: 0 });
  });
});

describe('garbage collection', () => {
  test('releases the old blocks of the large pool until reserved memory is below the threshold', () => {
    const allocator = make('garbage_collection_threshold:0.5,per_process_memory_fraction:1', 200 * MIB);
    const [old, young] = [40, 30, 50].map((mib) => mallocMib(allocator, mib)) as [number, number, number];
    allocator.free(old);
    allocator.free(young);
    for (let i = 0; i < 6; i++) allocator.free(mallocMib(allocator, 30));
    mallocMib(allocator, 60);
    expect(segmentsMib(allocator)).toEqual([30, 50, 60]);
    expect(allocator.memoryStats()).toMatchObject({ num_alloc_retries: 0, num_device_free: 1 });
  });

  test('goes on in rounds while that is not enough', () => {
    const allocator = make('garbage_collection_threshold:0.2,per_process_memory_fraction:1', 200 * MIB);
    const blocks = [40, 44, 48].map((mib) => mallocMib(allocator, mib));
    const live = mallocMib(allocator, 12);
    for (const address of blocks) allocator.free(address);
    allocator.free(mallocMib(allocator, 48));
    mallocMib(allocator, 56);
    expect(segmentsMib(allocator)).toEqual([12, 56]);
    allocator.free(live);
  });

  test('does nothing without a memory fraction', () => {
    const allocator = make('garbage_collection_threshold:0.1', 200 * MIB);
    for (const mib of [40, 50, 60]) allocator.free(mallocMib(allocator, mib));
    expect(reservedMib(allocator)).toBe(150);
  });

  test('age starts anew when a block is freed again', () => {
    const allocator = make('garbage_collection_threshold:0.5,per_process_memory_fraction:1', 200 * MIB);
    const [first, second] = [40, 42, 50].map((mib) => mallocMib(allocator, mib)) as [number, number, number];
    allocator.free(first);
    allocator.free(second);
    for (let i = 0; i < 4; i++) allocator.free(mallocMib(allocator, 42));
    allocator.free(mallocMib(allocator, 40));
    mallocMib(allocator, 60);
    expect(segmentsMib(allocator)).toEqual([40, 50, 60]);
  });
});

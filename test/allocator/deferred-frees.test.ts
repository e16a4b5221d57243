// Blocks that other streams use: when they are free again, and what capturing a stream does to that.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { Stream } from '../../lib/device/types.js';
import { CapturingError, DoubleFreeError, DriverError, InvalidAddressError } from '../../lib/errors.js';
import { MIB, type MockDevice, open } from '../support/devices.js';
import { checkInvariants } from '../support/invariants.js';

interface Bench {
  readonly allocator: CachingAllocator;
  readonly device: MockDevice;
  readonly streams: readonly [Stream, Stream];
}

function make(backend: 'sim' | 'mock', conf = ''): Bench {
  const device = open(backend, { capacity: 128 * MIB });
  const streams = [device.createStream(), device.createStream()] as const;
  return { allocator: new CachingAllocator({ device, conf }), device, streams };
}

const active = (allocator: CachingAllocator): number => allocator.memoryStats()['active.all.current'] as number;

describe.each(['sim', 'mock'] as const)('%s: recordStream', (backend) => {
  test('a block waits for every stream that uses it, however often it was named', () => {
    const { allocator, device, streams } = make(backend);
    const address = allocator.malloc(MIB);
    for (const stream of [...streams, streams[0]]) allocator.recordStream(address, stream);
    device.mock.holdEvents();
    allocator.free(address);
    expect(device.driverCalls().cudaEventRecord).toBe(2);
    device.mock.completeEvents(streams[0]);
    allocator.malloc(512);
    expect(active(allocator)).toBe(2);
    device.mock.completeEvents(streams[1]);
    expect(allocator.malloc(MIB)).toBe(address);
    expect(active(allocator)).toBe(2);
  });

  test('its own stream needs no event', () => {
    const { allocator, device, streams } = make(backend);
    const address = allocator.malloc(MIB, streams[0]);
    allocator.recordStream(address, streams[0]);
    allocator.free(address);
    expect([device.driverCalls().cudaEventRecord, active(allocator)]).toEqual([0, 0]);
  });

  test('events are used again', () => {
    const { allocator, device, streams } = make(backend);
    for (let i = 0; i < 50; i++) {
      const address = allocator.malloc(MIB);
      allocator.recordStream(address, streams[i % 2] as Stream);
      allocator.free(address);
    }
    expect(device.driverCalls().cudaEventCreate).toBeLessThanOrEqual(2);
    expect(device.driverCalls().cudaEventRecord).toBe(50);
  });

  test('a waiting block is neither freed again nor named', () => {
    const { allocator, device, streams } = make(backend);
    const address = allocator.malloc(MIB);
    allocator.recordStream(address, streams[0]);
    device.mock.holdEvents();
    allocator.free(address);
    const stats = allocator.memoryStats();
    expect(() => allocator.free(address)).toThrow(DoubleFreeError);
    expect(() => allocator.recordStream(address, streams[1])).toThrow(DoubleFreeError);
    expect(() => allocator.recordStream(512, streams[1])).toThrow(InvalidAddressError);
    expect(allocator.memoryStats()).toEqual(stats);
  });

  test('one slow event does not hold back another stream', () => {
    const { allocator, device, streams } = make(backend);
    const [first, second] = [allocator.malloc(2 * MIB), allocator.malloc(2 * MIB)];
    allocator.recordStream(first, streams[0]);
    allocator.recordStream(second, streams[1]);
    device.mock.holdEvents();
    allocator.free(first);
    allocator.free(second);
    device.mock.completeEvents(streams[1]);
    allocator.malloc(512);
    expect(active(allocator)).toBe(2);
  });

  test('a flush waits for all of them', () => {
    const { allocator, device, streams } = make(backend);
    const address = allocator.malloc(20 * MIB);
    allocator.recordStream(address, streams[0]);
    device.mock.holdEvents();
    allocator.free(address);
    allocator.emptyCache();
    expect([allocator.memoryReserved(), allocator.memoryStats().num_sync_all_streams]).toEqual([0, 1]);
  });

  test('a long queue is worked off in order', () => {
    const { allocator, device, streams } = make(backend);
    const addresses = Array.from({ length: 3000 }, () => allocator.malloc(512));
    device.mock.holdEvents();
    for (const address of addresses) {
      allocator.recordStream(address, streams[0]);
      allocator.free(address);
    }
    device.mock.completeEvents(streams[0]);
    allocator.malloc(512);
    expect(active(allocator)).toBe(1);
    checkInvariants(allocator);
  });

  test.each(['cudaEventCreate', 'cudaEventRecord'])('a free during which %s fails changes nothing', (fn) => {
    for (const n of [1, 2]) {
      const { allocator, device, streams } = make(backend);
      const address = allocator.malloc(MIB);
      for (const stream of streams) allocator.recordStream(address, stream);
      const stats = allocator.memoryStats();
      const snapshot = allocator.memorySnapshot();
      device.mock.failNth(fn, n, 'CUDA_ERROR_UNKNOWN');
      expect(() => allocator.free(address)).toThrow(DriverError);
      expect(allocator.memoryStats()).toEqual(stats);
      expect(allocator.memorySnapshot()).toEqual(snapshot);
      allocator.free(address);
      allocator.emptyCache();
      expect(allocator.memoryReserved()).toBe(0);
    }
  });
});

describe.each(['sim', 'mock'] as const)('%s: while a stream is being captured', (backend) => {
  test('a hit in the cache works, and what needs the driver is refused with a typed error, state unchanged', () => {
    const { allocator, device, streams } = make(backend);
    const keep = allocator.malloc(12 * MIB);
    allocator.free(allocator.malloc(4 * MIB));
    device.mock.setCapturing(streams[0], true);
    const stats = allocator.memoryStats();
    const { segments } = allocator.memorySnapshot();
    expect(() => allocator.malloc(40 * MIB)).toThrow(CapturingError);
    expect(() => allocator.emptyCache()).toThrow(CapturingError);
    expect(allocator.memorySnapshot().segments).toEqual(segments);
    expect(allocator.memoryStats()).toEqual({ ...stats, num_sync_all_streams: (stats.num_sync_all_streams ?? 0) + 1 });
    allocator.free(allocator.malloc(4 * MIB));
    device.mock.setCapturing(streams[0], false);
    allocator.malloc(40 * MIB);
    allocator.free(keep);
  });

  test('a free of what the captured stream uses waits until the capture has ended, and then for its work', () => {
    const { allocator, device, streams } = make(backend);
    const address = allocator.malloc(4 * MIB);
    allocator.recordStream(address, streams[0]);
    device.mock.setCapturing(streams[0], true);
    allocator.free(address);
    expect(device.driverCalls().cudaEventRecord).toBe(0);
    const other = allocator.malloc(4 * MIB);
    expect(other).not.toBe(address);
    expect(() => allocator.free(address)).toThrow(DoubleFreeError);
    device.mock.setCapturing(streams[0], false);
    device.mock.holdEvents();
    allocator.malloc(3 * MIB);
    expect([device.driverCalls().cudaEventRecord, active(allocator)]).toEqual([1, 3]);
    device.mock.releaseEvents();
    expect(allocator.malloc(4 * MIB)).toBe(address);
    checkInvariants(allocator);
  });

  test('events that wait elsewhere are left alone meanwhile', () => {
    const { allocator, device, streams } = make(backend);
    const address = allocator.malloc(4 * MIB);
    allocator.recordStream(address, streams[1]);
    allocator.free(address);
    device.mock.setCapturing(streams[0], true);
    allocator.malloc(4 * MIB);
    device.mock.setCapturing(streams[0], false);
    allocator.malloc(3 * MIB);
    expect(active(allocator)).toBe(2);
  });

  test('with expandable segments as well', () => {
    const { allocator, device, streams } = make(backend, 'expandable_segments:True');
    allocator.free(allocator.malloc(20 * MIB));
    device.mock.setCapturing(streams[0], true);
    expect(() => allocator.malloc(40 * MIB)).toThrow(CapturingError);
    expect(() => allocator.emptyCache()).toThrow(CapturingError);
    expect(allocator.memoryReserved()).toBe(20 * MIB);
    device.mock.setCapturing(streams[0], false);
    allocator.malloc(40 * MIB);
    checkInvariants(allocator);
  });
});

// The history: what is recorded, in which order, and what a bounded ring keeps.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { MemoryHistory, RECORD_ALLOC, RECORD_OOM } from '../../lib/allocator/history.js';
import { CudallocError, OutOfMemoryError } from '../../lib/errors.js';
import type { Frame } from '../../lib/snapshot/model.js';
import { MIB, open } from '../support/devices.js';

function fill(history: MemoryHistory, count: number, from = 0): void {
  for (let i = from; i < from + count; i++)
    history.record(RECORD_ALLOC, 512 * i, i, i % 3, i % 5, 64 * i, 1000 + i, null);
}

describe('MemoryHistory', () => {
  test.each([
    [10, 3],
    [10, 10],
    [10, 25],
    [1, 4],
    [1024, 5000],
    [1500, 4321],
    [Number.POSITIVE_INFINITY, 5000],
  ])('of %d entries keeps the newest of %i', (maxEntries, count) => {
    const history = new MemoryHistory({ maxEntries });
    fill(history, count);
    const kept = Math.min(count, maxEntries);
    expect([history.total, history.length]).toEqual([count, kept]);
    const entries = history.entries();
    expect(entries.map((entry) => entry.size)).toEqual(Array.from({ length: kept }, (_, i) => count - kept + i));
    const last = count - 1;
    expect(history.entry(last)).toEqual({
      action: 'alloc',
      address: 512 * last,
      size: last,
      stream: last % 3,
      segment: last % 5,
      offset: 64 * last,
      timeUs: 1000 + last,
      frames: [],
    });
    for (const index of [count - kept - 1, count, -1, 0.5 - 1, Number.NaN])
      expect(() => history.entry(index)).toThrow(RangeError);
  });

  test('large numbers are exact', () => {
    const history = new MemoryHistory();
    history.record(RECORD_OOM, 2 ** 53 - 1, 2 ** 52 + 1, 7, -1, 2 ** 47, 1.7e15 + 0.5, null);
    expect(history.entry(0)).toMatchObject({
      action: 'oom',
      address: 2 ** 53 - 1,
      size: 2 ** 52 + 1,
      segment: -1,
      offset: 2 ** 47,
    });
  });

  test('an entry without a stack does not show that of the entry it replaced', () => {
    const history = new MemoryHistory({ maxEntries: 1, stacks: true });
    const frames: Frame[] = [{ name: 'f', filename: 'file.js', line: 1 }];
    history.record(RECORD_ALLOC, 512, 1, 0, 0, 0, 0, frames);
    expect(history.entry(0).frames).toEqual(frames);
    history.record(RECORD_ALLOC, 512, 1, 0, 0, 0, 0, null);
    expect(history.entry(1).frames).toEqual([]);
  });

  test.each([-1, 0.5, 1.5, Number.NaN])('a length of %d is refused', (maxEntries) => {
    expect(() => new MemoryHistory({ maxEntries })).toThrow(CudallocError);
  });
});

describe('what an allocator records', () => {
  function recorded(conf: string, work: (allocator: CachingAllocator) => void): unknown[][] {
    const allocator = new CachingAllocator({ device: open('sim', { capacity: 64 * MIB }), conf });
    allocator.recordMemoryHistory();
    work(allocator);
    const { history } = allocator;
    if (history === null) throw new Error('the history is off');
    return history
      .entries()
      .map(({ action, size, stream, segment, offset }) => [action, size, stream, segment, offset]);
  }

  test('a segment, an allocation, a free, a flush', () => {
    const entries = recorded('', (allocator) => {
      allocator.malloc(512);
      allocator.free(allocator.malloc(1000));
      allocator.emptyCache();
      allocator.free(allocator.malloc(3 * MIB));
      allocator.emptyCache();
    });
    expect(entries).toEqual([
      ['segment_alloc', 2 * MIB, 0, 0, 0],
      ['alloc', 512, 0, 0, 0],
      ['alloc', 1000, 0, 0, 512],
      ['free_requested', 1000, 0, 0, 512],
      ['free_completed', 1000, 0, 0, 512],
      ['segment_alloc', 20 * MIB, 0, 1, 0],
      ['alloc', 3 * MIB, 0, 1, 0],
      ['free_requested', 3 * MIB, 0, 1, 0],
      ['free_completed', 3 * MIB, 0, 1, 0],
      ['segment_free', 20 * MIB, 0, 1, 0],
    ]);
  });

  test('mapping and unmapping of expandable segments', () => {
    const entries = recorded('expandable_segments:True', (allocator) => {
      const address = allocator.malloc(30 * MIB);
      allocator.malloc(MIB + 1);
      allocator.free(address);
      allocator.emptyCache();
    });
    expect(entries).toEqual([
      ['segment_map', 40 * MIB, 0, 0, 0],
      ['alloc', 30 * MIB, 0, 0, 0],
      ['alloc', MIB + 1, 0, 0, 30 * MIB],
      ['free_requested', 30 * MIB, 0, 0, 0],
      ['free_completed', 30 * MIB, 0, 0, 0],
      ['segment_unmap', 20 * MIB, 0, 0, 0],
    ]);
  });

  test('a free that waits completes with the next allocation; an out of memory has the free bytes and the rounded request', () => {
    const entries = recorded('', (allocator) => {
      const stream = allocator.device.createStream();
      const address = allocator.malloc(20 * MIB);
      allocator.recordStream(address, stream);
      allocator.free(address);
      allocator.malloc(1);
      expect(() => allocator.malloc(100 * MIB + 1)).toThrow(OutOfMemoryError);
      const last = allocator.history?.entries().at(-1);
      expect(last).toMatchObject({ action: 'oom', address: 62 * MIB });
    });
    expect(entries.map(([action, size]) => [action, size])).toEqual([
      ['segment_alloc', 20 * MIB],
      ['alloc', 20 * MIB],
      ['free_requested', 20 * MIB],
      ['free_completed', 20 * MIB],
      ['segment_alloc', 2 * MIB],
      ['alloc', 1],
      ['segment_free', 20 * MIB],
      ['oom', 100 * MIB + 512],
    ]);
  });

  test('stacks name the caller and not this package; they stay with the block', () => {
    const allocator = new CachingAllocator({ device: open('sim') });
    allocator.recordMemoryHistory({ stacks: true });
    function callerOfMalloc(): number {
      return allocator.malloc(512);
    }
    const address = callerOfMalloc();
    const { segments, stacks } = allocator.memorySnapshot();
    const block = segments[0]?.blocks.find((other) => other.address === address);
    expect(stacks.frames(block?.stack ?? 0)[0]).toMatchObject({
      name: 'callerOfMalloc',
      filename: expect.stringContaining('history.test.ts'),
    });
    expect(allocator.history?.entry(1).frames[0]?.name).toBe('callerOfMalloc');
    allocator.free(address);
    expect(allocator.history?.entries().every((entry) => entry.frames.length > 0)).toBe(true);
    const { deviceTraces, stacks: all } = allocator.memorySnapshot();
    const entries = deviceTraces[0]?.entries(all) ?? [];
    expect(entries.every((entry) => entry.frames.length > 0)).toBe(true);
    expect(JSON.stringify(entries)).not.toMatch(/lib.allocator.heap/);
  });

  test('switching it on starts afresh, off drops it', () => {
    const allocator = new CachingAllocator({ device: open('sim') });
    expect(allocator.history).toBeNull();
    allocator.recordMemoryHistory({ maxEntries: 2 });
    allocator.free(allocator.malloc(512));
    const overflowed = allocator.memorySnapshot();
    expect(overflowed.traceOverflowed).toBe(true);
    expect(overflowed.deviceTraces[0]?.entries(overflowed.stacks).map(({ action }) => action)).toEqual([
      'free_requested',
      'free_completed',
    ]);
    allocator.recordMemoryHistory();
    expect(allocator.history?.total).toBe(0);
    allocator.recordMemoryHistory(null);
    expect(allocator.memorySnapshot()).toMatchObject({ traceOverflowed: false, deviceTraces: [{ length: 0 }] });
  });
});

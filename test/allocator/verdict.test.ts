// Why a request failed: each verdict from figures alone, and each provoked in a real allocator.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { type FailureFigures, judge } from '../../lib/allocator/verdict.js';
import { OutOfMemoryError } from '../../lib/errors.js';
import { MIB, open, thrownBy } from '../support/devices.js';

/** A card of 100 MiB of which nothing is used. All in MiB. */
function figures(changes: Partial<Record<keyof FailureFigures, number | boolean>>): FailureFigures {
  const base = {
    rounded: 30,
    free: 100,
    total: 100,
    limit: 100,
    allocated: 0,
    reserved: 0,
    pending: 0,
    stuck: 0,
    elsewhere: 0,
    largestFree: 0,
  };
  const merged: Record<string, number | boolean> = { ...base, ...changes };
  const bytes = Object.entries(merged).map(([key, value]) => [key, typeof value === 'number' ? value * MIB : value]);
  const scaled = Object.fromEntries(bytes) as Record<string, number>;
  return {
    expandableSegments: false,

    requested: scaled.rounded,
    wanted: scaled.rounded,
    ...scaled,
  } as unknown as FailureFigures;
}

describe('judge', () => {
  test.each([
    ['larger than the card', { rounded: 101 }, 'too_large', 1],
    ['larger than the fraction', { rounded: 60, limit: 50 }, 'too_large', 10],
    ['full', { allocated: 80, reserved: 90, free: 10 }, 'full', 10],
    ['full by the fraction', { allocated: 30, reserved: 30, free: 70, limit: 50 }, 'full', 10],
    ['by one page', { allocated: 70.5, reserved: 80, free: 20 }, 'full', 0.5],
    ['another process', { allocated: 20, reserved: 20, free: 20 }, 'other_process', 10],
    ['pending', { allocated: 50, reserved: 90, free: 10, pending: 40 }, 'pending', null],
    ['another stream', { allocated: 50, reserved: 90, free: 10, elsewhere: 40 }, 'other_stream', null],
    ['in pieces', { allocated: 50, reserved: 90, free: 10, stuck: 40, largestFree: 20 }, 'fragmented', null],
  ] as const)('%s', (_, changes, kind, shortBy) => {
    const verdict = judge(figures(changes));
    expect(verdict.kind).toBe(kind);
    expect(verdict.shortBy).toBe(shortBy === null ? null : shortBy * MIB);
    expect(verdict.sentence).toMatch(/\.$/);
    expect(verdict.advice).toBe(kind === 'fragmented' ? 'expandable_segments:True' : null);
  });

  test('T7: 11,292 of 11,296 MiB live is not fragmentation, and no setting is suggested', () => {
    const verdict = judge(
      figures({ rounded: 20, total: 11296, limit: 11296, free: 0, allocated: 11292, reserved: 11296, stuck: 4 }),
    );
    expect(verdict).toMatchObject({ kind: 'full', advice: null });
    expect(verdict.sentence).not.toContain('expandable_segments');
  });

  test('a refusal although there is room is not called fragmentation', () => {
    expect(judge(figures({}))).toMatchObject({ kind: 'unknown', advice: null });
  });

  test('never suggests what is on, never throws, and is short only where bytes are missing', () => {
    const amount = fc.integer({ min: 0, max: 200 });
    const keys = [
      'rounded',
      'free',
      'total',
      'limit',
      'allocated',
      'reserved',
      'pending',
      'stuck',
      'elsewhere',
      'largestFree',
    ] as const;
    const any = fc.record(
      Object.fromEntries(keys.map((key) => [key, amount])) as Record<(typeof keys)[number], typeof amount>,
    );
    fc.assert(
      fc.property(any, fc.boolean(), (numbers, expandableSegments) => {
        const verdict = judge(figures({ ...numbers, expandableSegments }));
        if (expandableSegments) expect(verdict.advice ?? '').not.toContain('expandable_segments');
        if (verdict.shortBy !== null) expect(verdict.shortBy).toBeGreaterThan(0);
        expect(verdict.sentence.length).toBeGreaterThan(20);
      }),
      { numRuns: 2000, seed: 3 },
    );
  });
});

describe('in a real allocator', () => {
  function make(conf: string, capacity = 100): CachingAllocator {
    return new CachingAllocator({ device: open('sim', { capacity: capacity * MIB }), conf });
  }

  function failure(allocator: CachingAllocator, mib: number): OutOfMemoryError {
    const error = thrownBy(() => allocator.malloc(mib * MIB));
    if (!(error instanceof OutOfMemoryError)) throw error;
    return error;
  }

  test('full', () => {
    const allocator = make('');
    allocator.malloc(80 * MIB);
    expect(failure(allocator, 30).verdict).toMatchObject({ kind: 'full', shortBy: 10 * MIB, advice: null });
  });

  test.each(['', 'expandable_segments:True'])('larger than the card (%s)', (conf) => {
    expect(failure(make(conf), 101).verdict).toMatchObject({ kind: 'too_large', shortBy: MIB, advice: null });
  });

  test('larger than the fraction allows', () => {
    const error = failure(make('per_process_memory_fraction:0.5'), 60);
    expect(error.verdict).toMatchObject({ kind: 'too_large', shortBy: 10 * MIB });
    expect(error.message).toContain('50.00 MiB');
  });

  test('another process holds it', () => {
    const allocator = make('');
    allocator.device.mock?.takeByOthers(80 * MIB);
    const { verdict } = failure(allocator, 30);
    expect(verdict).toMatchObject({ kind: 'other_process', shortBy: 10 * MIB });
    expect(verdict.sentence).toContain('80.00 MiB');
  });

  test('free on another stream', () => {
    const other = make('', 64);
    const side = other.device.createStream();
    const big = other.malloc(60 * MIB, side);
    other.free(big);
    other.malloc(2 * MIB, side);
    expect(failure(other, 30).verdict).toMatchObject({ kind: 'other_stream', advice: null });
  });

  test('in pieces: the setting that helps is named only while it is off', () => {
    const run = (): OutOfMemoryError => {
      const allocator = make('');
      // Two in each segment of 20 MiB, of which one goes.
      const blocks = Array.from({ length: 10 }, () => allocator.malloc(8 * MIB));
      for (let i = 1; i < 10; i += 2) allocator.free(blocks[i] as number);
      return failure(allocator, 16);
    };
    const error = run();
    expect(error.verdict).toMatchObject({ kind: 'fragmented', advice: 'expandable_segments:True' });
    expect(error.message).toContain('expandable_segments:True');
  });

  test('in pieces with expandable segments on', () => {
    const allocator = make('expandable_segments:True,large_segment_size_mb:2');
    const blocks = Array.from({ length: 50 }, () => allocator.malloc(2 * MIB));
    for (let i = 0; i < 50; i += 2) allocator.free(blocks[i] as number);
    for (let i = 0; i < 25; i++) allocator.malloc(MIB + 512);
    const { verdict } = failure(allocator, 20);
    expect(verdict).toMatchObject({ kind: 'fragmented', advice: null });
    expect(verdict.sentence).not.toContain('expandable_segments:True');
  });

  test('freed while another stream that uses it is being captured', () => {
    const allocator = make('per_process_memory_fraction:0.5');
    const { mock } = allocator.device;
    const stream = allocator.device.createStream();
    const address = allocator.malloc(40 * MIB);
    allocator.recordStream(address, stream);
    mock?.setCapturing(stream, true);
    allocator.free(address);
    const { verdict } = failure(allocator, 30);
    expect(verdict).toMatchObject({ kind: 'pending', shortBy: null, advice: null });
    expect(verdict.sentence).toContain('40.00 MiB');
    mock?.setCapturing(stream, false);
    allocator.malloc(30 * MIB);
  });

  test('the driver refuses although there is room', () => {
    const allocator = make('');
    allocator.device.mock?.failNth('cudaMalloc', 1);
    allocator.device.mock?.failNth('cudaMalloc', 2);
    const { verdict } = failure(allocator, 30);
    expect(verdict).toMatchObject({ kind: 'unknown', advice: null });
  });

  test.each(['default', 'paged'] as const)('%s: a page that does not fit into what is left is no riddle', (policy) => {
    const device = open('sim', { capacity: 55 * MIB });
    const conf = 'expandable_segments:True,expandable_segments_page_size:20971520';
    const allocator = new CachingAllocator({ device, policy, conf });
    allocator.malloc(40 * MIB);
    const error = thrownBy(() => allocator.malloc(12 * MIB)) as OutOfMemoryError;
    expect(error.verdict).toMatchObject({ kind: 'full', shortBy: 5 * MIB });
  });
});

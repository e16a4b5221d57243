// Why a recorded request failed, or would: each kind of answer from hand-made states, with numbers worked out by hand, and failures of our
// own allocator, whose error says the same.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { judgeSnapshot } from '../../../lib/analysis/report/snapshot-verdict.js';
import { SimDevice } from '../../../lib/device/sim.js';
import { OutOfMemoryError } from '../../../lib/errors.js';
import type { Snapshot } from '../../../lib/snapshot/model.js';
import { MIB } from '../../support/devices.js';
import { type Event, snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;
const live = (mib: number): readonly [number, number] => [mib * MIB, mib * MIB];
const free = (mib: number): readonly [number] => [mib * MIB];

/** 40 MiB: 10 live, 15 free, 5 live, 10 free; and 30 MiB without a live block. */
const state = [
  { address: A, blocks: [live(10), free(15), live(5), free(10)] },
  { address: A + 64 * MIB, blocks: [free(30)] },
];

describe('a request that is asked about', () => {
  const judge = (segments: Parameters<typeof snapshotOf>[0], options: Parameters<typeof judgeSnapshot>[1]) =>
    judgeSnapshot(snapshotOf(segments, []), options);

  test.each([
    ['a free block serves it', 15, 100, 'none', /a free block of 30.00 MiB serves it/],
    ['the device has room', 31, 102, 'none', /the device has room for a segment of 32.00 MiB/],
    ['after giving back what is cached', 60, 100, 'none', /once 30.00 MiB of cached memory are given back/],
    ['without a capacity, after giving back', 30, undefined, 'none', /a free block of 30/],
    ['without a capacity', 31, undefined, 'unknown', /does not say how large it is: give --capacity/],
    ['in pieces', 62, 100, 'fragmented', /in pieces between live blocks .the largest has 30/],
    ['full', 86, 100, 'full', /1024.00 KiB are missing/],
    ['larger than the card', 101, 100, 'too_large', /larger than what the device has/],
  ] as const)('%s', (_, mib, capacity, kind, sentence) => {
    const verdict = judge(state, {
      request: mib * MIB,
      ...(capacity !== undefined && { capacity: capacity * MIB }),
    });
    expect(verdict).toMatchObject({ kind, request: { rounded: mib * MIB, source: 'option', event: null } });
    expect(verdict.sentence).toMatch(sentence);
    expect(verdict.short_by).toBe(kind === 'full' || kind === 'too_large' ? MIB : null);
  });

  test('free memory of another stream is told apart', () => {
    const segments = [{ address: A, blocks: [live(10), free(80)], stream: 7 }];
    expect(judge(segments, { request: 80 * MIB, capacity: 100 * MIB, stream: 7 })).toMatchObject({ kind: 'none' });
    const verdict = judge(segments, { request: 80 * MIB, capacity: 100 * MIB });
    expect(verdict).toMatchObject({ kind: 'other_stream', short_by: null, request: { stream: 0 } });
  });

  test('what is short is what is allocated and the rounded request, less the capacity', () => {
    const verdict = judge([{ address: A, blocks: [live(90), free(10)] }], {
      request: 20 * MIB + 1,
      capacity: 100 * MIB,
    });
    expect(verdict).toMatchObject({ kind: 'full', short_by: 90 * MIB + 20 * MIB + 512 - 100 * MIB, advice: [] });
  });

  test('a file without a history says that settings cannot be tried', () => {
    const verdict = judge(state, { request: 62 * MIB, capacity: 100 * MIB });
    expect(verdict.advice).toEqual([]);
    expect(verdict.sentence).toMatch(/Settings cannot be tried: the file records no allocations/);
  });
});

test('without a request and without a failure in the file there is nothing to judge', () => {
  const verdict = judgeSnapshot(snapshotOf(state, []));
  expect(verdict).toMatchObject({ kind: 'none', request: null, short_by: null });
  expect(verdict.sentence).toMatch(/records no request that ran out of memory/);
});

test('the state is that of the failure, not of the end', () => {
  const later: Event[] = [
    ['oom', 5 * MIB, 40 * MIB],
    ['free_requested', A, 60 * MIB],
    ['free_completed', A, 60 * MIB],
  ];
  const verdict = judgeSnapshot(snapshotOf([{ address: A, blocks: [free(60)] }], later));
  expect(verdict).toMatchObject({
    kind: 'full',
    short_by: 35 * MIB,
    capacity: 65 * MIB,
    request: { bytes: 40 * MIB, source: 'event', event: 0 },
  });
});

test('what the device has beyond the allocator and its free bytes is held by others', () => {
  const snapshot = snapshotOf([{ address: A, blocks: [live(20)] }], [['oom', 10 * MIB, 25 * MIB]]);
  expect(judgeSnapshot(snapshot)).toMatchObject({ kind: 'full', short_by: 15 * MIB });
  // A segment of 26 MiB would be asked for.
  expect(judgeSnapshot(snapshot, { capacity: 100 * MIB })).toMatchObject({ kind: 'other_process', short_by: 16 * MIB });
});

describe('failures of our own allocator', () => {
  /** Runs until the program fails; the snapshot is taken after it has freed everything, as most programs would. */
  function fail(
    capacity: number,
    program: (allocator: CachingAllocator, keep: (mib: number) => number) => void,
  ): [Snapshot, OutOfMemoryError] {
    const device = new SimDevice({ capacity: capacity * MIB });
    const allocator = new CachingAllocator({ device, conf: '', policy: 'pytorch' });
    allocator.recordMemoryHistory();
    const kept = new Set<number>();
    const keep = (mib: number): number => {
      const address = allocator.malloc(mib * MIB);
      kept.add(address);
      return address;
    };
    try {
      program(allocator, keep);
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
      for (const address of kept) allocator.free(address);
      return [allocator.memorySnapshot(), error];
    }
    throw new Error('nothing failed');
  }

  test('fragmented: the settings that would have served it, by replay', () => {
    const [snapshot, error] = fail(1000, (allocator, keep) => {
      const large = Array.from({ length: 9 }, () => allocator.malloc(100 * MIB));
      for (const address of large) allocator.free(address);
      const batches = Array.from({ length: 9 }, () => {
        const batch = allocator.malloc(70 * MIB);
        keep(30);
        return batch;
      });
      for (const address of batches) allocator.free(address);
      allocator.malloc(400 * MIB);
    });
    expect(error.verdict.kind).toBe('fragmented');
    const verdict = judgeSnapshot(snapshot);
    expect(verdict.kind).toBe('fragmented');
    expect(verdict.advice.length).toBeGreaterThan(0);
    for (const { survives, fidelity, predicted_peak } of verdict.advice) {
      expect(survives).toBe(true);
      expect(fidelity?.exact).toBe(fidelity?.allocations);
      expect(predicted_peak).toBeLessThanOrEqual(1000 * MIB);
    }
    expect(verdict.advice.map(({ conf }) => conf)).toContain('expandable_segments:True');
    expect(verdict.sentence).toMatch(/It would have been served with/);
  });

  test('full: no setting is named', () => {
    const [snapshot, error] = fail(100, (allocator, keep) => {
      keep(40);
      keep(50);
      allocator.malloc(30 * MIB);
    });
    expect(error.verdict).toMatchObject({ kind: 'full', shortBy: 20 * MIB });
    const verdict = judgeSnapshot(snapshot);
    expect(verdict).toMatchObject({ kind: 'full', short_by: 20 * MIB, advice: [], capacity: 100 * MIB });
    expect(verdict.sentence).not.toMatch(/expandable|max_split/);
  });
});

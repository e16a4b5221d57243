// The report as a whole: its moments, its lists, and those of several files.

import { describe, expect, test } from 'vitest';
import { analyze, mergeReports } from '../../../lib/analysis/report/report.js';
import { MIB } from '../../support/devices.js';
import { SEED } from '../../support/programs.js';
import { record, snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;
const live = (mib: number): readonly [number, number] => [mib * MIB, mib * MIB];
const free = (mib: number): readonly [number] => [mib * MIB];

describe('the whole report', () => {
  test('at an event, at the peak, at an out of memory', () => {
    const { snapshot } = record({
      seed: SEED,
      conf: '',
      capacity: 300 * MIB,
      late: false,
      ring: Number.POSITIVE_INFINITY,
      events: false,
      stacks: true,
    });
    const sum = (at: 'end' | 'peak' | 'oom' | number): number =>
      analyze(snapshot, { at, advise: false }).holders.reduce((total, { bytes }) => total + bytes, 0);
    const report = analyze(snapshot, { advise: false });
    const [device] = report.devices;
    expect(device?.out_of_memories).toBeGreaterThan(0);
    expect(sum('end')).toBe(device?.allocated);
    expect(sum('peak')).toBe(device?.peak?.allocated);
    expect(sum(device?.peak?.event as number)).toBe(device?.peak?.allocated);
    expect(analyze(snapshot, { at: 'oom', advise: false }).at).toMatchObject({
      moment: 'oom',
      event: expect.any(Number),
    });
    expect(() => analyze(snapshot, { at: 1e9 })).toThrow(RangeError);
    expect(() => analyze(snapshotOf([], []), { at: 'oom' })).toThrow(/no out of memory/);
  });

  test('cuts its lists only when asked to', () => {
    const blocks = [live(2), free(4), live(2)];
    const segments = [0, 1, 2].map((i) => ({ address: A + i * 64 * MIB, blocks }));
    const snapshot = snapshotOf(segments, []);
    const whole = analyze(snapshot);
    expect(whole.pinning).toHaveLength(3);
    expect(analyze(snapshot, { top: 2 }).pinning).toEqual(whole.pinning.slice(0, 2));
  });

  test('of nothing at all is empty', () => {
    expect(analyze(snapshotOf([], []))).toMatchObject({
      devices: [],
      pinning: [],
      holders: [],
      verdict: { kind: 'none' },
    });
  });

  test('of several ranks: the worst first, with its verdict', () => {
    const steady = analyze(snapshotOf([{ address: A, blocks: [live(30), free(2)] }], []), { file: 'rank0' });
    const wasteful = analyze(snapshotOf([{ address: A, blocks: [live(2), free(90)] }], []), { file: 'rank1' });
    const failed = analyze(snapshotOf([{ address: A, blocks: [live(60), free(4)] }], [['oom', MIB, 40 * MIB]]), {
      file: 'rank2',
    });
    const merged = mergeReports([steady, wasteful, failed]);
    expect(merged.files).toEqual(['rank2', 'rank1', 'rank0']);
    expect(merged.devices.map(({ file }) => file)).toEqual(['rank2', 'rank1', 'rank0']);
    expect(merged.verdict).toMatchObject({ kind: 'full', file: 'rank2' });
    expect(merged.pinning.map(({ file, pinned_bytes: bytes }) => [file, bytes / MIB])).toEqual([
      ['rank1', 90],
      ['rank2', 4],
      ['rank0', 2],
    ]);
    expect(mergeReports([steady])).toBe(steady);
  });
});

// Who holds what: the sums are those of the report and of `diff`, at any moment and between any two.

import { describe, expect, test } from 'vitest';
import { diffSnapshots } from '../../../lib/analysis/report/diff.js';
import type { ReportFrame } from '../../../lib/analysis/report/format.js';
import { analyze } from '../../../lib/analysis/report/report.js';
import { formatCallSite, namingFrame } from '../../../lib/snapshot/call-site.js';
import { readSnapshot } from '../../../lib/snapshot/files.js';
import type { Snapshot } from '../../../lib/snapshot/model.js';
import { deviceHistory } from '../../../lib/viewer/device-history.js';
import { rowsPassing } from '../../../lib/viewer/filter.js';
import { noStackWords, siteRows, stackSums } from '../../../lib/viewer/holders/holders.js';
import { programs } from '../../support/programs.js';
import { SHARED_SNAPSHOTS } from '../../support/shared-snapshots.js';
import { smallHistory } from '../../support/small-history.js';

function siteKey(frames: readonly ReportFrame[]): string {
  const frame = namingFrame(frames);
  return frame === null ? '' : `${frame.filename}\0${formatCallSite(frame)}`;
}

function expectHolders(snapshot: Snapshot, name: string): void {
  const history = deviceHistory(snapshot, 0);
  for (const at of ['end', 'peak'] as const) {
    if (at === 'peak' && history.events < 2) continue;
    const moment = at === 'end' ? history.events - 1 : history.peak;
    const holders = analyze(snapshot, { advise: false, at }).holders.filter(({ device }) => device === 0);
    const wanted = new Map<string, readonly [number, number]>();
    for (const { frames, bytes, count } of holders) {
      const key = siteKey(frames);
      const [b, c] = wanted.get(key) ?? [0, 0];
      wanted.set(key, [b + bytes, c + count]);
    }
    const sums = stackSums(history, moment, null);
    const rows = siteRows({ history, sums }, null);
    expect(new Map(rows.map(({ key, bytes, count }) => [key, [bytes, count]])), `${name} ${at}`).toEqual(wanted);
    expect(sums.totalBytes).toBe(history.lifetimes.allocated[moment + 1]);
    for (const row of rows) expect(row.stacks.reduce((all, { bytes }) => all + bytes, 0)).toBe(row.bytes);
  }
}

test('by call site are those of `analyze`', () => {
  for (const { name, snapshot } of programs(10)) expectHolders(snapshot, name);
});

test.each(SHARED_SNAPSHOTS)('of the real $name too', ({ name, path }) => {
  expectHolders(readSnapshot(path), name);
});

describe('a comparison', () => {
  test('of two files is that of `diff`', () => {
    const [a, b] = [programs(1)[0]!.snapshot, programs(3)[2]!.snapshot];
    for (const at of ['end', 'peak'] as const) {
      const changes = new Map<string, number>();
      for (const { frames, bytes } of diffSnapshots(a, b, at).sites) {
        const key = siteKey(frames);
        changes.set(key, (changes.get(key) ?? 0) + bytes);
      }
      const side = (snapshot: Snapshot) => {
        const history = deviceHistory(snapshot, 0);
        return { history, sums: stackSums(history, at === 'end' ? history.events - 1 : history.peak, null) };
      };
      const rows = siteRows(side(b), side(a));
      for (const { key, bytes, bytesA } of rows) expect(bytes - bytesA, key).toBe(changes.get(key) ?? 0);
      expect([...changes.keys()].every((key) => rows.some((row) => row.key === key))).toBe(true);
    }
  });

  test('of two moments shows what is gone as well', () => {
    const { snapshot } = programs(1)[0]!;
    const history = deviceHistory(snapshot, 0);
    const at = (moment: number) => ({ history, sums: stackSums(history, moment, null) });
    const rows = siteRows(at(-1), at(history.peak));
    expect(rows.reduce((sum, { bytesA }) => sum + bytesA, 0)).toBe(history.lifetimes.allocated[history.peak + 1]);
    expect(rows.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(history.lifetimes.allocated[0]);
  });
});

test('a filter counts only what passes', () => {
  const { snapshot } = programs(2)[1]!;
  const history = deviceHistory(snapshot, 0);
  const stream = history.lifetimes.blocks.streams[0]!;
  const passing = rowsPassing(history, { search: '', stream, pool: null });
  const only = stackSums(history, history.peak, passing);
  const all = stackSums(history, history.peak, null);
  expect(only.totalBytes).toBeLessThan(all.totalBytes);
  expect(only.totalBytes).toBeGreaterThan(0);
});

test('the largest block is one of the row, and no other is larger', () => {
  const history = deviceHistory(programs(1)[0]!.snapshot, 0);
  const { blocks } = history.lifetimes;
  const sums = stackSums(history, history.peak, null);
  const sizes = new Map<number, number[]>();
  for (let row = 0; row < blocks.length; row++) {
    if (blocks.starts[row]! > history.peak || blocks.freed[row]! <= history.peak) continue;
    sizes.set(blocks.stacks[row]!, [...(sizes.get(blocks.stacks[row]!) ?? []), blocks.sizes[row]!]);
  }
  expect(sizes.size).toBeGreaterThan(0);
  for (const [stack, all] of sizes) expect(sums.largest[stack]).toBe(Math.max(...all));
});

describe('blocks without a stack say why, as the report does', () => {
  const reasons = (snapshot: Snapshot) => {
    const { holders } = analyze(snapshot, { advise: false });
    return new Set(holders.filter(({ frames }) => frames.length === 0).map((holder) => holder.no_stack));
  };
  const words = (snapshot: Snapshot): string => {
    const history = deviceHistory(snapshot, 0);
    return noStackWords({ sums: stackSums(history, history.events - 1, null), history });
  };
  const wanted = (snapshot: Snapshot): string => {
    const found = reasons(snapshot);
    if (found.size === 0) return 'no stack';
    if (found.size === 2) return 'no stack: in part from before the recording';
    return found.has('before_recording') ? 'no stack: allocated before the recording' : 'no stack: none was recorded';
  };

  test('in recordings of all kinds', () => {
    const found = new Set<string>();
    for (const { name, snapshot } of programs(20)) {
      expect(words(snapshot), name).toBe(wanted(snapshot));
      found.add(words(snapshot));
    }
    expect(found.size).toBeGreaterThan(1);
    expect(words(smallHistory().snapshot)).toBe('no stack');
  });

  test.each(SHARED_SNAPSHOTS)('in the real $name', ({ path }) => {
    const snapshot = readSnapshot(path);
    expect(words(snapshot)).toBe(wanted(snapshot));
  });
});

// Filters and their sums: by stack, stream and pool, and all together.

import { describe, expect, test } from 'vitest';
import { holdersOf } from '../../lib/analysis/report/holders.js';
import { liveBlocks } from '../../lib/analysis/report/live-blocks.js';
import { MIB } from '../../lib/units.js';
import { deviceHistory } from '../../lib/viewer/device-history.js';
import { allocatedAfter, poolOfBlock, rowsPassing, stacksWith } from '../../lib/viewer/filter.js';
import { programs } from '../support/programs.js';
import { smallHistory } from '../support/small-history.js';

const ALL = { search: '', stream: null, pool: null };

describe('a search', () => {
  const history = smallHistory();

  test('finds names, files and lines, whatever their case', () => {
    const { stacks } = history.snapshot;
    const count = (text: string): number => stacksWith(stacks, text).reduce((sum, found) => sum + found, 0);
    expect(count('FORWARD')).toBe(1);
    expect(count('small-history.ts')).toBeGreaterThan(3);
    expect(count('no such function')).toBe(0);
    const frame = stacks.frames(history.lifetimes.blocks.stacks[0]!)[0]!;
    expect(count(`:${frame.line}`)).toBeGreaterThan(0);
    // With a blank it is that line and no longer number.
    expect(count(`:${frame.line} `)).toBeGreaterThan(0);
    expect(count(`:${String(frame.line).slice(0, -1)} `)).toBe(0);
  });

  test('lets only those blocks pass', () => {
    const passing = rowsPassing(history, { ...ALL, search: 'onStream' })!;
    expect([...passing]).toEqual([0, 1, 0]);
    expect(allocatedAfter(history, history.events - 1, passing)).toEqual({ bytes: 12 * MIB, count: 1 });
    expect(allocatedAfter(history, -1, passing)).toEqual({ bytes: 0, count: 0 });
  });

  test('for nothing lets everything pass', () => {
    expect(rowsPassing(history, ALL)).toBeNull();
  });
});

test('streams and pools', () => {
  const history = smallHistory();
  const [, other] = history.lifetimes.blocks.streams;
  expect([...rowsPassing(history, { ...ALL, stream: other! })!]).toEqual([0, 1, 0]);
  expect(poolOfBlock(history, 0)).toBe('large');
  expect(poolOfBlock(history, 2)).toMatch(/^small of pool \d+, \d+$/);
  expect([...rowsPassing(history, { ...ALL, pool: poolOfBlock(history, 2) })!]).toEqual([0, 0, 1]);
  expect([...rowsPassing(history, { search: 'forward', stream: other!, pool: null })!]).toEqual([0, 0, 0]);
});

test('the sums of all blocks, and of any search, are those of the holders', () => {
  for (const { name, snapshot } of programs(12)) {
    const history = deviceHistory(snapshot, 0);
    for (const event of [0, history.peak, history.events - 1].filter((moment) => moment >= 0)) {
      const holders = holdersOf(snapshot, 0, liveBlocks(snapshot, 0, event));
      const sum = (text: string) => {
        const matching = holders.filter(
          ({ frames }) => text === '' || frames.some((frame) => `${frame.name} ${frame.filename}`.includes(text)),
        );
        return {
          bytes: matching.reduce((all, { bytes }) => all + bytes, 0),
          count: matching.reduce((all, { count }) => all + count, 0),
        };
      };
      const conf = history.lifetimes.allocated[event + 1];
      expect(allocatedAfter(history, event, null).bytes, name).toBe(conf);
      const passing = rowsPassing(history, { ...ALL, search: 'serve' });
      expect(allocatedAfter(history, event, passing).count, name).toBe(sum('serve').count);
    }
  }
});

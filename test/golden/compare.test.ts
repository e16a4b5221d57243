// The comparer itself: a golden test is worth what its comparer notices.

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { replay } from '../../lib/analysis/replay/replay.js';
import { SimDevice } from '../../lib/device/sim.js';
import { compareReplay } from '../support/compare-replay.js';
import { type GoldenCase, goldenCases, readCaseTrace, readExpected } from '../support/golden-cases.js';
import { REPOSITORY } from '../support/shared-data.js';

type Tree = Record<string, unknown>;

const cases = goldenCases(join(REPOSITORY, 'test/golden/data'));

function named(name: string): GoldenCase {
  const found = cases.find((golden) => golden.name === name);
  if (found === undefined) throw new Error(`no case ${name}`);
  return found;
}

function reportOf(golden: GoldenCase) {
  const device = new SimDevice({ capacity: golden.meta.capacity });
  return replay(readCaseTrace(golden), { device, conf: golden.meta.config }).report;
}

/** Visits every leaf of a golden file with it changed, then puts it back. */
function eachChange(tree: Tree, path: string, visit: (path: string) => void): void {
  for (const [key, value] of Object.entries(tree)) {
    const here = path === '' ? key : `${path}.${key}`;
    if (typeof value === 'object' && value !== null) {
      eachChange(value as Tree, here, visit);
      continue;
    }
    tree[key] = typeof value === 'number' ? value + 1 : typeof value === 'boolean' ? !value : `${String(value)}!`;
    visit(here);
    tree[key] = value;
  }
}

describe('every single change in a golden file is noticed', () => {
  const names = [
    'base-allocation',
    'cache-info',
    'exp-oom-partial-pages',
    'oom-waits-for-events',
    'stats-inactive-split',
  ];

  it.each(names)('%s', (name) => {
    const golden = named(`rules/${name}`);
    const report = reportOf(golden);
    const expected = readExpected(golden);
    const missed: string[] = [];
    let changes = 0;
    eachChange(expected as unknown as Tree, '', (path) => {
      changes++;
      if (compareReplay(expected, report, golden.meta) === null) missed.push(path);
    });
    expect(changes).toBeGreaterThan(100);
    // Says only how complete the golden file is; a report is always complete.
    expect(missed).toEqual(['trace_complete']);
    expect(compareReplay(expected, report, golden.meta)).toBeNull();
  });
});

describe('what depends on an unspecified order', () => {
  const golden = named('fuzz/fuzz-8');
  const report = reportOf(golden);
  const expected = readExpected(golden);
  const parts = golden.meta.order_sensitive_parts ?? [];
  const ordered = { ...golden.meta, order_sensitive_parts: parts.filter((part) => !part.startsWith('trace order')) };

  function swapped(): typeof report {
    const trace = [...report.trace];
    const at = trace.findIndex(
      (event, i) =>
        trace[i + 1]?.[0] === event[0] && JSON.stringify(trace[i + 1]?.slice(1)) !== JSON.stringify(event.slice(1)),
    );
    [trace[at], trace[at + 1]] = [trace[at + 1] as (typeof trace)[0], trace[at] as (typeof trace)[0]];
    return { ...report, trace };
  }

  it('is declared for this case', () => {
    expect(golden.meta.order_sensitive).toBe(true);
    expect(parts).toContain('trace order within one op');
    expect(parts).toContain('stats.inactive_split');
  });

  it('may come in any order within an operation, where that is declared', () => {
    expect(compareReplay(expected, swapped(), golden.meta)).toBeNull();
    expect(compareReplay(expected, swapped(), ordered)).toMatch(/^trace/);
  });

  it('may not move to another operation', () => {
    const [op, ...rest] = report.trace[3] as (typeof report.trace)[0];
    const trace = report.trace.with(3, [op + 1, ...rest]);
    expect(compareReplay(expected, { ...report, trace }, golden.meta)).toMatch(/^trace/);
  });

  it('may differ in the history numbers that are named, not in the current ones', () => {
    const change = (name: 'peak' | 'allocated' | 'current') => {
      const all = { ...report.stats.inactive_split.all, [name]: 12345 };
      const stats = { ...report.stats, inactive_split: { ...report.stats.inactive_split, all } };
      return compareReplay(expected, { ...report, stats }, golden.meta);
    };
    expect(change('peak')).toBeNull();
    expect(change('allocated')).toBeNull();
    expect(change('current')).toMatch(/^stats\.inactive_split\.all\.current/);
  });

  it('is nothing where the case declares none', () => {
    expect(compareReplay(expected, report, { ...golden.meta, order_sensitive: false })).toMatch(/inactive_split|trace/);
  });

  it('has to be of a known kind', () => {
    expect(() => compareReplay(expected, report, { ...golden.meta, order_sensitive_parts: ['segments'] })).toThrow(
      /unknown/,
    );
  });
});

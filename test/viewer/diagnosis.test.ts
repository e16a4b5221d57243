// What the diagnosis says, and its parts: they add up, and searches find the call sites that they name.

import { describe, expect, test } from 'vitest';
import { analyze } from '../../lib/analysis/report/report.js';
import { formatSize } from '../../lib/units.js';
import { memoryParts } from '../../lib/viewer/diagnosis/memory-parts.js';
import { siteName, siteSearch, sumBySite } from '../../lib/viewer/diagnosis/sites.js';
import { gapSentence, verdictSentence, verdictTitle } from '../../lib/viewer/diagnosis/words.js';
import { stacksWith } from '../../lib/viewer/filter.js';
import { programs } from '../support/programs.js';
import { smallSnapshot } from '../support/small-history.js';

const reports = programs(20).map(({ name, snapshot }) => ({
  name,
  snapshot,
  report: analyze(snapshot, { advise: false }),
}));

test('the parts of the memory add up to what is reserved, and to the device', () => {
  for (const { name, report } of reports) {
    const device = report.devices[0]!;
    const sum = (capacity: number | null) =>
      memoryParts(device, capacity).reduce((total, { bytes }) => total + bytes, 0);
    expect(sum(null), name).toBe(device.reserved);
    expect(sum(device.reserved + 12345), name).toBe(device.reserved + 12345);
  }
});

describe('call sites', () => {
  test('are summed by where they are, without losing a byte', () => {
    for (const { name, report } of reports) {
      const sums = sumBySite(report.holders, (sum, row) => ({ ...sum, bytes: sum.bytes + row.bytes }));
      const total = (rows: readonly { readonly bytes: number }[]) => rows.reduce((bytes, row) => bytes + row.bytes, 0);
      expect(total(sums.map(({ sum }) => sum)), name).toBe(total(report.holders));
      const searches = sums.flatMap(({ search }) => search ?? []);
      expect(new Set(searches).size, name).toBe(searches.length);
    }
  });

  test('are found by the search that stands for them', () => {
    const snapshot = smallSnapshot();
    const { holders } = analyze(snapshot, { advise: false });
    for (const { frames } of holders) {
      const found = stacksWith(snapshot.stacks, siteSearch(frames)!);
      const wanted = Array.from({ length: snapshot.stacks.size }, (_, stack) => stack).filter((stack) =>
        snapshot.stacks
          .frames(stack)
          .some(({ line }) => line === BigInt(frames[0]!.line) || Number(line) === frames[0]!.line),
      );
      expect([...found.keys()].filter((stack) => found[stack] === 1)).toEqual(wanted);
    }
    expect(holders.map(({ frames }) => siteName(frames))).toEqual(
      expect.arrayContaining([expect.stringMatching(/^onStream \(small-history\.ts:\d+\)$/)]),
    );
  });

  test('without a stack say why, and cannot be searched for', () => {
    expect(siteName([], 'before_recording')).toBe('no stack (before recording)');
    expect(siteSearch([])).toBeNull();
  });
});

describe('words', () => {
  const figures = analyze(smallSnapshot(), { advise: false }).devices[0]!;

  test('the title names the cause; where nothing failed the sentence is about what is held', () => {
    const { verdict } = analyze(smallSnapshot(), { advise: false });
    expect(verdict.kind).not.toBe('none');
    expect(verdictTitle(verdict)).toMatch(/^Out of memory/);
    expect(verdictSentence(verdict, figures)).toBe(verdict.sentence);
    const calm = { kind: 'none', request: null, sentence: 'give the text of the error (--message)' } as const;
    expect(verdictTitle(calm)).toBe('No out of memory is recorded');
    expect(verdictSentence(calm, figures)).toBe(gapSentence(figures));
    expect(verdictTitle({ kind: 'none', request: verdict.request })).toBe('The request would succeed');
  });

  test('the sentence on the gap names its largest part', () => {
    for (const { name, report } of reports) {
      const device = report.devices[0]!;
      const gap = device.reserved - device.allocated;
      if (gap === 0) continue;
      const largest = Math.max(...Object.values(device.gap));
      expect(gapSentence(device), name).toContain(`the gap of ${formatSize(gap)} is`);
      expect(gapSentence(device), name).toContain(largest === gap ? 'All of' : formatSize(largest));
    }
  });

  test('where there is no gap, or nothing at all, it says that', () => {
    const none = { pending: 0, other_stream: 0, wholly_free: 0, stuck: 0 };
    expect(gapSentence({ ...figures, reserved: 0, allocated: 0, gap: none })).toBe('At the end nothing is reserved.');
    expect(gapSentence({ ...figures, reserved: 2048, allocated: 2048, gap: none })).toBe(
      'At the end 2.00 KiB are allocated of 2.00 KiB reserved.',
    );
  });
});

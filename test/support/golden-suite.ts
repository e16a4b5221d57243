// One test for each golden case: the case's trace is replayed on a device and its report compared with the golden file. How many
// were equal is printed at the end.

import { afterAll, describe, expect, it } from 'vitest';
import { replay } from '../../lib/analysis/replay/replay.js';
import type { Device } from '../../lib/device/types.js';
import { compareReplay } from './compare-replay.js';
import { type GoldenCase, goldenCases, readCaseTrace, readExpected } from './golden-cases.js';
import { sharedData } from './shared-data.js';

export interface GoldenSuite {
  readonly cases: readonly GoldenCase[];
  readonly open: (capacity: number) => Device;
  /** Fill every block with bytes of its own and compare them. */
  readonly checkData: boolean;
}

export function goldenSuite(name: string, { cases, open, checkData }: GoldenSuite): void {
  describe(name, () => {
    let equal = 0;
    afterAll(() => console.log(`${name}: ${equal} of ${cases.length} golden cases equal`));

    it.each(cases.map((golden) => [golden.name, golden] as const))('%s', (_, golden) => {
      const device = open(golden.meta.capacity);
      try {
        const { report } = replay(readCaseTrace(golden), { device, conf: golden.meta.config, checkData });
        expect(compareReplay(readExpected(golden), report, golden.meta)).toBeNull();
        if (checkData) expectDataChecked(report.data_checks, report.trace_counts.alloc);
        equal++;
      } finally {
        device.close();
      }
    });
  });
}

function expectDataChecked(checks: ReturnType<typeof replay>['report']['data_checks'], blocks: number): void {
  expect(checks?.mismatches).toEqual([]);
  expect(checks?.mismatches_total).toBe(0);
  // Each block once: when it is freed, or at the end.
  expect(checks?.blocks).toBe(blocks);
}

const SHARED_FOLDERS = ['golden/pytorch', 'traces/gpu'];

/** A suite over the shared cases that `select` takes; skipped by name, folder by folder, where they are missing. */
export function sharedGoldenSuite(
  name: string,
  select: (golden: GoldenCase) => boolean,
  suite: Omit<GoldenSuite, 'cases'>,
): void {
  for (const folder of SHARED_FOLDERS) {
    const root = sharedData(folder);
    const title = `${name}, shared/${folder}`;
    if (root === null) describe(title, () => it.skip('is missing', () => {}));
    else goldenSuite(title, { ...suite, cases: goldenCases(root).filter(select) });
  }
}

// The golden traces under the policy `paged`, on the CPU mock and on the smallest device that a case has: every block carries bytes of its own from
// its allocation to its end, whatever pages are moved meanwhile. There are no golden decisions to compare with: the policy is ours.

import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { replay } from '../../lib/analysis/replay/replay.js';
import { openDevice } from '../../lib/device/open.js';
import { type GoldenCase, goldenCases, isCopied, readCaseTrace } from '../support/golden-cases.js';
import { REPOSITORY, sharedData } from '../support/shared-data.js';

/** Of each trace the case with the smallest device. */
function tightest(cases: readonly GoldenCase[]): GoldenCase[] {
  const byTrace = new Map<string, GoldenCase>();
  for (const golden of cases) {
    const other = byTrace.get(golden.tracePath);
    if (other === undefined || golden.meta.capacity < other.meta.capacity) byTrace.set(golden.tracePath, golden);
  }
  return [...byTrace.values()];
}

function pagedSuite(title: string, cases: readonly GoldenCase[]): void {
  describe(title, () => {
    const calls = { traces: 0, blocks: 0, cuMemMap: 0, cuMemCreate: 0, outOfMemories: 0 };
    afterAll(() => console.log(`${title}: ${JSON.stringify(calls)}`));

    it.each(cases.map((golden) => [golden.name, golden] as const))('%s', (_, golden) => {
      const device = openDevice({ backend: 'mock', capacity: golden.meta.capacity });
      try {
        const { report } = replay(readCaseTrace(golden), { device, conf: '', policy: 'paged', checkData: true });
        expect(report.data_checks?.mismatches).toEqual([]);
        expect(report.data_checks?.mismatches_total).toBe(0);
        expect(report.data_checks?.blocks).toBe(report.trace_counts.alloc);
        const made = device.driverCalls();
        calls.traces++;
        calls.blocks += report.data_checks?.blocks ?? 0;
        calls.cuMemMap += made.cuMemMap ?? 0;
        calls.cuMemCreate += made.cuMemCreate ?? 0;
        calls.outOfMemories += report.errors.filter(({ kind }) => kind === 'oom').length;
        // Nothing but pages, and none that was made and lost.
        expect(made.cudaMalloc).toBe(0);
      } finally {
        device.close();
      }
    });

    it('pages were moved: there were more mappings than pages', () => {
      expect(calls.cuMemMap).toBeGreaterThan(calls.cuMemCreate);
    });
  });
}

/** The rules are about decisions, of which these are not. The fuzz cases differ in nothing but their seeds: a part of them does. */
function ownCases(): GoldenCase[] {
  const [workloads = [], fuzz = []] = ['workloads', 'fuzz'].map((folder) =>
    tightest(goldenCases(join(REPOSITORY, 'test/golden/data', folder))),
  );
  return [...workloads, ...fuzz.filter((_, i) => i % 8 === 0)];
}

pagedSuite('paged, own traces', ownCases());

/** Those of 200,000 operations take minutes, and show no more than their beginnings of 20,000 do. */
function isNew(golden: GoldenCase): boolean {
  return !isCopied(golden) && golden.meta.ops <= 100_000 && !/^(rules|fuzz)\//.test(golden.name);
}

for (const folder of ['golden/pytorch', 'traces/gpu']) {
  const root = sharedData(folder);
  const title = `paged, shared/${folder}`;
  if (root === null) describe(title, () => it.skip('is missing', () => {}));
  else pagedSuite(title, tightest(goldenCases(root)).filter(isNew));
}

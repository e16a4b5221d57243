// Random operations under the policy `paged`, on devices that are too small for them. CUDALLOC_SEED repeats a run, CUDALLOC_RUNS changes how many there are.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Coverage } from '../support/coverage.js';
import { MIB, open } from '../support/devices.js';
import { PagedRig, pagedOperation } from '../support/paged-rig.js';

const SEED = Number(process.env.CUDALLOC_SEED ?? 20261201);
const FACTOR = Number(process.env.CUDALLOC_RUNS ?? 1);

const scenario = fc.record({
  capacity: fc.integer({ min: 40, max: 150 }).map((n) => 2 * n * MIB),
  conf: fc.constantFrom('', '', `expandable_segments_page_size:${2 * MIB}`, 'per_process_memory_fraction:0.8'),
  operations: fc.array(pagedOperation, { minLength: 40, maxLength: 160, size: 'max' }),
});

describe('random operations under the policy paged', () => {
  test.each([
    { backend: 'sim', runs: 250 },
    { backend: 'mock', runs: 60 },
  ] as const)('$backend', ({ backend, runs }) => {
    const coverage = new Coverage();
    const numRuns = Math.max(1, Math.round(runs * FACTOR));
    const property = fc.property(scenario, ({ capacity, conf, operations }) => {
      const device = open(backend, { capacity });
      const rig = new PagedRig(device, coverage, conf);
      for (const operation of operations) rig.run(operation);
      const stats = rig.allocator.memoryStats();
      coverage.add('retries', stats.num_alloc_retries ?? 0);
      rig.finish();
      device.close();
    });
    fc.assert(property, { seed: SEED, numRuns, endOnFailure: true });
    console.log(`${backend}: seed ${SEED}, ${numRuns} runs: ${coverage}`);
    for (const what of ['out of memory', 'pages at several addresses', 'retries', 'errors of failing operations']) {
      expect(coverage.counts[what], what).toBeGreaterThan(0);
    }
  });
});

// Random operations over all settings, policies, streams, pools and devices; after each one everything that must hold is checked.
// CUDALLOC_SEED repeats a run, CUDALLOC_RUNS changes how many there are.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openDevice } from '../../lib/device/open.js';
import { Coverage } from '../support/coverage.js';
import { Rig } from '../support/rig.js';
import { type Scenario, scenarios } from '../support/workload.js';

const SEED = Number(process.env.CUDALLOC_SEED ?? 20261130);
const FACTOR = Number(process.env.CUDALLOC_RUNS ?? 1);

function run(backend: 'sim' | 'mock', devices: number, scenario: Scenario, coverage: Coverage): void {
  const { capacity } = scenario;
  const opened = Array.from({ length: devices }, (_, index) =>
    openDevice({ backend, capacity, ...(backend === 'sim' ? { index } : {}) }),
  );
  try {
    const rigs = opened.map((device, i) => {
      const foreignStream = opened[(i + 1) % devices]?.defaultStream;
      const foreign = devices > 1 && foreignStream !== undefined ? { foreignStream } : {};
      return new Rig(device, scenario, { coverage, stamps: backend === 'mock', ...foreign });
    });
    for (const [at, operation] of scenario.operations) rigs[at]?.run(operation);
    for (const rig of rigs) {
      const stats = rig.allocator.memoryStats();
      for (const key of ['num_alloc_retries', 'num_device_alloc', 'num_device_free'])
        coverage.add(key, stats[key] ?? 0);
      rig.finish();
    }
  } finally {
    for (const device of opened) device.close();
  }
}

describe('random operations hold the invariants', () => {
  test.each([
    { backend: 'sim', devices: 1, runs: 240, length: 240 },
    { backend: 'sim', devices: 2, runs: 50, length: 240 },
    { backend: 'mock', devices: 1, runs: 90, length: 160 },
    { backend: 'mock', devices: 2, runs: 20, length: 160 },
  ] as const)('$backend, devices: $devices', ({ backend, devices, runs, length }) => {
    const coverage = new Coverage();
    const numRuns = Math.max(1, Math.round(runs * FACTOR));
    let operations = 0;
    const property = fc.property(scenarios(length, devices), (scenario) => {
      operations += scenario.operations.length;
      run(backend, devices, scenario, coverage);
    });
    fc.assert(property, { seed: SEED, numRuns, endOnFailure: false });
    console.log(`${backend} x ${devices}: seed ${SEED}, ${numRuns} runs, ${operations} operations: ${coverage}`);
    expect(operations).toBeGreaterThan(numRuns * 20);
    for (const what of [
      'malloc',
      'free',
      'recordStream',
      'emptyCache',
      'setConf',
      'out of memory',
      'num_alloc_retries',
    ]) {
      expect(coverage.counts[what], what).toBeGreaterThan(0);
    }
  });
});

import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { conflicts } from '../../../lib/analysis/conf/settings-check.js';
import { openRecording } from '../../../lib/analysis/replay/snapshot-replay.js';
import { advise } from '../../../lib/analysis/tune/advice.js';
import { smallestCapacity } from '../../../lib/analysis/tune/smallest-capacity.js';
import { snapshotWorkload } from '../../../lib/analysis/tune/snapshot-workload.js';
import {
  compareSettings,
  evaluateSettings,
  searchSettings,
  type TunedSetting,
  tune,
} from '../../../lib/analysis/tune/tune.js';
import { traceWorkload, type Workload } from '../../../lib/analysis/tune/workload.js';
import { parseTrace } from '../../../lib/snapshot/trace.js';
import { ROOT } from '../../support/child.js';
import { goldenCases, readCaseTrace } from '../../support/golden-cases.js';
import { record } from '../../support/recordings.js';
import { writtenTrace } from '../../support/traces.js';
import { sizes } from '../../support/workload.js';

const MIB = 1024 * 1024;
const ROOMY = 1024 ** 4;
const EXPANDABLE = 'expandable_segments:True';

function golden(name: string): Workload {
  const found = goldenCases(join(ROOT, 'test/golden/data')).find((golden) => golden.name.startsWith(name));
  return traceWorkload(readCaseTrace(found!));
}

function peak(workload: Workload, conf: string): number {
  return workload.run({ conf, policy: 'pytorch', capacity: ROOMY }).peakReserved / MIB;
}

function evaluate(workload: Workload, conf: string): TunedSetting {
  return evaluateSettings(workload, { conf, policy: 'pytorch' }, null);
}

describe('public examples', () => {
  const eightThenFour = traceWorkload(
    writtenTrace((writer) => {
      writer.free(...Array.from({ length: 8 }, () => writer.allocate(16)));
      for (let i = 0; i < 4; i++) writer.allocate(32);
    }),
  );

  it('8 of 16 MiB, freed, then 4 of 32: 256 MiB with fixed segments, 140 with expandable ones', () => {
    expect(peak(eightThenFour, '')).toBe(256);
    expect(peak(eightThenFour, EXPANDABLE)).toBe(140);
  });

  it('in the other order 128 do', () => {
    const fourThenEight = writtenTrace((writer) => {
      writer.free(...Array.from({ length: 4 }, () => writer.allocate(32)));
      for (let i = 0; i < 8; i++) writer.allocate(16);
    });
    expect(peak(traceWorkload(fourThenEight), '')).toBe(128);
  });

  it('what 270 MiB that stay pin of 530 that were freed: max_split_size_mb or expandable segments have it back', () => {
    const n = 12;
    const survivors = traceWorkload(
      writtenTrace((writer) => {
        for (let i = 0; i < n; i++) {
          writer.free(writer.allocate(530));
          writer.allocate(270);
        }
      }),
    );
    expect(peak(survivors, '')).toBe(n * 530);
    expect(peak(survivors, 'max_split_size_mb:21')).toBe(n * 270 + 530);
    expect(peak(survivors, EXPANDABLE)).toBeLessThanOrEqual((n - 1) * 270 + 530 + 20);
  });

  it('expandable segments with a split limit grow in each cycle, either alone does not', () => {
    const cycles = 100;
    const pattern = traceWorkload(
      writtenTrace((writer) => {
        for (let i = 0; i < cycles; i++) {
          const first = writer.allocate(91);
          const second = writer.allocate(45.5);
          writer.allocate(2);
          writer.free(first, second);
        }
      }),
    );
    const both = `${EXPANDABLE},max_split_size_mb:128`;
    expect(peak(pattern, both)).toBeGreaterThan(cycles * 130);
    expect(peak(pattern, EXPANDABLE)).toBeLessThan(500);
    expect(peak(pattern, 'max_split_size_mb:128')).toBeLessThan(500);
    expect(pattern.run({ conf: both, policy: 'default', capacity: ROOMY }).peakReserved).toBeLessThan(500 * MIB);
    expect(conflicts(parseConfig(both)).join()).toMatch(/grow without end/);
  });

  it('four of 16 MiB, every other one freed, then 32: expandable segments are no cure for interleaving', () => {
    const interleaved = writtenTrace((writer) => {
      const [first, , third] = Array.from({ length: 4 }, () => writer.allocate(16));
      writer.free(first!, third!);
      writer.allocate(32);
    });
    expect(peak(traceWorkload(interleaved), EXPANDABLE)).toBeGreaterThan(64 + 20);
  });
});

describe('the smallest capacity', () => {
  const operations = fc.array(fc.tuple(fc.boolean(), fc.nat(), sizes, fc.integer({ min: 0, max: 1 })), {
    minLength: 1,
    maxLength: 60,
  });
  const confs = fc.constantFrom('', EXPANDABLE, 'max_split_size_mb:21', 'roundup_power2_divisions:4');

  it('is one that survives, and 2 MiB less do not', () => {
    fc.assert(
      fc.property(operations, confs, (list, conf) => {
        const workload = traceWorkload(randomTrace(list));
        const roomy = workload.run({ conf, policy: 'pytorch', capacity: ROOMY });
        const candidate = { conf, policy: 'pytorch' as const };
        const found = smallestCapacity(workload, candidate, { outcome: roomy, limit: ROOMY })!;
        const survives = (capacity: number) => workload.run({ ...candidate, capacity }).survived;
        expect(found.capacity % (2 * MIB)).toBe(0);
        if (roomy.peakReserved === 0) return expect(found.capacity).toBe(0);
        expect(survives(found.capacity)).toBe(true);
        if (found.capacity > 2 * MIB) expect(survives(found.capacity - 2 * MIB)).toBe(false);
        expect(found.capacity).toBeGreaterThanOrEqual(roomy.peakRequested);
      }),
      { numRuns: 60 },
    );
  });

  it('is none where nothing survives, and nothing where nothing is asked for', () => {
    const never = traceWorkload(parseTrace(`F 0\na 1 ${MIB} 0\n`));
    expect(evaluate(never, '')).toMatchObject({ smallest_capacity: null, at_smallest: null });
    expect(evaluate(traceWorkload(parseTrace('a 1 0 0\n')), '')).toMatchObject({ smallest_capacity: 0 });
  });

  it('rises above the roomy peak where a fraction takes a part away', () => {
    const half = traceWorkload(parseTrace(`F 0.5\na 1 ${64 * MIB} 0\n`));
    expect(evaluate(half, '')).toMatchObject({ smallest_capacity: 128 * MIB, peak_reserved: 64 * MIB });
  });
});

function randomTrace(list: readonly (readonly [boolean, number, number, number])[]) {
  return writtenTrace((writer) => {
    const live: number[] = [];
    for (const [allocates, at, bytes, stream] of list) {
      if (allocates || live.length === 0) live.push(writer.allocate(bytes / MIB, stream));
      else writer.free(...live.splice(at % live.length, 1));
    }
  });
}

describe('whether a setting triggered', () => {
  const mixed = traceWorkload(
    writtenTrace((writer) => {
      for (const mib of [0.4, 3, 30, 100]) writer.free(writer.allocate(mib));
    }),
  );
  const small = traceWorkload(writtenTrace((writer) => void writer.allocate(0.3)));
  const collected = traceWorkload(
    writtenTrace((writer) => {
      for (const mib of [40, 60, 80, 100, 120]) writer.free(writer.allocate(mib));
    }),
  );

  it.each([
    [EXPANDABLE, mixed],
    ['max_split_size_mb:64', mixed],
    ['max_split_size_mb:64,max_non_split_rounding_mb:64', mixed],
    ['roundup_power2_divisions:2', mixed],
    ['large_segment_size_mb:12', mixed],
    [`${EXPANDABLE},expandable_segments_page_size:4194304`, mixed],
    ['garbage_collection_threshold:0.6,per_process_memory_fraction:1', collected],
  ])('%s did', (conf, workload) => expect(evaluate(workload, conf)).toMatchObject({ triggered: true, reason: null }));

  it.each([
    ['', mixed, null],
    ['max_split_size_mb:128', mixed, /no request reaches the limit of 128\.00 MiB; the largest is 100\.00 MiB/],
    ['max_non_split_rounding_mb:64', mixed, /needs max_split_size_mb: none is set/],
    ['garbage_collection_threshold:0.8', collected, /needs a memory fraction: none is set/],
    ['garbage_collection_threshold:0.9,per_process_memory_fraction:1', small, /never passed the threshold/],
    ['roundup_power2_divisions:1', mixed, /no request is rounded/],
    ['large_segment_size_mb:12', small, /no request is between 1 and 10 MiB/],
    ['expandable_segments_page_size:4194304', mixed, /expandable_segments is off/],
    ['per_process_memory_fraction:0.9', small, /so much was never reserved/],
    ['release_lock_on_cudamalloc:True', mixed, /host memory or locking/],
  ])('%s did not, and why', (conf, workload, reason) => {
    const value = evaluate(workload, conf);
    expect(value.triggered).toBe(false);
    if (reason === null) expect(value.reason).toBeNull();
    else expect(value.reason).toMatch(reason);
  });

  it('is told for each setting of a pair', () => {
    const conf = `${EXPANDABLE},garbage_collection_threshold:0.6,per_process_memory_fraction:1`;
    const value = evaluate(collected, conf);
    expect(value.triggered).toBe(true);
    expect(value.reason).toBe('garbage_collection_threshold: expandable segments are not collected');
  });
});

describe('a snapshot', () => {
  it('is a workload as a trace is, its recorded settings among those tried, advice with its fidelity', () => {
    const conf = 'max_split_size_mb:64';
    const plan = { seed: 7, conf, capacity: 2 ** 40, late: true, ring: 10_000, events: false, stacks: false };
    const workload = snapshotWorkload(openRecording(record(plan).snapshot));
    expect(workload.conf).toBe(conf);
    expect(workload.fidelity).toMatchObject({ exact: workload.fidelity!.allocations });
    expect(workload.sizes.length).toBe(workload.allocations);
    const found = tune(workload);
    expect(found.map((setting) => setting.conf)).toContain(conf);
    const { smallest_capacity } = found.find((setting) => setting.conf === conf)!;
    const better = found.filter((setting) => setting.smallest_capacity! < smallest_capacity!);
    expect(better.length).toBeGreaterThan(0);
    const advice = advise(workload, { capacity: better[0]!.smallest_capacity!, conf });
    expect(advice.length).toBeGreaterThan(0);
    expect(advice.every(({ fidelity }) => fidelity?.exact === workload.fidelity?.exact)).toBe(true);
  });
});

describe('the search', () => {
  const workload = golden('workloads/llm-train-2k');
  const found = tune(workload, { extra: ['garbage_collection_threshold:0.8'] });

  it('tries no settings, single ones and combinations, each once, best first', () => {
    const confs = found.map(({ conf }) => conf);
    expect(confs).toEqual(
      expect.arrayContaining(['', EXPANDABLE, 'max_split_size_mb:64', 'garbage_collection_threshold:0.8']),
    );
    expect(new Set(confs).size).toBe(confs.length);
    expect(confs.some((conf) => conf.startsWith(`${EXPANDABLE},`))).toBe(true);
    expect([...found].sort(compareSettings)).toEqual(found);
  });

  it('finds what needs less than no settings do', () => {
    const none = found.find(({ conf }) => conf === '')!;
    expect(found[0]!.smallest_capacity).toBeLessThan(none.smallest_capacity!);
    expect(found[0]!.conf).toContain('expandable_segments');
  });

  it('never puts expandable segments and a split limit together under the policy pytorch', () => {
    for (const { conf } of found)
      expect(parseConfig(conf)).not.toMatchObject({
        expandableSegments: true,
        maxSplitSize: expect.toSatisfy(Number.isFinite),
      });
  });

  it('gives the same whoever runs the candidates, in whatever order', () => {
    const search = searchSettings(workload, { extra: ['garbage_collection_threshold:0.8'] });
    let step = search.next();
    while (step.done !== true) {
      const backwards = [...step.value].reverse().map((candidate) => evaluateSettings(workload, candidate, null));
      step = search.next(backwards.reverse());
    }
    expect(step.value).toEqual(found);
  });

  it('puts first what survives a given capacity, and counts there', () => {
    const capacity = 6700 * MIB;
    const rows = tune(workload, { capacity });
    const survivors = rows.filter(({ survives }) => survives);
    expect(survivors.length).toBeGreaterThan(0);
    expect(rows.slice(0, survivors.length)).toEqual(survivors);
    const { conf, policy, retries, driver_calls } = rows[0]!;
    const outcome = workload.run({ conf, policy, capacity });
    expect({ retries, driver_calls }).toEqual({ retries: outcome.retries, driver_calls: outcome.driverCalls });
  });

  it('starts from the settings of the recording too', () => {
    const recorded: Workload = { ...workload, conf: 'roundup_power2_divisions:8' };
    const confs = tune(recorded).map(({ conf }) => conf);
    expect(confs).toContain('roundup_power2_divisions:8');
    expect(confs).toContain(`${EXPANDABLE},roundup_power2_divisions:8`);
  });

  it('tries both policies as rows of their own', () => {
    const rows = tune(golden('workloads/random-2k'), { policies: ['pytorch', 'default'] });
    const both = (conf: string) =>
      rows
        .filter((row) => row.conf === conf)
        .map(({ policy }) => policy)
        .sort();
    expect(both('')).toEqual(['default', 'pytorch']);
    expect(both(EXPANDABLE)).toEqual(['default', 'pytorch']);
  });
});

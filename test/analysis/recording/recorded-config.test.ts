// The settings that a snapshot records are those it was taken under: for any settings of our own allocator, and for what PyTorch writes.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../../lib/allocator/caching-allocator.js';
import { type Config, completeConfig, ROUNDUP_INTERVALS } from '../../../lib/allocator/config.js';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { recordedConf, recordedPolicy } from '../../../lib/analysis/recording/recorded-config.js';
import { type PyValue, type Snapshot, StackTable } from '../../../lib/snapshot/model.js';
import { MIB, open } from '../../support/devices.js';

const configs = fc
  .record(
    {
      expandableSegments: fc.boolean(),
      expandableSegmentsPageSize: fc.integer({ min: 1, max: 9 }).map((pages) => pages * 2 * MIB),
      garbageCollectionThreshold: fc.double({ min: 0, max: 0.999, noNaN: true }).map(Math.abs),
      largeSegmentSize: fc.integer({ min: 2, max: 40 }).map((mib) => mib * MIB),
      maxNonSplitRounding: fc.integer({ min: 0, max: 99 }).map((mib) => mib * MIB),
      maxSplitSize: fc.integer({ min: 41, max: 99_999 }).map((mib) => mib * MIB),
      perProcessMemoryFraction: fc.constantFrom(0, 0.25, 0.123456789, 1),
      roundupPower2Divisions: fc.array(fc.constantFrom(0, 1, 2, 4, 16), {
        minLength: ROUNDUP_INTERVALS,
        maxLength: ROUNDUP_INTERVALS,
      }),
    },
    { requiredKeys: [] },
  )
  .map((settings) => completeConfig(settings));

/** What matters for a placement. One division is none. */
function placing(config: Config): unknown {
  const { warnings, ...rest } = config;
  const divisions = config.roundupPower2Divisions.map((value) => (value === 1 ? 0 : value));
  return { ...rest, roundupPower2Divisions: divisions };
}

const settingsOf = (snapshot: Snapshot): Map<string, PyValue> =>
  snapshot.extra?.get('allocator_settings') as Map<string, PyValue>;

describe('of our own allocator', () => {
  test('the recorded settings are those in force', () => {
    fc.assert(
      fc.property(configs, (conf) => {
        const allocator = new CachingAllocator({ device: open('sim'), conf });
        const snapshot = allocator.snapshot();
        expect(placing(parseConfig(recordedConf(snapshot)))).toEqual(placing(allocator.config));
        expect(parseConfig(String(settingsOf(snapshot).get('PYTORCH_CUDA_ALLOC_CONF')))).toEqual(allocator.config);
      }),
      { numRuns: 300 },
    );
  });

  test('also where they were changed on the way', () => {
    const allocator = new CachingAllocator({ device: open('sim'), conf: 'max_split_size_mb:100' });
    allocator.setConf('expandable_segments:True');
    allocator.setPerProcessMemoryFraction(0.5);
    const conf = recordedConf(allocator.snapshot());
    expect(conf).toBe('expandable_segments:True,per_process_memory_fraction:0.5');
    expect(placing(parseConfig(conf))).toEqual(placing(allocator.config));
  });

  test('a size that no settings string can say is in the values all the same', () => {
    const conf = { maxSplitSize: 100 * MIB + 1 };
    const snapshot = new CachingAllocator({ device: open('sim'), conf }).snapshot();
    expect(settingsOf(snapshot).get('max_split_size')).toBe(100 * MIB + 1);
    expect([settingsOf(snapshot).get('PYTORCH_CUDA_ALLOC_CONF'), recordedConf(snapshot)]).toEqual(['', '']);
  });

  test.each(['pytorch', 'default'] as const)('the policy is %s', (policy) => {
    expect(recordedPolicy(new CachingAllocator({ device: open('sim'), policy }).snapshot())).toBe(policy);
  });
});

describe("of PyTorch's", () => {
  function recorded(settings: Readonly<Record<string, PyValue>> | null): Snapshot {
    const extra =
      settings === null ? {} : { extra: new Map([['allocator_settings', new Map(Object.entries(settings))]]) };
    return { segments: [], deviceTraces: [], stacks: new StackTable(), traceOverflowed: null, ...extra };
  }

  test.each([
    [
      { PYTORCH_CUDA_ALLOC_CONF: '', max_split_size: -1, garbage_collection_threshold: 0, expandable_segments: false },
      '',
    ],
    [{ PYTORCH_CUDA_ALLOC_CONF: 'x', max_split_size: 128 * MIB }, 'max_split_size_mb:128'],
    [{ per_process_memory_fraction: 1, large_segment_size: 20 * MIB, max_non_split_rounding_size: 20 * MIB }, ''],
    [{ expandable_segments: 'yes', max_split_size: null, garbage_collection_threshold: '0.5' }, ''],
    [
      {
        roundup_power2_divisions: new Map([
          ['1', 4],
          ['2', 0],
        ]),
      },
      'roundup_power2_divisions:[1:4,2:0]',
    ],
    [null, ''],
  ])('%o is "%s"', (settings, conf) => {
    expect(recordedConf(recorded(settings))).toBe(conf);
    expect(recordedPolicy(recorded(settings))).toBe('pytorch');
  });
});

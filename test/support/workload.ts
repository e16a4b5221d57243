// Random operations on an allocator, as fast-check arbitraries: sizes around every boundary, settings in every combination, whole
// scenarios. Must not know how they are run.

import fc from 'fast-check';
import type { Mends, PolicyName } from '../../lib/allocator/policy.js';

const MIB = 1024 * 1024;
export const STREAMS = 3;
export const POOL_SLOTS = 2;

export type Operation =
  | Malloc
  | { readonly op: 'free' | 'badFree' | 'freeEveryOther'; readonly at: number }
  | { readonly op: 'recordStream'; readonly at: number; readonly stream: number }
  | { readonly op: 'emptyCache' | 'resetPeak' | 'resetAccumulated' | 'holdEvents' | 'releaseEvents' | 'badMalloc' }
  | { readonly op: 'completeEvents'; readonly stream: number }
  | { readonly op: 'setConf'; readonly conf: string }
  | { readonly op: 'fraction'; readonly fraction: number }
  | { readonly op: 'takeByOthers'; readonly bytes: number }
  | { readonly op: 'switchPool'; readonly slot: number }
  | Failing;

export type Malloc = { readonly op: 'malloc'; readonly bytes: number; readonly stream: number; readonly pool: number };

/** An operation during which the nth call into the driver fails, if it makes so many. */
export type Failing = {
  readonly op: 'failing';
  readonly what: Malloc | { readonly op: 'free'; readonly at: number } | { readonly op: 'emptyCache' };
  readonly n: number;
  readonly error: string;
};

/** Sizes around every boundary of the rules, and far from them. */
export const sizes: fc.Arbitrary<number> = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 64 * 1024 }) },
  { weight: 3, arbitrary: fc.integer({ min: 64 * 1024, max: MIB }) },
  { weight: 4, arbitrary: fc.integer({ min: MIB + 1, max: 10 * MIB }) },
  { weight: 3, arbitrary: fc.integer({ min: 10 * MIB, max: 48 * MIB }) },
  { weight: 1, arbitrary: fc.integer({ min: 48 * MIB, max: 300 * MIB }) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom(512, 1024, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 21 * MIB, 32 * MIB, 64 * MIB),
        fc.integer({ min: -1, max: 1 }),
      )
      .map(([bytes, step]) => bytes + step),
  },
);

/** Settings strings: every option that changes a decision, in every combination. */
export const settings: fc.Arbitrary<string> = fc
  .record({
    expandable_segments: fc.constantFrom(undefined, 'True', 'True', 'False'),
    max_split_size_mb: fc.constantFrom(undefined, undefined, '21', '33', '64'),
    garbage_collection_threshold: fc.constantFrom(undefined, undefined, '0.2', '0.6', '0.9'),
    roundup_power2_divisions: fc.constantFrom(undefined, undefined, '4', '[1:8,16:2,>:4]', '[>:1]'),
    large_segment_size_mb: fc.constantFrom(undefined, undefined, '4', '12'),
    max_non_split_rounding_mb: fc.constantFrom(undefined, undefined, '0', '5'),
    expandable_segments_page_size: fc.constantFrom(undefined, undefined, String(2 * MIB), String(6 * MIB)),
    per_process_memory_fraction: fc.constantFrom(undefined, undefined, '0.5', '0.9', '1'),
  })
  .map((options) =>
    Object.entries(options)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => `${key}:${value}`)
      .join(','),
  );

const at = fc.nat(10_000);
const stream = fc.nat(STREAMS - 1);

const malloc = fc.record({ op: fc.constant('malloc' as const), bytes: sizes, stream, pool: fc.nat(8) });
const free = fc.record({ op: fc.constant('free' as const), at });
const failing: fc.Arbitrary<Failing> = fc.record({
  op: fc.constant('failing' as const),
  what: fc.oneof(malloc, malloc, free, fc.constant({ op: 'emptyCache' as const })),
  n: fc.integer({ min: 1, max: 8 }),
  error: fc.constantFrom('CUDA_ERROR_OUT_OF_MEMORY', 'CUDA_ERROR_UNKNOWN', 'CUDA_ERROR_INVALID_VALUE'),
});

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 36, arbitrary: malloc },
  { weight: 24, arbitrary: free },
  { weight: 4, arbitrary: failing },
  { weight: 8, arbitrary: fc.record({ op: fc.constant('recordStream' as const), at, stream }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('freeEveryOther' as const), at }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('badFree' as const), at }) },
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constantFrom(
        'emptyCache',
        'resetPeak',
        'resetAccumulated',
        'holdEvents',
        'releaseEvents',
        'badMalloc' as const,
      ),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant('completeEvents' as const),
      stream: fc.integer({ min: -1, max: STREAMS - 1 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('setConf' as const), conf: settings }) },
  {
    weight: 1,
    arbitrary: fc.record({ op: fc.constant('fraction' as const), fraction: fc.constantFrom(0.3, 0.6, 0.95, 1) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant('takeByOthers' as const),
      bytes: fc.integer({ min: -64, max: 32 }).map((n) => n * MIB),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('switchPool' as const), slot: fc.nat(POOL_SLOTS - 1) }) },
);

export interface Scenario {
  readonly conf: string;
  readonly policy: PolicyName;
  readonly mends: Partial<Mends>;
  readonly capacity: number;
  /** Device of each operation, and the operation. */
  readonly operations: readonly (readonly [device: number, operation: Operation])[];
}

/** The mends are those of the policy, or one or more of them the other way round. */
export function scenarios(length: number, devices: number): fc.Arbitrary<Scenario> {
  const mend = fc.option(fc.boolean(), { nil: undefined, freq: 2 });
  return fc.record({
    conf: settings,
    policy: fc.constantFrom('pytorch', 'default'),
    mends: fc
      .record({ searchAfterEvents: mend, oversizeIgnoresExpandable: mend, growthIsAtomic: mend })
      .map(
        (all) => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Partial<Mends>,
      ),
    capacity: fc.constantFrom(64, 130, 257, 600).map((mib) => mib * MIB),
    operations: fc.noBias(
      fc.array(fc.tuple(fc.nat(devices - 1), operation), { minLength: 1, maxLength: length, size: 'max' }),
    ),
  });
}

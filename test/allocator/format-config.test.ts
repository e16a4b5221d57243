import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { completeConfig, DEFAULT_CONFIG, ROUNDUP_INTERVALS } from '../../lib/allocator/config.js';
import { optionNames, parseConfig } from '../../lib/allocator/config-parser.js';
import { formatConfig } from '../../lib/allocator/format-config.js';

const MIB = 1024 * 1024;
const divisions = fc.constantFrom(0, 1, 2, 4, 8, 16);
const flag = fc.boolean();

/** Any settings that a string can hold. */
const configs = fc
  .record(
    {
      backend: fc.constantFrom('native' as const, 'cudaMallocAsync' as const),
      expandableSegments: flag,
      expandableSegmentsPageSize: fc.integer({ min: 1, max: 99 }).map((pages) => pages * 2 * MIB),
      garbageCollectionThreshold: fc.double({ min: 1e-9, max: 0.999, noNaN: true }),
      graphCaptureRecordStreamReuse: flag,
      largeSegmentSize: fc.integer({ min: 2, max: 40 }).map((mib) => mib * MIB),
      maxNonSplitRounding: fc.integer({ min: 0, max: 99 }).map((mib) => mib * MIB),
      maxSplitSize: fc.integer({ min: 41, max: 99_999 }).map((mib) => mib * MIB),
      perProcessMemoryFraction: fc.double({ min: 0, max: 1, noNaN: true }).map(Math.abs),
      pinnedMaxRegisterThreads: fc.constantFrom(64, 128),
      pinnedNumRegisterThreads: fc.constantFrom(1, 2, 64),
      pinnedReserveSegmentSize: fc.integer({ min: 1, max: 9 }).map((mib) => mib * MIB),
      pinnedUseBackgroundThreads: flag,
      pinnedUseCudaHostRegister: flag,
      releaseLockOnCudaMalloc: flag,
      roundupPower2Divisions: fc
        .oneof(
          fc.array(divisions, { minLength: ROUNDUP_INTERVALS, maxLength: ROUNDUP_INTERVALS }),
          // Runs, as people write them.
          fc
            .array(fc.tuple(divisions, fc.integer({ min: 1, max: 9 })), { minLength: 8, maxLength: 16 })
            .map((runs) =>
              runs.flatMap(([value, length]) => new Array<number>(length).fill(value)).slice(0, ROUNDUP_INTERVALS),
            ),
        )
        .filter((list) => list.length === ROUNDUP_INTERVALS),
      throwOnCudaMallocOom: flag,
    },
    { requiredKeys: [] },
  )
  .map((settings) => completeConfig(settings));

describe('formatConfig', () => {
  it('of the defaults is empty', () => expect(formatConfig(DEFAULT_CONFIG)).toBe(''));

  it('is parsed back to the same settings', () => {
    fc.assert(
      fc.property(configs, (config) => {
        expect(parseConfig(formatConfig(config))).toEqual(config);
      }),
      { numRuns: 500 },
    );
  });

  it('knows every option', () => {
    const every = completeConfig({
      backend: 'cudaMallocAsync',
      expandableSegments: true,
      expandableSegmentsPageSize: 4 * MIB,
      garbageCollectionThreshold: 0.5,
      graphCaptureRecordStreamReuse: true,
      largeSegmentSize: 12 * MIB,
      maxNonSplitRounding: 5 * MIB,
      maxSplitSize: 64 * MIB,
      perProcessMemoryFraction: 0.5,
      pinnedMaxRegisterThreads: 64,
      pinnedNumRegisterThreads: 2,
      pinnedReserveSegmentSize: MIB,
      pinnedUseBackgroundThreads: true,
      pinnedUseCudaHostRegister: true,
      releaseLockOnCudaMalloc: true,
      roundupPower2Divisions: new Array<number>(ROUNDUP_INTERVALS).fill(4),
      throwOnCudaMallocOom: true,
    });
    const keys = formatConfig(every)
      .split(',')
      .map((option) => option.split(':')[0]);
    expect(keys.sort()).toEqual(optionNames('current').sort());
  });

  it.each([
    ['roundup_power2_divisions:4'],
    ['roundup_power2_divisions:1'],
    ['roundup_power2_divisions:[256:1,512:2,1024:8,>:8]'],
    ['roundup_power2_divisions:[32:1,>:8]'],
    ['roundup_power2_divisions:[1:0,8:2]'],
    ['roundup_power2_divisions:[1:0,8:2,>:2]'],
    ['roundup_power2_divisions:[1:0,32768:2]'],
    ['roundup_power2_divisions:[2:4,8:2]'],
    ['expandable_segments:True,large_segment_size_mb:12'],
    ['max_split_size_mb:21,max_non_split_rounding_mb:0'],
    ['garbage_collection_threshold:0.8,per_process_memory_fraction:1'],
  ])('keeps %s as it is written', (text) => {
    const again = formatConfig(parseConfig(text));
    expect(parseConfig(again)).toEqual(parseConfig(text));
    expect(again).toBe(text);
  });

  it.each([
    ['roundup_power2_divisions:[>:8]', 'roundup_power2_divisions:8'],
    [' expandable_segments : False , max_split_size_mb:21,', 'max_split_size_mb:21'],
    ['large_segment_size_mb:12,max_non_split_rounding_mb:12', 'large_segment_size_mb:12'],
    ['roundup_power2_divisions:[1:4,2:4,4:4,8:2]', 'roundup_power2_divisions:[4:4,8:2]'],
    // As in PyTorch 2.4, > takes the last named interval along.
    ['roundup_power2_divisions:[256:1,512:2,1024:4,>:8]', 'roundup_power2_divisions:[256:1,512:2,1024:8,>:8]'],
  ])('writes what %s means', (text, short) => expect(formatConfig(parseConfig(text))).toBe(short));

  it('refuses a size that no settings string can hold', () => {
    expect(() => formatConfig(completeConfig({ maxSplitSize: 21 * MIB + 1 }))).toThrow(
      expect.objectContaining({ code: 'ERR_CUDALLOC_CONFIG', key: 'maxSplitSize' }),
    );
  });
});

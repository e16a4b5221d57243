// Settings strings: every option, every refusal with its position, both dialects; settings as an object; policies.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { type Config, completeConfig, DEFAULT_CONFIG } from '../../lib/allocator/config.js';
import { optionNames, parseConfig } from '../../lib/allocator/config-parser.js';
import { ConfigError } from '../../lib/errors.js';
import { MIB, open, thrownBy } from '../support/devices.js';

const LISTED = [4, 4, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16];

const ACCEPTED: readonly (readonly [text: string, key: keyof Config, value: unknown])[] = [
  ['backend:native', 'backend', 'native'],
  ['backend:cudaMallocAsync', 'backend', 'cudaMallocAsync'],
  ['expandable_segments:True', 'expandableSegments', true],
  ['expandable_segments:False', 'expandableSegments', false],
  ['expandable_segments_page_size:4194304', 'expandableSegmentsPageSize', 4 * MIB],
  ['garbage_collection_threshold:0.6', 'garbageCollectionThreshold', 0.6],
  ['graph_capture_record_stream_reuse:True', 'graphCaptureRecordStreamReuse', true],
  ['large_segment_size_mb:12', 'largeSegmentSize', 12 * MIB],
  ['max_non_split_rounding_mb:0', 'maxNonSplitRounding', 0],
  ['max_split_size_mb:21', 'maxSplitSize', 21 * MIB],
  ['per_process_memory_fraction:0', 'perProcessMemoryFraction', 0],
  ['per_process_memory_fraction:1.0', 'perProcessMemoryFraction', 1],
  ['pinned_max_register_threads:1024', 'pinnedMaxRegisterThreads', 1024],
  ['pinned_num_register_threads:128', 'pinnedNumRegisterThreads', 128],
  ['pinned_reserve_segment_size_mb:5', 'pinnedReserveSegmentSize', 5 * MIB],
  ['pinned_use_background_threads:True', 'pinnedUseBackgroundThreads', true],
  ['pinned_use_cuda_host_register:True', 'pinnedUseCudaHostRegister', true],
  ['release_lock_on_cudamalloc:True', 'releaseLockOnCudaMalloc', true],
  ['roundup_power2_divisions:4', 'roundupPower2Divisions', new Array(16).fill(4)],
  ['roundup_power2_divisions:[2:4,4:8,>:16]', 'roundupPower2Divisions', [4, 4, ...new Array(14).fill(16)]],
  ['throw_on_cudamalloc_oom:True', 'throwOnCudaMallocOom', true],
];

describe('parseConfig', () => {
  test.each(ACCEPTED)('%s', (text, key, value) => {
    expect(parseConfig(text)[key]).toEqual(value);
    expect(parseConfig(`  ${text.replaceAll(':', ' : ')} ,`)[key]).toEqual(value);
  });

  test('every option has a row above', () => {
    const named = new Set(ACCEPTED.map(([text]) => text.split(':')[0]));
    expect([...optionNames('current')].sort()).toEqual([...named].sort());
    expect(optionNames('current')).toEqual(expect.arrayContaining(optionNames('2.4')));
  });

  test.each([null, '', ' ', '  '])('%j gives the defaults', (text) => {
    expect(parseConfig(text)).toEqual(DEFAULT_CONFIG);
  });

  test('keys before the first named interval take its value, unnamed ones in between stay 0', () => {
    expect(parseConfig('roundup_power2_divisions:[4:8,16:2]').roundupPower2Divisions).toEqual([
      8,
      8,
      8,
      0,
      2,
      ...new Array(11).fill(0),
    ]);
    expect(parseConfig('roundup_power2_divisions:[2:4,4:8,8:8,16:8,32:16,64:16,>:16]').roundupPower2Divisions).toEqual([
      ...LISTED.slice(0, 2),
      ...LISTED.slice(2, 5),
      ...LISTED.slice(5),
    ]);
  });

  test('the last one wins, and the rounding of oversize blocks follows the segment size', () => {
    expect(parseConfig('max_split_size_mb:64,max_split_size_mb:32').maxSplitSize).toBe(32 * MIB);
    expect(parseConfig('large_segment_size_mb:12').maxNonSplitRounding).toBe(12 * MIB);
    expect(parseConfig('max_non_split_rounding_mb:3,large_segment_size_mb:12').maxNonSplitRounding).toBe(3 * MIB);
  });

  test('the smallest split limit is just above the segment size, wherever that is named', () => {
    expect(() => parseConfig('max_split_size_mb:19')).toThrow(ConfigError);
    expect(() => parseConfig('max_split_size_mb:20')).toThrow(ConfigError);
    expect(parseConfig('max_split_size_mb:13,large_segment_size_mb:12').maxSplitSize).toBe(13 * MIB);
    expect(() => parseConfig('max_split_size_mb:30,large_segment_size_mb:30')).toThrow(ConfigError);
  });

  test.each([
    ['nonsense', 0, 'nonsense'],
    ['expandable_segments', 19, 'expandable_segments'],
    ['expandable_segments:', 20, 'expandable_segments'],
    ['expandable_segments:true', 20, 'expandable_segments'],
    ['expandable_segments:True max_split_size_mb:64', 20, 'expandable_segments'],
    ['expandable_segments:True,,', 25, ','],
    [',', 0, ','],
    ['a:', 0, 'a'],
    [',,', 0, ','],
    ['max_split_size_mb:abc', 18, 'max_split_size_mb'],
    ['max_split_size_mb:-64', 18, 'max_split_size_mb'],
    ['max_split_size_mb:64MB', 18, 'max_split_size_mb'],
    ['max_split_size_mb:9007199254740993', 18, 'max_split_size_mb'],
    ['expandable_segments:True,max_split_size_mb:20', 43, 'max_split_size_mb'],
    ['garbage_collection_threshold:1', 29, 'garbage_collection_threshold'],
    ['garbage_collection_threshold:0', 29, 'garbage_collection_threshold'],
    ['garbage_collection_threshold:NaN', 29, 'garbage_collection_threshold'],
    ['per_process_memory_fraction:1.1', 28, 'per_process_memory_fraction'],
    ['per_process_memory_fraction:-0.1', 28, 'per_process_memory_fraction'],
    ['roundup_power2_divisions:3', 25, 'roundup_power2_divisions'],
    ['roundup_power2_divisions:[256:1', 31, 'roundup_power2_divisions'],
    ['roundup_power2_divisions:[256', 29, 'roundup_power2_divisions'],
    ['roundup_power2_divisions:[256:3]', 30, 'roundup_power2_divisions'],
    ['roundup_power2_divisions:[100:4]', 26, 'roundup_power2_divisions'],
    ['roundup_power2_divisions:[2:4;4:8]', 28, 'roundup_power2_divisions'],
    ['expandable_segments_page_size:3145728', 30, 'expandable_segments_page_size'],
    ['large_segment_size_mb:1', 22, 'large_segment_size_mb'],
    ['pinned_num_register_threads:3', 28, 'pinned_num_register_threads'],
    ['backend:other', 8, 'backend'],
    ['"expandable_segments:True"', 0, '"expandable_segments'],
    ['constructor:1', 0, 'constructor'],
  ])('%s is refused at position %i', (text, position, key) => {
    const error = thrownBy(() => parseConfig(text));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ position, key, code: 'ERR_CUDALLOC_CONFIG' });
    expect((error as Error).message).toMatch(/accepted is|known are/);
  });

  test('dialect 2.4 knows no later keys and ignores what follows a number, as PyTorch 2.4 does', () => {
    for (const text of ['large_segment_size_mb:12', 'per_process_memory_fraction:0.5', 'max_non_split_rounding_mb:1']) {
      expect(thrownBy(() => parseConfig(text, { dialect: '2.4' }))).toMatchObject({ position: 0 });
    }
    expect(parseConfig('max_split_size_mb:64MB', { dialect: '2.4' }).maxSplitSize).toBe(64 * MIB);
    expect(() => parseConfig('max_split_size_mb:64MB')).toThrow(ConfigError);
  });

  test('parsing again keeps what PyTorch keeps', () => {
    const base = parseConfig(
      'expandable_segments:True,release_lock_on_cudamalloc:True,pinned_num_register_threads:8,max_split_size_mb:64',
    );
    expect(parseConfig('garbage_collection_threshold:0.5', { base })).toMatchObject({
      expandableSegments: true,
      releaseLockOnCudaMalloc: true,
      pinnedNumRegisterThreads: 8,
      maxSplitSize: Number.POSITIVE_INFINITY,
      garbageCollectionThreshold: 0.5,
    });
  });

  test('what only PyTorch can honour is accepted with a warning', () => {
    expect(parseConfig('backend:cudaMallocAsync').warnings).toHaveLength(1);
    expect(parseConfig('pinned_use_cuda_host_register:True,backend:cudaMallocAsync').warnings).toHaveLength(2);
    expect(parseConfig('expandable_segments:True').warnings).toEqual([]);
  });
});

describe('completeConfig', () => {
  test.each([
    [{ maxSplitSize: 20 * MIB }, 'maxSplitSize'],
    [{ maxSplitSize: Number.NaN }, 'maxSplitSize'],
    [{ largeSegmentSize: MIB }, 'largeSegmentSize'],
    [{ largeSegmentSize: 2 * MIB + 1 }, 'largeSegmentSize'],
    [{ largeSegmentSize: 2.5 }, 'largeSegmentSize'],
    [{ garbageCollectionThreshold: 1 }, 'garbageCollectionThreshold'],
    [{ garbageCollectionThreshold: Number.NaN }, 'garbageCollectionThreshold'],
    [{ maxNonSplitRounding: -1 }, 'maxNonSplitRounding'],
    [{ maxNonSplitRounding: Number.NaN }, 'maxNonSplitRounding'],
    [{ expandableSegmentsPageSize: MIB }, 'expandableSegmentsPageSize'],
    [{ perProcessMemoryFraction: 2 }, 'perProcessMemoryFraction'],
    [{ roundupPower2Divisions: [1, 2] }, 'roundupPower2Divisions'],
    [{ roundupPower2Divisions: new Array(16).fill(3) }, 'roundupPower2Divisions'],
  ] as const)('refuses %o', (settings, key) => {
    expect(thrownBy(() => completeConfig(settings as Partial<Config>))).toMatchObject({
      code: 'ERR_CUDALLOC_CONFIG',
      key,
    });
  });

  test('gives frozen settings, complete', () => {
    const config = completeConfig({ roundupPower2Divisions: new Array(16).fill(2) });
    expect(config).toMatchObject({ hasRoundup: true, expandableSegments: false });
    expect(Object.isFrozen(config)).toBe(true);
    expect(completeConfig({ roundupPower2Divisions: new Array(16).fill(1) }).hasRoundup).toBe(false);
  });
});

describe('the policy', () => {
  test('single mends can be switched', () => {
    const device = open('sim');
    const allocator = new CachingAllocator({ device, policy: 'pytorch', mends: { growthIsAtomic: true } });
    expect(allocator.policy).toEqual({
      name: 'pytorch',
      paged: false,
      growthIsAtomic: true,
      reservesWithinDevice: false,
      asksOthers: false,
      compactsOnPressure: false,
      searchAfterEvents: false,
      oversizeIgnoresExpandable: false,
    });
  });
});

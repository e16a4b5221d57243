// What the environment says: which variable counts, whom a refusal names, and what the process is told of settings that were passed over.

import { afterEach, describe, expect, test, vi } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { configFromEnvironment, settingsFromEnvironment } from '../../lib/allocator/environment.js';
import { ConfigError } from '../../lib/errors.js';
import { compiled, runProgram } from '../support/child.js';
import { MIB, open, thrownBy } from '../support/devices.js';

const NAMES = ['CUDALLOC_CONF', 'PYTORCH_ALLOC_CONF', 'PYTORCH_CUDA_ALLOC_CONF'] as const;

afterEach(() => vi.unstubAllEnvs());

describe('the environment', () => {
  test('the first variable that is set counts, and those that lost are named', () => {
    expect(settingsFromEnvironment({})).toBeNull();
    expect(settingsFromEnvironment({ PYTORCH_CUDA_ALLOC_CONF: 'a' })).toEqual({
      text: 'a',
      source: NAMES[2],
      overrides: [],
    });
    expect(settingsFromEnvironment({ [NAMES[1]]: 'a', [NAMES[2]]: 'b' })).toEqual({
      text: 'a',
      source: NAMES[1],
      overrides: [NAMES[2]],
    });
    expect(settingsFromEnvironment({ [NAMES[0]]: 'a', [NAMES[1]]: 'a', [NAMES[2]]: 'b' })).toEqual({
      text: 'a',
      source: NAMES[0],
      overrides: [NAMES[2]],
    });
  });

  test('an allocator reads it unless it is told otherwise', () => {
    vi.stubEnv('PYTORCH_CUDA_ALLOC_CONF', 'max_split_size_mb:32');
    const device = open('sim');
    expect(new CachingAllocator({ device }).config.maxSplitSize).toBe(32 * MIB);
    vi.stubEnv('PYTORCH_ALLOC_CONF', 'max_split_size_mb:64');
    expect(new CachingAllocator({ device }).config.maxSplitSize).toBe(64 * MIB);
    vi.stubEnv('CUDALLOC_CONF', 'max_split_size_mb:96');
    expect(new CachingAllocator({ device }).config.maxSplitSize).toBe(96 * MIB);
    expect(new CachingAllocator({ device, conf: '' }).config.maxSplitSize).toBe(Number.POSITIVE_INFINITY);
    expect(new CachingAllocator({ device, conf: { maxSplitSize: 22 * MIB } }).config.maxSplitSize).toBe(22 * MIB);
    vi.stubEnv('CUDALLOC_CONF', 'nonsense');
    expect(() => new CachingAllocator({ device })).toThrow(ConfigError);
  });

  test('CUDALLOC_POLICY names the policy where the caller does not', () => {
    const device = open('sim');
    expect(new CachingAllocator({ device }).policy.name).toBe('default');
    vi.stubEnv('CUDALLOC_POLICY', 'pytorch');
    expect(new CachingAllocator({ device }).policy).toMatchObject({ name: 'pytorch', searchAfterEvents: false });
    expect(new CachingAllocator({ device, policy: 'default' }).policy.name).toBe('default');
    vi.stubEnv('CUDALLOC_POLICY', 'toString');
    expect(() => new CachingAllocator({ device })).toThrow(ConfigError);
  });
});

describe('a refusal names the variable it comes from', () => {
  test.each(NAMES)('%s', (name) => {
    const error = thrownBy(() => configFromEnvironment({ [name]: 'expandable_segments:true' }));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ key: 'expandable_segments', value: 'true', position: 20 });
    expect((error as Error).message).toMatch(new RegExp(`^${name}: expandable_segments: found 'true' at position 20 `));
    const unknown = thrownBy(() => configFromEnvironment({ [name]: 'nonsense:1' }));
    expect(unknown).toMatchObject({ key: 'nonsense', value: null, position: 0 });
    expect((unknown as Error).message).toMatch(new RegExp(`^${name}: unknown option 'nonsense' `));
  });

  test('also where only the whole is wrong, and for the policy', () => {
    const device = open('sim');
    vi.stubEnv('PYTORCH_ALLOC_CONF', 'max_split_size_mb:30,large_segment_size_mb:30');
    expect(() => new CachingAllocator({ device })).toThrow(/^PYTORCH_ALLOC_CONF: max_split_size_mb: /);
    vi.stubEnv('PYTORCH_ALLOC_CONF', '');
    vi.stubEnv('CUDALLOC_POLICY', 'best');
    expect(() => new CachingAllocator({ device })).toThrow(/^CUDALLOC_POLICY: there is no policy 'best'/);
  });

  test('what the caller passes is not blamed on a variable', () => {
    const device = open('sim');
    vi.stubEnv('CUDALLOC_CONF', 'max_split_size_mb:32');
    vi.stubEnv('CUDALLOC_POLICY', 'pytorch');
    expect(() => new CachingAllocator({ device, conf: 'nonsense' })).toThrow(/^unknown option/);
    expect(() => new CachingAllocator({ device, policy: 'best' as never })).toThrow(/^there is no policy/);
  });
});

describe('the process is warned', () => {
  function warningsOf(action: () => void): unknown[][] {
    const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    try {
      action();
      return emit.mock.calls;
    } finally {
      emit.mockRestore();
    }
  }
  /** As in a process that was not warned yet. */
  async function fresh(): Promise<typeof configFromEnvironment> {
    vi.resetModules();
    return (await import('../../lib/allocator/environment.js')).configFromEnvironment;
  }
  const KIND = { type: 'CudallocWarning', code: 'CUDALLOC_SETTINGS' };

  test('of variables that lost, once', async () => {
    const read = await fresh();
    const env = { CUDALLOC_CONF: '', PYTORCH_ALLOC_CONF: 'a', PYTORCH_CUDA_ALLOC_CONF: 'b' };
    expect(warningsOf(() => read(env))).toEqual([
      ['PYTORCH_ALLOC_CONF is ignored: CUDALLOC_CONF is set too, to something else', KIND],
      ['PYTORCH_CUDA_ALLOC_CONF is ignored: CUDALLOC_CONF is set too, to something else', KIND],
    ]);
    expect(warningsOf(() => read(env))).toEqual([]);
    expect(warningsOf(() => read({ PYTORCH_ALLOC_CONF: '', PYTORCH_CUDA_ALLOC_CONF: 'b' }))).toHaveLength(1);
  });

  test('not of one that says the same', async () => {
    const read = await fresh();
    expect(warningsOf(() => read({ CUDALLOC_CONF: '', PYTORCH_ALLOC_CONF: '' }))).toEqual([]);
    expect(warningsOf(() => read({ PYTORCH_ALLOC_CONF: '' }))).toEqual([]);
  });

  test('of settings that only PyTorch can honour, once, and only if they come from the environment', () => {
    const device = open('sim');
    const text = 'backend:cudaMallocAsync,pinned_use_background_threads:True';
    expect(warningsOf(() => new CachingAllocator({ device, conf: text }))).toEqual([]);
    vi.stubEnv('PYTORCH_CUDA_ALLOC_CONF', text);
    const first = warningsOf(() => new CachingAllocator({ device }));
    expect(first).toEqual([
      [expect.stringMatching(/^PYTORCH_CUDA_ALLOC_CONF: backend:cudaMallocAsync /), KIND],
      [expect.stringMatching(/^PYTORCH_CUDA_ALLOC_CONF: the pinned_\* options /), KIND],
    ]);
    expect(warningsOf(() => new CachingAllocator({ device }))).toEqual([]);
  });

  test.each([
    ['there is no process', undefined],
    ['a process cannot warn', { env: {} }],
  ])('not where %s', async (_, stub) => {
    const read = await fresh();
    vi.stubGlobal('process', stub);
    try {
      expect(read({ CUDALLOC_CONF: 'backend:cudaMallocAsync', PYTORCH_ALLOC_CONF: 'a' }).warnings).toHaveLength(1);
    } finally {
      vi.unstubAllGlobals();
    }
  });

  test('as Node prints warnings', async () => {
    const { stderr, code } = await runProgram(
      `import { CachingAllocator, openDevice } from ${compiled('index.js')};
      const device = openDevice({ backend: 'sim' });
      new CachingAllocator({ device });
      new CachingAllocator({ device });`,
      { env: { PYTORCH_ALLOC_CONF: 'max_split_size_mb:32', PYTORCH_CUDA_ALLOC_CONF: 'max_split_size_mb:64' } },
    );
    expect(code).toBe(0);
    expect(stderr.match(/\[CUDALLOC_SETTINGS\] CudallocWarning: PYTORCH_CUDA_ALLOC_CONF is ignored/g)).toHaveLength(1);
  });
});

// What a caller may get wrong: sizes, addresses, streams, options, and an allocator that is closed. Each is a typed error and changes
// nothing.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import {
  ConfigError,
  CudallocError,
  DoubleFreeError,
  InvalidAddressError,
  InvalidSizeError,
  OutOfMemoryError,
  UseAfterFreeError,
  WrongThreadError,
} from '../../lib/errors.js';
import { MIB, open, thrownBy } from '../support/devices.js';

interface Bench {
  readonly allocator: CachingAllocator;
  /** Freed; live in the small pool; live in the large one. */
  readonly freed: number;
  readonly small: number;
  readonly large: number;
}

function make(conf: string): Bench {
  const allocator = new CachingAllocator({ device: open('sim', { capacity: 128 * MIB }), conf });
  allocator.recordMemoryHistory();
  const [freed, small, large] = [1000, 2000, 5 * MIB].map((bytes) => allocator.malloc(bytes)) as [
    number,
    number,
    number,
  ];
  allocator.free(freed);
  return { allocator, freed, small, large };
}

function stateOf({ allocator }: Bench): unknown {
  return [allocator.memoryStats(), allocator.memorySnapshot(), allocator.device.driverCalls()];
}

/** @returns the error; state, history and driver calls are as before */
function refusal(bench: Bench, call: () => unknown): unknown {
  const before = stateOf(bench);
  const error = thrownBy(call);
  expect(stateOf(bench)).toEqual(before);
  return error;
}

describe.each(['', 'expandable_segments:True', 'roundup_power2_divisions:4'])('with "%s"', (conf) => {
  test.each<[string, unknown]>([
    ['-1', -1],
    ['-512', -512],
    ['0.5', 0.5],
    ['1000.1', 1000.1],
    ['NaN', Number.NaN],
    ['Infinity', Number.POSITIVE_INFINITY],
    ['-Infinity', Number.NEGATIVE_INFINITY],
    ['2^53', 2 ** 53],
    ['2^64', 2 ** 64],
    ['text of a number', '512'],
    ['text', 'many'],
    ['null', null],
    ['true', true],
    ['an array', [512]],
    ['an object', {}],
  ])('a size: %s', (_, bytes) => {
    const bench = make(conf);
    for (const call of [
      () => bench.allocator.malloc(bytes as number),
      () => bench.allocator.allocate(bytes as number),
    ]) {
      const error = refusal(bench, call);
      expect(error).toBeInstanceOf(InvalidSizeError);
      expect((error as InvalidSizeError).size).toBe(bytes);
    }
  });

  test.each([129 * MIB, 2 ** 40, 2 ** 52 + 1, 2 ** 53 - 1])(
    'a size beyond the device, %d bytes, is an out of memory',
    (bytes) => {
      const { allocator } = make(conf);
      const stats = allocator.memoryStats();
      const { segments } = allocator.memorySnapshot();
      expect(() => allocator.malloc(bytes)).toThrow(OutOfMemoryError);
      expect(allocator.memorySnapshot().segments).toEqual(segments);
      const after = allocator.memoryStats();
      expect(after.num_ooms).toBe(1);
      for (const [key, value] of Object.entries(stats))
        if (key.endsWith('.current')) expect(after[key], key).toBe(value);
    },
  );

  test.each<[string, (bench: Bench) => unknown]>([
    ['one inside a block', ({ small }) => small + 512],
    ['one byte further', ({ small }) => small + 1],
    ['a fraction', ({ small }) => small + 0.5],
    ['one inside a large block', ({ large }) => large + 2 * MIB],
    ['a foreign one', () => 4096],
    ['a negative one', ({ small }) => -small],
    ['beyond 2^53', () => 2 ** 60],
    ['not a number', () => Number.NaN],
    ['infinite', () => Number.POSITIVE_INFINITY],
    ['text', () => 'address'],
    ['nothing', () => undefined],
    ['null', () => null],
    ['an object', () => ({})],
    ['the number as text', ({ small }) => String(small)],
  ])('an address: %s', (_, pick) => {
    const bench = make(conf);
    const { allocator } = bench;
    const address = pick(bench) as number;
    for (const call of [
      () => allocator.free(address),
      () => allocator.recordStream(address, allocator.device.defaultStream),
      () => allocator.baseAllocation(address),
    ]) {
      expect(refusal(bench, call)).toBeInstanceOf(InvalidAddressError);
    }
    allocator.free(bench.small);
    allocator.free(bench.large);
  });

  test('a bigint, as a size and as an address', () => {
    const bench = make(conf);
    const { allocator, small } = bench;
    for (const call of [
      () => allocator.malloc(512n as never),
      () => allocator.allocate(512n as never),
      () => allocator.free(BigInt(small) as never),
      () => allocator.recordStream(BigInt(small) as never, allocator.device.defaultStream),
    ]) {
      const error = refusal(bench, call);
      expect(error instanceof TypeError || error instanceof CudallocError).toBe(true);
    }
  });

  test('an address that was freed: at once, later, and inside what has been joined', () => {
    const bench = make(conf);
    const { allocator, freed, small, large } = bench;
    expect(refusal(bench, () => allocator.free(freed))).toBeInstanceOf(DoubleFreeError);
    allocator.free(small);
    for (const address of [freed, small]) {
      expect(refusal(bench, () => allocator.free(address))).toBeInstanceOf(DoubleFreeError);
      expect(refusal(bench, () => allocator.baseAllocation(address))).toBeInstanceOf(DoubleFreeError);
    }
    allocator.free(large);
    allocator.emptyCache();
    for (const address of [freed, small, large]) {
      expect(refusal(bench, () => allocator.free(address))).toBeInstanceOf(CudallocError);
    }
  });

  test('a stream of another device, or none at all', () => {
    const bench = make(conf);
    const foreign = open('sim').createStream();
    expect(refusal(bench, () => bench.allocator.malloc(512, foreign))).toBeInstanceOf(WrongThreadError);
    expect(refusal(bench, () => bench.allocator.recordStream(bench.small, foreign))).toBeInstanceOf(WrongThreadError);
    expect(refusal(bench, () => bench.allocator.malloc(512, {} as never))).toBeInstanceOf(WrongThreadError);
  });

  test.each([-0.1, 1.1, Number.NaN, Number.POSITIVE_INFINITY])('a fraction of %d', (fraction) => {
    const bench = make(conf);
    expect(refusal(bench, () => bench.allocator.setPerProcessMemoryFraction(fraction))).toBeInstanceOf(ConfigError);
    expect(refusal(bench, () => bench.allocator.setConf(`per_process_memory_fraction:${fraction}`))).toBeInstanceOf(
      ConfigError,
    );
  });

  test('after close everything that acts is refused, without a call to the driver', () => {
    const { allocator, small, freed } = make(conf);
    const { device } = allocator;
    const pool = allocator.createMemPool();
    const stream = device.createStream();
    allocator.close();
    allocator.close();
    expect(allocator.closed).toBe(true);
    expect(device.memGetInfo().free).toBe(128 * MIB);
    const calls = device.driverCalls();
    const uses: Record<string, () => unknown> = {
      malloc: () => allocator.malloc(512),
      'malloc of nothing': () => allocator.malloc(0),
      allocate: () => allocator.allocate(512),
      'allocate from a pool': () => allocator.allocate(512, { pool }),
      'free of a live address': () => allocator.free(small),
      'free of a freed address': () => allocator.free(freed),
      recordStream: () => allocator.recordStream(small, stream),
      baseAllocation: () => allocator.baseAllocation(small),
      emptyCache: () => allocator.emptyCache(),
    };
    const accepted = Object.entries(uses).filter(([, use]) => {
      try {
        use();
        return true;
      } catch (error) {
        return !(error instanceof UseAfterFreeError);
      }
    });
    expect(accepted.map(([name]) => name)).toEqual([]);
    expect(device.driverCalls()).toEqual(calls);
    // What only reads still answers, for those who report at the end.
    expect(allocator.memorySnapshot().segments).toEqual([]);
    expect(allocator.memoryStats().num_ooms).toBe(0);
    expect(allocator.memorySummary()).toContain('memory summary');
  });
});

describe('options', () => {
  test.each([
    [{ conf: 'nonsense' }, 'nonsense'],
    [{ policy: 'fast' }, 'policy'],
    [{ conf: { maxSplitSize: 1 } }, 'maxSplitSize'],
  ])('%o', (options, key) => {
    const device = open('sim');
    const error = thrownBy(() => new CachingAllocator({ device, ...(options as object) }));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ key });
  });

  test('using closes it', () => {
    const device = open('sim');
    {
      using allocator = new CachingAllocator({ device });
      allocator.malloc(MIB);
    }
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });
});

// Uses that nobody intended: each ends in a typed error or the right result, and nothing is lost.

import { expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { ConfigError, InvalidAddressError, OutOfMemoryError, UnsupportedError } from '../../lib/errors.js';
import { MIB, open } from '../support/devices.js';

const make = (conf = '', capacity = 128 * MIB) => {
  const device = open('sim', { capacity });
  return { device, allocator: new CachingAllocator({ device, conf }) };
};

test('an address that a buffer owns is freed by the buffer only, so that no buffer frees what came to its place', () => {
  const { allocator } = make();
  const buffer = allocator.allocate(1000);
  expect(() => allocator.free(buffer.address)).toThrow(InvalidAddressError);
  expect(allocator.memoryAllocated()).toBe(1024);
  const { address } = buffer;
  buffer.free();
  expect(allocator.malloc(1000)).toBe(address);
  allocator.free(address);
  expect(allocator.memoryAllocated()).toBe(0);
});

test('a program with its own way of preparing stacks', () => {
  const { allocator } = make();
  allocator.recordMemoryHistory({ stacks: true });
  const before = Error.prepareStackTrace;
  const sites = (_: Error, callSites: NodeJS.CallSite[]): unknown => callSites;
  Error.prepareStackTrace = sites;
  try {
    allocator.free(allocator.malloc(100));
    expect(Error.prepareStackTrace).toBe(sites);
  } finally {
    Error.prepareStackTrace = before;
  }
  expect(allocator.history?.entry(1).frames[0]?.filename).toContain('misuse.test');
  allocator.emptyCache();
  expect(allocator.memoryReserved()).toBe(0);
});

test('a pool is not released inside its own withMemPool', () => {
  const { allocator } = make();
  const pool = allocator.createMemPool();
  allocator.withMemPool(pool, () => {
    expect(() => pool.release()).toThrow(UnsupportedError);
    allocator.free(allocator.malloc(5 * MIB));
  });
  pool.release();
  allocator.emptyCache();
  expect(allocator.memoryReserved()).toBe(0);
});

test('an asynchronous request stays with the pool of the call, whatever is in force when its waiting ends', async () => {
  const { allocator, device } = make();
  const stream = device.createStream();
  const pool = allocator.createMemPool();
  const address = allocator.malloc(MIB);
  allocator.recordStream(address, stream);
  device.mock?.holdEvents();
  allocator.free(address);
  const buffer = await allocator.withMemPool(pool, () => ({ promise: allocator.allocateAsync(5 * MIB) })).promise;
  const owner = allocator.memorySnapshot().segments.find(({ allocatedSize }) => allocatedSize > 0);
  expect(owner?.segmentPoolId).toEqual(pool.id);
  buffer.free();
});

test('a fraction set by call and by settings: the later one holds, and the settings say so', () => {
  const { allocator } = make('per_process_memory_fraction:0.5');
  allocator.setPerProcessMemoryFraction(1);
  expect(allocator.config.perProcessMemoryFraction).toBe(1);
  allocator.setConf('per_process_memory_fraction:0.5');
  expect(() => allocator.malloc(100 * MIB)).toThrow(OutOfMemoryError);
});

test('where only the segment does not fit, the error does not speak of pieces', () => {
  const { allocator, device } = make();
  device.mock?.takeByOthers(120 * MIB);
  try {
    allocator.malloc(5 * MIB);
    expect.unreachable();
  } catch (error) {
    expect((error as OutOfMemoryError).verdict).toMatchObject({
      kind: 'other_process',
      shortBy: 12 * MIB,
      advice: null,
    });
  }
});

test.each([{ expandableSegment: true }, { expandableSegments: 'False' }, { maxSplitSize: '90000000' }, 5])(
  'settings that are none: %j',
  (conf) => {
    const { device } = make();
    expect(() => new CachingAllocator({ device, conf: conf as never })).toThrow(ConfigError);
  },
);

test('the source of an asynchronous write may be changed, transferred or resized at once', async () => {
  const device = open('mock', { capacity: 64 * MIB });
  const buffer = new CachingAllocator({ device }).allocate(16 * MIB);
  const source = new Uint8Array(16 * MIB).fill(7);
  const copy = buffer.writeAsync(source);
  structuredClone(source.buffer, { transfer: [source.buffer] });
  await copy;
  expect(source.byteLength).toBe(0);
  expect(buffer.read().every((byte) => byte === 7)).toBe(true);
  buffer.free();
});

test('the bare asynchronous copy refuses a buffer that can shrink', async () => {
  const device = open('mock', { capacity: 16 * MIB });
  const buffer = new CachingAllocator({ device }).allocate(1024);
  const source = new (ArrayBuffer as new (bytes: number, options: object) => ArrayBuffer)(1024, {
    maxByteLength: 2048,
  });
  await expect(device.memcpyHtoDAsync(buffer.address, new Uint8Array(source))).rejects.toThrow(TypeError);
  await buffer.writeAsync(source);
  buffer.free();
});

test('asyncDispose settles though the deferred free fails, and the buffer can be freed again', async () => {
  const device = open('mock', { capacity: 64 * MIB });
  const allocator = new CachingAllocator({ device });
  const buffer = allocator.allocate(MIB);
  buffer.recordStream(device.createStream());
  const copy = buffer.writeAsync(new Uint8Array(MIB));
  device.mock.failNth('cudaEventRecord', 1, 'CUDA_ERROR_INVALID_VALUE');
  const disposed = buffer[Symbol.asyncDispose]();
  await expect(copy).rejects.toThrow('CUDA_ERROR_INVALID_VALUE');
  await disposed;
  expect(allocator.memoryAllocated()).toBe(MIB);
  buffer.free();
  expect(allocator.memoryAllocated()).toBe(0);
});

// The safe level on the mock: bounds, life, copies across streams and devices, asynchronous work with a free in flight.

import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { DeviceBuffer } from '../../lib/allocator/device-buffer.js';
import type { OpenDeviceOptions } from '../../lib/device/types.js';
import {
  DoubleFreeError,
  DriverError,
  UnsupportedError,
  UseAfterFreeError,
  WrongThreadError,
} from '../../lib/errors.js';
import { MIB, open } from '../support/devices.js';

function make(options: OpenDeviceOptions = {}, conf = ''): CachingAllocator {
  return new CachingAllocator({ device: open('mock', options), conf, leakWarnings: false });
}

const ramp = (length: number, from = 0): Uint8Array => Uint8Array.from({ length }, (_, i) => (from + i) & 255);

describe('bytes', () => {
  test('written are read, in every form of source', () => {
    const buffer = make().allocate(1000);
    expect([buffer.size, buffer.address % 512, buffer.addressBigInt]).toEqual([1000, 0, BigInt(buffer.address)]);
    buffer.fill(0);
    buffer.write(ramp(100), 900);
    expect(buffer.read(900)).toEqual(ramp(100));
    buffer.write(new Float32Array([1.5, -2]), 8);
    expect(new Float32Array(buffer.read(8, 8).buffer)).toEqual(new Float32Array([1.5, -2]));
    buffer.write(ramp(16).buffer as ArrayBuffer);
    buffer.write(new DataView(ramp(32).buffer, 4, 4), 16);
    expect(buffer.read(0, 20)).toEqual(
      Uint8Array.from([...ramp(16), 4, 5, 6, 7].map((x, i) => (i === 8 + 99 ? 0 : x))),
    );
    const shared = new SharedArrayBuffer(4);
    new Uint8Array(shared).set([9, 8, 7, 6]);
    buffer.write(shared, 996);
    expect(buffer.read(996)).toEqual(Uint8Array.of(9, 8, 7, 6));
    expect(buffer.read(0, 0)).toEqual(new Uint8Array(0));
    buffer.write(new Uint8Array(0), 1000);
  });

  test('fill sets every byte of its stretch and no other', () => {
    const buffer = make().allocate(64);
    buffer.fill(1);
    buffer.fill(255, 10, 5);
    buffer.fill(7, 60);
    expect([...buffer.read()]).toEqual(
      Array.from({ length: 64 }, (_, i) => (i >= 60 ? 7 : i >= 10 && i < 15 ? 255 : 1)),
    );
    for (const byte of [-1, 256, 1.5, Number.NaN]) expect(() => buffer.fill(byte)).toThrow(RangeError);
  });

  test.each([
    [0, 65],
    [64, 1],
    [-1, 1],
    [0.5, 1],
    [0, -1],
    [0, 1.5],
    [Number.NaN, 1],
    [2 ** 53, 1],
    [1, Number.NaN],
  ])('offset %d and length %d are refused', async (offset, length) => {
    const allocator = make();
    const buffer = allocator.allocate(64);
    const other = allocator.allocate(1024);
    expect(() => buffer.read(offset, length)).toThrow(RangeError);
    expect(() => buffer.fill(0, offset, length)).toThrow(RangeError);
    expect(() => buffer.copyTo(other, { sourceOffset: offset, bytes: length })).toThrow(RangeError);
    expect(() => other.copyTo(buffer, { targetOffset: offset, bytes: length })).toThrow(RangeError);
    await expect(buffer.readAsync(offset, length)).rejects.toThrow(RangeError);
    await expect(buffer.fillAsync(0, offset, length)).rejects.toThrow(RangeError);
  });

  test('a source that does not fit, and one of a wrong type, are refused', async () => {
    const buffer = make().allocate(64);
    expect(() => buffer.write(ramp(65))).toThrow(RangeError);
    expect(() => buffer.write(ramp(2), 63)).toThrow(RangeError);
    await expect(buffer.writeAsync(ramp(65))).rejects.toThrow(RangeError);
    expect(() => buffer.write([1, 2] as never)).toThrow(TypeError);
    expect(() => buffer.write('text' as never)).toThrow(TypeError);
  });

  test('a buffer of no bytes works and holds nothing', () => {
    const allocator = make();
    const buffer = allocator.allocate(0);
    expect([buffer.size, buffer.address, buffer.read().length]).toEqual([0, 0, 0]);
    buffer.fill(1);
    buffer.recordStream(allocator.device.createStream());
    buffer.copyTo(allocator.allocate(4));
    buffer.free();
    expect(() => buffer.free()).toThrow(DoubleFreeError);
    expect(allocator.memoryAllocated()).toBe(512);
  });
});

describe('life', () => {
  const uses: Record<string, (buffer: DeviceBuffer, other: DeviceBuffer) => unknown> = {
    address: (buffer) => buffer.address,
    addressBigInt: (buffer) => buffer.addressBigInt,
    write: (buffer) => buffer.write(ramp(1)),
    read: (buffer) => buffer.read(),
    fill: (buffer) => buffer.fill(0),
    'copyTo from': (buffer, other) => buffer.copyTo(other),
    'copyTo to': (buffer, other) => other.copyTo(buffer),
    recordStream: (buffer) => buffer.recordStream(buffer.stream),
  };

  test.each(Object.keys(uses))('%s after free is refused, and after the allocator was closed', (name) => {
    const allocator = make();
    const [buffer, other, third] = [64, 64, 64].map((bytes) => allocator.allocate(bytes)) as [
      DeviceBuffer,
      DeviceBuffer,
      DeviceBuffer,
    ];
    buffer.free();
    expect(buffer.freed).toBe(true);
    const stats = allocator.memoryStats();
    expect(() => uses[name]?.(buffer, other)).toThrow(UseAfterFreeError);
    expect(allocator.memoryStats()).toEqual(stats);
    allocator.close();
    expect(third.freed).toBe(true);
    expect(() => uses[name]?.(third, other)).toThrow(UseAfterFreeError);
  });

  test('asynchronous forms after free reject', async () => {
    const buffer = make().allocate(64);
    buffer.free();
    for (const work of [
      buffer.writeAsync(ramp(1)),
      buffer.readAsync(),
      buffer.fillAsync(0),
      buffer.copyToAsync(buffer),
    ]) {
      await expect(work).rejects.toBeInstanceOf(UseAfterFreeError);
    }
  });

  test('a second free is an error and frees nothing else, also when the address lives again', () => {
    const allocator = make();
    const first = allocator.allocate(64);
    const { address } = first;
    first.free();
    const second = allocator.allocate(64);
    expect(second.address).toBe(address);
    expect(() => first.free()).toThrow(DoubleFreeError);
    second.write(ramp(64));
    expect(second.read()).toEqual(ramp(64));
  });

  test('using gives back at the end of the scope, also after free and on an error', () => {
    const allocator = make();
    {
      using buffer = allocator.allocate(64);
      using freed = allocator.allocate(64);
      freed.free();
      expect(buffer.freed).toBe(false);
    }
    expect(() => {
      using _buffer = allocator.allocate(64);
      throw new Error('inside');
    }).toThrow('inside');
    expect(allocator.memoryAllocated()).toBe(0);
  });

  test('a free that the driver refuses leaves the buffer as it was', () => {
    const allocator = make();
    const { device } = allocator;
    const buffer = allocator.allocate(64);
    buffer.recordStream(device.createStream());
    device.mock?.failNth('cudaEventCreate', 1, 'CUDA_ERROR_UNKNOWN');
    expect(() => buffer.free()).toThrow(DriverError);
    expect(buffer.freed).toBe(false);
    buffer.write(ramp(64));
    buffer.free();
    allocator.emptyCache();
    expect(allocator.memoryReserved()).toBe(0);
  });

  test('console.log shows size, address and state', () => {
    const allocator = make();
    const buffer = allocator.allocate(3 * MIB);
    expect(inspect(buffer)).toBe(`DeviceBuffer { 3.00 MiB, 0x${buffer.address.toString(16)}, stream 0 }`);
    expect(inspect(allocator)).toContain('3.00 MiB of 20.00 MiB in use');
    buffer.free();
    expect(inspect(buffer)).toContain('freed');
  });
});

describe('copies', () => {
  test('within a stream, across streams, and of parts', () => {
    const allocator = make();
    const stream = allocator.device.createStream();
    const source = allocator.allocate(100);
    const target = allocator.allocate(100, { stream });
    source.write(ramp(100));
    target.fill(0);
    source.copyTo(target, { bytes: 10, sourceOffset: 50, targetOffset: 90 });
    expect([...target.read(88)]).toEqual([0, 0, ...ramp(10, 50)]);
    source.copyTo(target);
    expect(target.read()).toEqual(ramp(100));
    source.copyTo(target, { sourceOffset: 100 });
    expect(() => source.copyTo(target, { targetOffset: 1 })).toThrow(RangeError);
  });

  test('the order of both streams is kept: the copy waits for the target, later work of the target for the copy', () => {
    const allocator = make();
    const { device } = allocator;
    const [first, second] = [device.createStream(), device.createStream()];
    const source = allocator.allocate(64, { stream: first });
    const target = allocator.allocate(64, { stream: second });
    const before = device.mock?.counters().cuStreamWaitEvent ?? 0;
    source.copyTo(target);
    expect((device.mock?.counters().cuStreamWaitEvent ?? 0) - before).toBe(2);
    const same = allocator.allocate(64, { stream: first });
    source.copyTo(same);
    expect((device.mock?.counters().cuStreamWaitEvent ?? 0) - before).toBe(2);
  });

  test('between devices', async () => {
    const [one, two] = [make(), make()];
    const source = one.allocate(2 * MIB + 3);
    const target = two.allocate(2 * MIB + 3);
    source.fill(5);
    source.write(ramp(3), 2 * MIB);
    target.fill(0);
    source.copyTo(target);
    expect(target.read(2 * MIB - 1)).toEqual(Uint8Array.of(5, 0, 1, 2));
    target.fill(9);
    await target.copyToAsync(source, { bytes: 4 });
    expect([...source.read(0, 5)]).toEqual([9, 9, 9, 9, 5]);
    expect(one.memoryAllocated()).toBe(two.memoryAllocated());
  });

  test('a stream of another device is refused', () => {
    const [one, two] = [make(), make()];
    expect(() => one.allocate(64, { stream: two.device.createStream() })).toThrow(WrongThreadError);
    const buffer = one.allocate(64);
    expect(() => buffer.recordStream(two.device.defaultStream)).toThrow(WrongThreadError);
    expect(one.memoryAllocated()).toBe(512);
  });

  test('the simulated device has no bytes and says so', () => {
    const allocator = new CachingAllocator({ device: open('sim') });
    using buffer = allocator.allocate(64);
    expect(() => buffer.write(ramp(1))).toThrow(UnsupportedError);
    expect(() => buffer.read()).toThrow(UnsupportedError);
  });
});

describe('asynchronous work', () => {
  test('writes, fills, copies and reads in order', async () => {
    const allocator = make();
    const buffer = allocator.allocate(MIB);
    const other = allocator.allocate(MIB);
    await buffer.writeAsync(ramp(MIB));
    await buffer.fillAsync(3, 0, 2);
    await buffer.copyToAsync(other);
    expect((await other.readAsync(0, 4)).join()).toBe('3,3,2,3');
    await expect(other.readAsync(MIB - 1)).resolves.toEqual(Uint8Array.of(255));
  });

  test('a free in flight gives the memory back only afterwards, once', async () => {
    const allocator = make();
    const buffer = allocator.allocate(MIB);
    const { address } = buffer;
    const work = [buffer.writeAsync(ramp(MIB)), buffer.readAsync(0, 10)];
    buffer.free();
    expect(buffer.freed).toBe(true);
    expect(allocator.memoryAllocated()).toBe(MIB);
    expect(() => buffer.read()).toThrow(UseAfterFreeError);
    expect(() => buffer.free()).toThrow(DoubleFreeError);
    const other = allocator.allocate(MIB);
    expect(other.address).not.toBe(address);
    await Promise.all(work);
    expect(allocator.memoryAllocated()).toBe(MIB);
    other.free();
    expect(allocator.memoryAllocated()).toBe(0);
  });

  test('asyncDispose waits for it', async () => {
    const allocator = make();
    let buffer: DeviceBuffer;
    {
      await using scoped = allocator.allocate(MIB);
      buffer = scoped;
      void scoped.writeAsync(ramp(MIB));
    }
    expect(buffer.freed).toBe(true);
    expect(allocator.memoryAllocated()).toBe(0);
  });

  test('work that fails rejects, and the memory still comes back', async () => {
    const allocator = make();
    const buffer = allocator.allocate(MIB);
    allocator.device.mock?.failNth('cuMemcpyHtoDAsync', 1, 'CUDA_ERROR_UNKNOWN');
    await expect(buffer.writeAsync(ramp(MIB))).rejects.toBeInstanceOf(DriverError);
    buffer.free();
    expect(allocator.memoryAllocated()).toBe(0);
  });

  test('closing the allocator with work in flight is not followed by a free', async () => {
    const allocator = make();
    const buffer = allocator.allocate(MIB);
    const work = buffer.writeAsync(ramp(MIB));
    buffer.free();
    allocator.close();
    await work.catch(() => undefined);
    expect(allocator.device.memGetInfo().free).toBe(64 * MIB);
  });
});

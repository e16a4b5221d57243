// Injected failures on the stand-ins: at whatever call a failure comes, nothing has changed and the next attempt works.

import { describe, expect, test } from 'vitest';
import {
  AddressSpaceError,
  CapturingError,
  ConfigError,
  DeviceLostError,
  DeviceOutOfMemoryError,
  DriverError,
  InvalidAddressError,
  InvalidSizeError,
} from '../../lib/errors.js';
import { MIB, mapped, open, PAGE, thrownBy } from '../support/devices.js';

const PAGES = 3;

describe.each(['sim', 'mock'] as const)('%s: injected failures', (backend) => {
  test('the nth call fails, once, with the given error, by name or number', () => {
    const device = open(backend);
    device.mock.failNth('cudaMalloc', 2);
    const address = device.malloc(MIB);
    expect(() => device.malloc(MIB)).toThrow(DeviceOutOfMemoryError);
    device.free(device.malloc(MIB));
    device.mock.failNth('cudaFree', 1, 'CUDA_ERROR_INVALID_VALUE');
    const error = thrownBy(() => device.free(address));
    expect(error).toMatchObject({ fn: 'cudaFree', cudaError: 'cudaErrorInvalidValue', cudaCode: 1 });
    expect(error).not.toBeInstanceOf(DeviceOutOfMemoryError);
    device.free(address);
    device.mock.failNth('cuMemAddressReserve', 1, 999);
    expect(thrownBy(() => device.addressReserve(PAGE))).toMatchObject({
      cudaError: 'CUDA_ERROR_UNKNOWN',
      cudaCode: 999,
    });
    expect(device.memGetInfo().free).toBe(64 * MIB);
    expect(device.driverCalls()).toMatchObject({
      cudaMalloc: 2,
      cudaMalloc_failed: 1,
      cudaFree: 2,
      cudaFree_failed: 1,
    });
  });

  test.each([
    ['cuMemAddressReserve', AddressSpaceError],
    ['cuMemCreate', DeviceOutOfMemoryError],
    ['cudaMemGetInfo', DriverError],
    ['cuMemGetInfo', DriverError],
    ['cudaEventCreate', DriverError],
    ['cudaEventRecord', DriverError],
    ['cudaEventQuery', DriverError],
    ['cudaEventSynchronize', DriverError],
    ['cudaStreamSynchronize', DriverError],
    ['cudaDeviceSynchronize', DriverError],
    ['cuStreamCreateWithPriority', DriverError],
    ['cuStreamQuery', DriverError],
  ])('%s', (fn, expected) => {
    const device = open(backend);
    const stream = device.createStream();
    const event = device.createEvent();
    event.record(stream);
    device.mock.failNth(fn, 1);
    const everything = () => {
      device.memGetInfo();
      device.addressFree(device.addressReserve(PAGE), PAGE);
      const page = new Int32Array(1);
      device.memCreate(PAGE, page);
      device.memRelease(page);
      device.createEvent().record(stream);
      event.query();
      event.synchronize();
      stream.query();
      stream.synchronize();
      device.createStream().destroy();
      device.synchronize();
    };
    expect(everything).toThrow(expected);
    everything();
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test("'*' means any call, and failures can be taken back", () => {
    const device = open(backend);
    device.mock.failNth('*', 2);
    device.memGetInfo();
    expect(() => device.malloc(MIB)).toThrow(DeviceOutOfMemoryError);
    device.mock.failNth('*', 1);
    device.mock.failNth('cudaMalloc', 1);
    device.mock.clearFailures();
    device.free(device.malloc(MIB));
  });

  test('a failure of its own that does not exist is refused', () => {
    const device = open(backend);
    expect(() => device.mock.failNth('cudaMallocc', 1)).toThrow(ConfigError);
    expect(() => device.mock.failNth('cudaMalloc', 0)).toThrow(ConfigError);
    expect(() => device.mock.failNth('cudaMalloc', 1.5)).toThrow(ConfigError);
    expect(() => device.mock.failNth('cudaMalloc', 1, 'CUDA_ERROR_NO_SUCH')).toThrow(ConfigError);
    expect(() => device.mock.failNth('cudaMalloc', 1, 123456)).toThrow(ConfigError);
    expect(() => device.mock.takeByOthers(0.5)).toThrow(InvalidSizeError);
    device.free(device.malloc(MIB));
  });

  test.each([1, 2, 3])('creating a run of pages fails at page %s: none is left', (n) => {
    const device = open(backend);
    device.mock.failNth('cuMemCreate', n);
    const handles = new Int32Array(PAGES).fill(99);
    expect(() => device.memCreate(PAGE, handles)).toThrow(DeviceOutOfMemoryError);
    expect(Array.from(handles)).toEqual([99, 99, 99]);
    expect(device.memGetInfo().free).toBe(64 * MIB);
    expect(device.driverCalls()).toMatchObject({ cuMemCreate: n - 1, cuMemCreate_failed: 1, cuMemRelease: n - 1 });
    device.memCreate(PAGE, handles);
    device.memRelease(handles);
  });

  test.each([
    ['cuMemMap', 1, 0],
    ['cuMemMap', 2, 1],
    ['cuMemMap', 3, 2],
    ['cuMemSetAccess', 1, 3],
  ])('mapping a run fails at %s number %s: nothing is mapped, and it works the next time', (fn, n, undone) => {
    const device = open(backend);
    const address = device.addressReserve(PAGES * PAGE);
    const handles = new Int32Array(PAGES);
    device.memCreate(PAGE, handles);
    device.mock.failNth(fn, n, 'CUDA_ERROR_UNKNOWN');
    expect(thrownBy(() => device.memMap(address, PAGE, handles))).toMatchObject({
      fn,
      cudaError: 'CUDA_ERROR_UNKNOWN',
    });
    expect(device.driverCalls()).toMatchObject({ cuMemUnmap: undone, [`${fn}_failed`]: 1, cuMemRelease: 0 });
    device.memMap(address, PAGE, handles);
    device.memUnmap(address, PAGE, PAGES);
    device.memRelease(handles);
    device.addressFree(address, PAGES * PAGE);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test.each([1, 2, 3])('unmapping a run fails at page %s: all is mapped as before', (n) => {
    const device = open(backend);
    const { address, bytes, handles } = mapped(device, PAGES);
    device.mock.failNth('cuMemUnmap', n, 'CUDA_ERROR_UNKNOWN');
    expect(() => device.memUnmap(address, PAGE, PAGES)).toThrow(DriverError);
    expect(device.driverCalls()).toMatchObject({ cuMemUnmap: n - 1, cuMemUnmap_failed: 1, cuMemMap: PAGES + n - 1 });
    expect(() => device.addressFree(address, bytes)).toThrow(InvalidAddressError);
    device.memUnmap(address, PAGE, PAGES);
    device.memRelease(handles);
    device.addressFree(address, bytes);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('unmapping fails after pages were released: they are mapped again and still count', () => {
    const device = open(backend);
    const { address, handles } = mapped(device, PAGES);
    device.memRelease(handles);
    device.mock.failNth('cuMemUnmap', 2, 'CUDA_ERROR_UNKNOWN');
    expect(() => device.memUnmap(address, PAGE, PAGES)).toThrow(DriverError);
    const { free } = device.memGetInfo();
    device.memUnmap(address, PAGE, PAGES);
    expect([free, device.memGetInfo().free]).toEqual([64 * MIB - PAGES * PAGE, 64 * MIB]);
  });

  test('a page that was released while mapped is lost to a failure of its last unmapping, until the device is closed', () => {
    const device = open(backend, { index: 50 });
    const { address, handles } = mapped(device, 1);
    device.memRelease(handles);
    device.mock.failNth('cuMemRelease', 1, 'CUDA_ERROR_UNKNOWN');
    expect(thrownBy(() => device.memUnmap(address, PAGE, 1))).toMatchObject({ fn: 'cuMemRelease' });
    expect(() => device.memUnmap(address, PAGE, 1)).toThrow(InvalidAddressError);
    expect(device.memGetInfo().free).toBe(64 * MIB - PAGE);
  });

  test.each([1, 2, 3])('releasing fails at page %s: the entries say which are left', (n) => {
    const device = open(backend);
    const handles = new Int32Array(PAGES);
    device.memCreate(PAGE, handles);
    const made = Array.from(handles);
    device.mock.failNth('cuMemRelease', n, 'CUDA_ERROR_UNKNOWN');
    expect(() => device.memRelease(handles)).toThrow(DriverError);
    expect(Array.from(handles)).toEqual(made.map((handle, i) => (i < n - 1 ? -1 : handle)));
    device.memRelease(handles);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });
});

describe.each(['sim', 'mock'] as const)('%s: the world outside', (backend) => {
  test('another process takes memory and gives it back', () => {
    const device = open(backend);
    device.mock.takeByOthers(60 * MIB);
    expect(device.memGetInfo()).toEqual({ free: 4 * MIB, total: 64 * MIB });
    expect(() => device.malloc(5 * MIB)).toThrow(DeviceOutOfMemoryError);
    const address = device.malloc(4 * MIB);
    device.mock.takeByOthers(10 * MIB);
    expect(device.memGetInfo().free).toBe(0);
    device.mock.takeByOthers(-100 * MIB);
    expect(device.memGetInfo().free).toBe(60 * MIB);
    device.free(address);
  });

  test('a lost device fails every call, with its own error, and can still be closed', () => {
    const device = open(backend);
    const address = device.malloc(MIB);
    const stream = device.createStream();
    const event = device.createEvent();
    device.mock.loseDevice();
    const calls: (() => unknown)[] = [
      () => device.malloc(MIB),
      () => device.free(address),
      () => device.memGetInfo(),
      () => device.addressReserve(PAGE),
      () => device.memCreate(PAGE, new Int32Array(2)),
      () => device.synchronize(),
      () => device.createStream(),
      () => device.createEvent(),
      () => stream.synchronize(),
      () => event.record(stream),
    ];
    for (const call of calls) {
      const error = thrownBy(call);
      expect(error).toBeInstanceOf(DeviceLostError);
      expect(error).toMatchObject({ code: 'ERR_CUDALLOC_DEVICE_LOST', cudaCode: 719 });
    }
    device.mock.clearFailures();
    expect(() => device.malloc(MIB)).toThrow(DeviceLostError);
    device.close();
    expect(device.closed).toBe(true);
  });

  test('a device can be lost for a named reason', () => {
    const device = open(backend);
    device.mock.loseDevice('CUDA_ERROR_ECC_UNCORRECTABLE');
    expect(thrownBy(() => device.addressReserve(PAGE))).toMatchObject({ cudaError: 'CUDA_ERROR_ECC_UNCORRECTABLE' });
  });

  test('while a stream is being captured, what would break the capture is refused', () => {
    const device = open(backend);
    const { address, handles } = mapped(device, 2);
    const segment = device.malloc(MIB);
    const stream = device.createStream();
    const event = device.createEvent();
    event.record(stream);
    const room = device.addressReserve(PAGE);
    const before = device.memGetInfo();
    device.mock.setCapturing(stream, true);
    expect([stream.isCapturing(), device.defaultStream.isCapturing()]).toEqual([true, false]);
    const calls: (() => unknown)[] = [
      () => device.malloc(MIB),
      () => device.free(segment),
      () => device.memCreate(PAGE, new Int32Array(1)),
      () => device.memMap(room, PAGE, handles.subarray(0, 1)),
      () => device.memUnmap(address, PAGE, 2),
      () => device.synchronize(),
      () => stream.synchronize(),
      () => event.query(),
      () => event.synchronize(),
    ];
    for (const call of calls) expect(call).toThrow(CapturingError);
    device.mock.setCapturing(stream, false);
    expect(stream.isCapturing()).toBe(false);
    expect(device.memGetInfo()).toEqual(before);
    device.free(segment);
    device.memUnmap(address, PAGE, 2);
    device.memRelease(handles);
    expect(event.query()).toBe(true);
  });

  test('neither a captured stream nor its device can be taken away before the capture has ended', () => {
    const device = open(backend);
    const stream = device.createStream();
    device.mock.setCapturing(stream, true);
    expect(() => stream.destroy()).toThrow(CapturingError);
    expect(() => device.close()).toThrow(CapturingError);
    expect(device.closed).toBe(false);
    device.mock.setCapturing(stream, false);
    device.free(device.malloc(MIB));
    stream.destroy();
    device.close();
    expect(device.closed).toBe(true);
  });

  test('in a capture, what does not break it goes on', () => {
    const device = open(backend);
    const handles = new Int32Array(1);
    device.memCreate(PAGE, handles);
    const stream = device.createStream();
    device.mock.setCapturing(stream, true);
    device.memGetInfo();
    device.memRelease(handles);
    device.addressFree(device.addressReserve(PAGE), PAGE);
    device.createEvent().destroy();
    device.createStream().destroy();
    device.mock.setCapturing(stream, false);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('counters can be reset, driver calls count on', () => {
    const device = open(backend);
    device.free(device.malloc(MIB));
    device.mock.resetCounters();
    device.free(device.malloc(MIB));
    device.memGetInfo();
    expect(device.mock.counters()).toMatchObject({ cudaMalloc: 1, cudaFree: 1, cudaMemGetInfo: 1, cuMemCreate: 0 });
    expect(device.driverCalls()).toMatchObject({ cudaMalloc: 2, cudaFree: 2, cudaMemGetInfo: 1 });
  });
});

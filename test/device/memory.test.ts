// Memory of the stand-ins: allocations, reservations, pages. The simulated device and the mock have to agree in everything.

import { describe, expect, test } from 'vitest';
import {
  AddressSpaceError,
  DeviceOutOfMemoryError,
  DriverError,
  InvalidAddressError,
  InvalidSizeError,
  UseAfterFreeError,
} from '../../lib/errors.js';
import { MIB, mapped, open, PAGE, thrownBy } from '../support/devices.js';

const BAD_SIZES = [0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '16' as unknown as number];
const BAD_ADDRESSES = [-1, 0.5, Number.NaN, 2 ** 53, 4096, undefined as unknown as number];

describe.each(['sim', 'mock'] as const)('%s: allocations', (backend) => {
  test('a device is as large as it was opened', () => {
    const device = open(backend, { capacity: 100 * MIB });
    expect(device).toMatchObject({ backend, totalMemory: 100 * MIB, granularity: PAGE, closed: false });
    expect(device.memGetInfo()).toEqual({ free: 100 * MIB, total: 100 * MIB });
    expect(device.features.virtualMemory).toEqual({ works: true });
  });

  test('the default capacity is 16 GiB', () => {
    const device = open(backend, { capacity: undefined as unknown as number });
    expect(device.totalMemory).toBe(16 * 1024 * MIB);
  });

  test('malloc takes exactly the bytes asked for and free gives them back', () => {
    const device = open(backend);
    const small = device.malloc(1);
    const large = device.malloc(20 * MIB + 3);
    expect(device.memGetInfo().free).toBe(64 * MIB - 20 * MIB - 4);
    expect(Math.abs(large - small)).toBeGreaterThanOrEqual(1);
    expect(small % 512).toBe(0);
    expect(large % 512).toBe(0);
    device.free(small);
    device.free(large);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('the whole device can be taken, and not a byte more', () => {
    const device = open(backend);
    const address = device.malloc(64 * MIB);
    const error = thrownBy(() => device.malloc(1));
    expect(error).toBeInstanceOf(DeviceOutOfMemoryError);
    expect(error).toMatchObject({ fn: 'cudaMalloc', cudaError: 'cudaErrorMemoryAllocation', cudaCode: 2 });
    device.free(address);
    expect(device.memGetInfo().free).toBe(64 * MIB);
    expect(device.driverCalls()).toMatchObject({ cudaMalloc: 1, cudaMalloc_failed: 1, cudaFree: 1 });
  });

  test.each(BAD_SIZES)('a size of %s is refused and changes nothing', (bytes) => {
    const device = open(backend);
    expect(() => device.malloc(bytes)).toThrow(InvalidSizeError);
    expect(() => device.addressReserve(bytes)).toThrow(InvalidSizeError);
    expect(() => device.memCreate(bytes, new Int32Array(1))).toThrow(InvalidSizeError);
    expect(device.driverCalls()).toMatchObject({
      cudaMalloc: 0,
      cudaMalloc_failed: 0,
      cuMemCreate: 0,
      cuMemAddressReserve: 0,
    });
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test.each(BAD_ADDRESSES)('freeing %s is refused and changes nothing', (address) => {
    const device = open(backend);
    device.malloc(MIB);
    expect(() => device.free(address)).toThrow(InvalidAddressError);
    expect(() => device.addressFree(address, PAGE)).toThrow(InvalidAddressError);
    expect(() => device.memMap(address, PAGE, new Int32Array(1))).toThrow(InvalidAddressError);
    expect(() => device.memUnmap(address, PAGE, 1)).toThrow(InvalidAddressError);
    expect(device.memGetInfo().free).toBe(63 * MIB);
  });

  test('an address is freed once, by its start, on its own device', () => {
    const device = open(backend);
    const other = open(backend);
    const address = device.malloc(MIB);
    expect(() => device.free(address + 512)).toThrow(InvalidAddressError);
    expect(() => other.free(address)).toThrow(InvalidAddressError);
    device.free(address);
    expect(() => device.free(address)).toThrow(InvalidAddressError);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });
});

describe.each(['sim', 'mock'] as const)('%s: virtual memory', (backend) => {
  test('addresses cost no memory and may exceed the device', () => {
    const device = open(backend);
    const address = device.addressReserve(1024 * MIB);
    expect(address % PAGE).toBe(0);
    expect(device.memGetInfo().free).toBe(64 * MIB);
    device.addressFree(address, 1024 * MIB);
    expect(device.driverCalls()).toMatchObject({ cuMemAddressReserve: 1, cuMemAddressFree: 1, cuMemCreate: 0 });
  });

  test('a reservation honours its alignment', () => {
    const device = open(backend);
    device.addressReserve(PAGE);
    const address = device.addressReserve(PAGE, 64 * MIB);
    expect(address % (64 * MIB)).toBe(0);
  });

  test.each([
    [PAGE + 1, 0],
    [PAGE, 3 * MIB],
    [2 ** 53 - PAGE, 0],
  ])('a reservation of %s bytes aligned to %s is refused', (bytes, alignment) => {
    const device = open(backend);
    const error = thrownBy(() => device.addressReserve(bytes, alignment));
    expect(error).toBeInstanceOf(AddressSpaceError);
    expect(error).toMatchObject({ fn: 'cuMemAddressReserve', code: 'ERR_CUDALLOC_ADDRESS_SPACE' });
    expect(device.driverCalls()).toMatchObject({ cuMemAddressReserve: 0, cuMemAddressReserve_failed: 1 });
  });

  test('a reservation is freed whole, once, and empty', () => {
    const device = open(backend);
    const { address, bytes } = mapped(device, 2);
    expect(() => device.addressFree(address + PAGE, PAGE)).toThrow(InvalidAddressError);
    expect(() => device.addressFree(address, PAGE)).toThrow(InvalidAddressError);
    expect(() => device.addressFree(address, bytes)).toThrow(/mapped/);
    device.memUnmap(address, PAGE, 2);
    device.addressFree(address, bytes);
    expect(() => device.addressFree(address, bytes)).toThrow(InvalidAddressError);
  });

  test('a page costs memory from its creation until it is both released and unmapped', () => {
    const device = open(backend);
    const { address, handles } = mapped(device, 3);
    expect(device.memGetInfo().free).toBe(64 * MIB - 3 * PAGE);
    device.memRelease(handles);
    expect(Array.from(handles)).toEqual([-1, -1, -1]);
    expect(device.memGetInfo().free).toBe(64 * MIB - 3 * PAGE);
    device.memUnmap(address, PAGE, 1);
    expect(device.memGetInfo().free).toBe(64 * MIB - 2 * PAGE);
    device.memUnmap(address + PAGE, PAGE, 2);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('one page may be mapped at two addresses and counts once', () => {
    const device = open(backend);
    const { address, handles } = mapped(device, 1);
    const alias = device.addressReserve(2 * PAGE);
    device.memMap(alias + PAGE, PAGE, handles);
    device.memRelease(handles);
    device.memUnmap(address, PAGE, 1);
    expect(device.memGetInfo().free).toBe(64 * MIB - PAGE);
    device.memUnmap(alias + PAGE, PAGE, 1);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('pages may be of several granules', () => {
    const device = open(backend);
    const handles = new Int32Array(2);
    const address = device.addressReserve(40 * MIB);
    device.memCreate(20 * MIB, handles);
    device.memMap(address, 20 * MIB, handles);
    expect(() => device.memUnmap(address, PAGE, 1)).toThrow(InvalidAddressError);
    expect(() => device.memUnmap(address + PAGE, 20 * MIB, 1)).toThrow(InvalidAddressError);
    device.memUnmap(address, 20 * MIB, 2);
    device.memRelease(handles);
    expect(device.driverCalls()).toMatchObject({ cuMemMap: 2, cuMemSetAccess: 1, cuMemUnmap: 2, cuMemRelease: 2 });
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('a run of pages that does not fit creates none of them', () => {
    const device = open(backend);
    const handles = Int32Array.of(7, 7, 7, 7);
    const error = thrownBy(() => device.memCreate(20 * MIB, handles));
    expect(error).toBeInstanceOf(DeviceOutOfMemoryError);
    expect(error).toMatchObject({ fn: 'cuMemCreate', cudaError: 'CUDA_ERROR_OUT_OF_MEMORY', cudaCode: 2 });
    expect(Array.from(handles)).toEqual([7, 7, 7, 7]);
    expect(device.memGetInfo().free).toBe(64 * MIB);
    expect(device.driverCalls()).toMatchObject({ cuMemCreate: 3, cuMemCreate_failed: 1, cuMemRelease: 3, cuMemMap: 0 });
  });

  test('mapping is refused over a mapping, outside a reservation, misaligned, and with a wrong page size', () => {
    const device = open(backend);
    const { address, handles } = mapped(device, 2);
    const fresh = new Int32Array(2);
    device.memCreate(PAGE, fresh);
    expect(() => device.memMap(address, PAGE, fresh)).toThrow(InvalidAddressError);
    expect(() => device.memMap(address + PAGE, PAGE, fresh)).toThrow(InvalidAddressError);
    const room = device.addressReserve(4 * PAGE);
    expect(() => device.memMap(room + 512, PAGE, fresh)).toThrow(DriverError);
    expect(() => device.memMap(room, 2 * PAGE, fresh)).toThrow(InvalidSizeError);
    device.memMap(room, PAGE, fresh);
    device.memUnmap(address, PAGE, 2);
    device.memUnmap(room, PAGE, 2);
    device.memRelease(handles);
    device.memRelease(fresh);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('a run that meets a mapping half-way maps nothing', () => {
    const device = open(backend);
    const address = device.addressReserve(4 * PAGE);
    const handles = new Int32Array(4);
    device.memCreate(PAGE, handles);
    device.memMap(address + 2 * PAGE, PAGE, handles.subarray(2, 3));
    expect(() => device.memMap(address, PAGE, handles)).toThrow(InvalidAddressError);
    device.memMap(address, PAGE, handles.subarray(0, 2));
    device.memUnmap(address, PAGE, 3);
    expect(device.driverCalls()).toMatchObject({ cuMemMap: 3, cuMemUnmap: 3, cuMemSetAccess: 2 });
  });

  test('unmapping what is not mapped is refused, and a run that meets a hole unmaps nothing', () => {
    const device = open(backend);
    const { address } = mapped(device, 4);
    device.memUnmap(address + 2 * PAGE, PAGE, 1);
    expect(() => device.memUnmap(address + 2 * PAGE, PAGE, 1)).toThrow(InvalidAddressError);
    expect(() => device.memUnmap(address, PAGE, 4)).toThrow(InvalidAddressError);
    expect(device.driverCalls()).toMatchObject({ cuMemUnmap: 1, cuMemMap: 4 });
    device.memUnmap(address, PAGE, 2);
    device.memUnmap(address + 3 * PAGE, PAGE, 1);
  });

  test('a handle is released once; -1 is passed over', () => {
    const device = open(backend);
    const handles = new Int32Array(3);
    device.memCreate(PAGE, handles);
    const copy = handles.slice();
    device.memRelease(handles.subarray(1, 2));
    device.memRelease(handles);
    expect(() => device.memRelease(copy)).toThrow(UseAfterFreeError);
    const address = device.addressReserve(PAGE);
    expect(() => device.memMap(address, PAGE, copy.subarray(0, 1))).toThrow(UseAfterFreeError);
    expect(() => device.memMap(address, PAGE, Int32Array.of(-1))).toThrow(InvalidAddressError);
    expect(() => device.memRelease(Int32Array.of(2 ** 30))).toThrow(InvalidAddressError);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('empty runs do nothing', () => {
    const device = open(backend);
    const address = device.addressReserve(PAGE);
    const none = new Int32Array(0);
    device.memCreate(PAGE, none);
    device.memMap(address, PAGE, none);
    device.memUnmap(address, PAGE, 0);
    device.memRelease(none);
    expect(device.driverCalls()).toMatchObject({ cuMemCreate: 0, cuMemMap: 0, cuMemSetAccess: 0, cuMemUnmap: 0 });
  });
});

test('addresses of the simulated device ascend, never come back and stay below 2^53', () => {
  const device = open('sim');
  let last = 0x7f0000000000 - 1;
  for (let i = 0; i < 100; i++) {
    const segment = device.malloc(3 * MIB);
    const range = device.addressReserve(PAGE);
    expect(segment).toBeGreaterThan(last);
    expect(range).toBeGreaterThanOrEqual(segment + 3 * MIB);
    expect([segment % PAGE, range % PAGE]).toEqual([0, 0]);
    device.free(segment);
    device.addressFree(range, PAGE);
    last = range + PAGE - 1;
  }
  expect(last).toBeLessThan(2 ** 53);
});

// Kernels: how arguments are laid out, and launches of the one kernel that the mock has a twin of.

import { describe, expect, test } from 'vitest';
import { launchDimensions, packArguments } from '../../lib/device/native-kernel.js';
import type { KernelArgument } from '../../lib/device/types.js';
import { DeviceLostError, DriverError, UseAfterFreeError } from '../../lib/errors.js';
import { open, thrownBy } from '../support/devices.js';

const PTX = new TextEncoder().encode(`.version 7.0
.target sm_75
.address_size 64
.visible .entry cudalloc_fill_u32(.param .u64 target, .param .u32 value, .param .u64 count) { ret; }
.visible .entry cudalloc_has_no_twin(.param .u64 target) { ret; }
\0`);
const GRID = { grid: [1], block: [32] } as const;

describe('arguments', () => {
  test('each lies at its natural alignment, little-endian', () => {
    const { parameters, offsets } = packArguments([
      { type: 'u32', value: 0xdeadbeef },
      { type: 'pointer', value: 0x7f0000000200 },
      { type: 'i32', value: -2 },
      { type: 'f32', value: 1.5 },
      { type: 'f64', value: -0.1 },
      { type: 'i64', value: -(2n ** 63n) },
      { type: 'u64', value: 2n ** 64n - 1n },
      { type: 'u32', value: 1 },
    ]);
    const view = new DataView(parameters.buffer, parameters.byteOffset, parameters.byteLength);
    expect(Array.from(offsets)).toEqual([0, 8, 16, 20, 24, 32, 40, 48]);
    expect(parameters.byteLength).toBe(52);
    expect(view.getUint32(0, true)).toBe(0xdeadbeef);
    expect(view.getBigUint64(8, true)).toBe(0x7f0000000200n);
    expect(view.getInt32(16, true)).toBe(-2);
    expect(view.getFloat32(20, true)).toBe(1.5);
    expect(view.getFloat64(24, true)).toBe(-0.1);
    expect(view.getBigInt64(32, true)).toBe(-(2n ** 63n));
    expect(view.getBigUint64(40, true)).toBe(2n ** 64n - 1n);
  });

  test.each<KernelArgument>([
    { type: 'u32', value: -1 },
    { type: 'u32', value: 2 ** 32 },
    { type: 'u32', value: 0.5 },
    { type: 'i32', value: 2 ** 31 },
    { type: 'i32', value: -(2 ** 31) - 1 },
    { type: 'pointer', value: -1 },
    { type: 'pointer', value: 2 ** 53 },
    { type: 'pointer', value: Number.NaN },
    { type: 'u64', value: 2n ** 64n },
    { type: 'u64', value: -1n },
    { type: 'i64', value: 2n ** 63n },
    { type: 'i64', value: 1.5 },
    { type: 'u128' as 'u64', value: 1 },
  ])('$type $value is refused', (argument) => {
    expect(() => packArguments([argument])).toThrow(RangeError);
  });

  test('dimensions left out are 1', () => {
    expect(Array.from(launchDimensions({ grid: [4], block: [2, 3], sharedMemory: 512 }))).toEqual([
      4, 1, 1, 2, 3, 1, 512,
    ]);
    expect(Array.from(launchDimensions({ grid: [1, 2, 3], block: [4, 5, 6] }))).toEqual([1, 2, 3, 4, 5, 6, 0]);
  });

  test.each([0, -1, 1.5, Number.NaN, 2 ** 32])('a dimension of %s is refused', (size) => {
    expect(() => launchDimensions({ grid: [size], block: [1] })).toThrow(RangeError);
    expect(() => launchDimensions({ grid: [1], block: [1, 1, size] })).toThrow(RangeError);
  });
});

describe('mock', () => {
  test('a kernel runs on device memory, ordered on its stream', () => {
    const device = open('mock');
    const stream = device.createStream();
    const address = device.malloc(4096);
    device.memset(address, 0, 4096, stream);
    const kernel = device.loadModule(PTX).getFunction('cudalloc_fill_u32');
    expect(kernel.name).toBe('cudalloc_fill_u32');
    const args: KernelArgument[] = [
      { type: 'pointer', value: address + 4 },
      { type: 'u32', value: 0x01020304 },
      { type: 'u64', value: 1000n },
    ];
    kernel.launch({ ...GRID, stream }, args);
    const words = new Uint32Array(1024);
    device.memcpyDtoH(new Uint8Array(words.buffer), address, stream);
    expect(words[0]).toBe(0);
    expect(words.subarray(1, 1001).every((word) => word === 0x01020304)).toBe(true);
    expect(words.subarray(1001).every((word) => word === 0)).toBe(true);
  });

  test('what cannot be loaded or found is refused', () => {
    const device = open('mock');
    expect(thrownBy(() => device.loadModule(new Uint8Array([1, 2, 3])))).toMatchObject({
      cudaError: 'CUDA_ERROR_INVALID_IMAGE',
    });
    const module = device.loadModule(PTX);
    expect(thrownBy(() => module.getFunction('cudalloc_nothing'))).toMatchObject({ cudaError: 'CUDA_ERROR_NOT_FOUND' });
    expect(() => module.getFunction('cudalloc_has_no_twin')).toThrow(DriverError);
    expect(() => device.loadModule('text' as unknown as Uint8Array)).toThrow(TypeError);
  });

  test('a function of an unloaded module or a closed device is refused', () => {
    const device = open('mock');
    const module = device.loadModule(PTX);
    const kernel = module.getFunction('cudalloc_fill_u32');
    module.unload();
    module.unload();
    expect(() => kernel.launch(GRID, [])).toThrow(UseAfterFreeError);
    expect(() => module.getFunction('cudalloc_fill_u32')).toThrow(UseAfterFreeError);
    const last = device.loadModule(PTX).getFunction('cudalloc_fill_u32');
    device.close();
    expect(() => last.launch(GRID, [])).toThrow(UseAfterFreeError);
    module.unload();
  });

  test('a kernel that writes where it may not loses the device', () => {
    const device = open('mock');
    const kernel = device.loadModule(PTX).getFunction('cudalloc_fill_u32');
    const launch = () => {
      kernel.launch(GRID, [
        { type: 'pointer', value: 4096 },
        { type: 'u32', value: 1 },
        { type: 'u64', value: 1 },
      ]);
      device.synchronize();
    };
    const error = thrownBy(launch);
    expect(error).toBeInstanceOf(DeviceLostError);
    expect(error).toMatchObject({ cudaError: 'CUDA_ERROR_ILLEGAL_ADDRESS' });
  });
});

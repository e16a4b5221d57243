// Pages that processes share, at the level of devices. Several processes: test/allocator/sharing.test.ts.

import { describe, expect, test } from 'vitest';
import type { Device, PageSharing } from '../../lib/device/types.js';
import {
  DeviceOutOfMemoryError,
  DriverError,
  InvalidAddressError,
  InvalidSizeError,
  UseAfterFreeError,
} from '../../lib/errors.js';
import { MIB, open, PAGE } from '../support/devices.js';

function sharingOf(device: Device): PageSharing {
  if (device.sharing === null) throw new Error('this device shares nothing');
  return device.sharing;
}

/** Puts a page at addresses of its own. */
function map(device: Device, handle: number, bytes: number): number {
  const address = device.addressReserve(bytes);
  device.memMap(address, bytes, Int32Array.of(handle));
  return address;
}

describe('mock', () => {
  test('two devices of one process see the same bytes', () => {
    const [one, two] = [open('mock'), open('mock')];
    const made = sharingOf(one).createPage(2 * PAGE);
    const source = sharingOf(one).exportPage(made);
    expect(source).toMatchObject({ process: process.pid, token: expect.stringMatching(/^[0-9a-f]{32}$/) });
    const imported = sharingOf(two).importPage(2 * PAGE, source);
    const [here, there] = [map(one, made, 2 * PAGE), map(two, imported, 2 * PAGE)];
    one.memset(here + PAGE, 5, 16);
    one.synchronize();
    const bytes = new Uint8Array(16);
    two.memcpyDtoH(bytes, there + PAGE);
    expect([...bytes]).toEqual(Array(16).fill(5));
    expect(one.memGetInfo().free).toBe(64 * MIB - 2 * PAGE);
    expect(two.memGetInfo().free).toBe(64 * MIB);
    // Closing gives back what each has of it.
    one.close();
    two.memcpyDtoH(bytes, there + PAGE);
    expect(bytes[0]).toBe(5);
    expect(() => sharingOf(two).importPage(2 * PAGE, source)).toThrow(UseAfterFreeError);
    two.close();
  });

  test('a second opening of the device exports and releases what the first one made', () => {
    const first = open('mock');
    const second = open('mock', { index: first.index });
    const made = sharingOf(first).createPage(PAGE);
    expect(sharingOf(second).exportPage(made)).toEqual(sharingOf(first).exportPage(made));
    second.memRelease(Int32Array.of(made));
    expect(() => sharingOf(first).exportPage(made)).toThrow(/page/);
    expect(first.memGetInfo().free).toBe(64 * MIB);
  });

  test('bad input', () => {
    const device = open('mock');
    const sharing = sharingOf(device);
    for (const bytes of [0, -1, 1.5, Number.NaN, 2 ** 60]) {
      expect(() => sharing.createPage(bytes), String(bytes)).toThrow(InvalidSizeError);
      expect(() => sharing.importPage(bytes, 0), String(bytes)).toThrow(InvalidSizeError);
    }
    expect(() => sharing.createPage(MIB)).toThrow(DriverError);
    expect(() => sharing.createPage(66 * MIB)).toThrow(DeviceOutOfMemoryError);
    const plain = new Int32Array(1);
    device.memCreate(PAGE, plain);
    expect(() => sharing.exportPage(plain[0] as number)).toThrow(InvalidAddressError);
    for (const handle of [-1, 0, 123_456]) expect(() => sharing.exportPage(handle)).toThrow(/page/);
    expect(() => sharing.exportPage('1' as never)).toThrow(TypeError);
    const source = sharing.exportPage(sharing.createPage(PAGE));
    expect(() => sharing.importPage(PAGE, { ...source, token: 1 } as never)).toThrow(TypeError);
    expect(() => sharing.importPage(PAGE, null as never)).toThrow(TypeError);
    for (const change of [{ process: -1 }, { descriptor: 1.5 }, { witness: Number.NaN }]) {
      expect(() => sharing.importPage(PAGE, { ...source, ...change })).toThrow(RangeError);
    }
    expect(() => sharing.importPage(PAGE, { ...source, witness: source.descriptor })).toThrow(UseAfterFreeError);
    expect(() => sharing.importPage(PAGE, { ...source, descriptor: source.witness })).toThrow(DriverError);
    const shared = Int32Array.of(sharing.importPage(PAGE, source));
    expect(() => device.offers?.offer(shared)).toThrow(/other processes/);
    device.close();
    expect(() => sharing.createPage(PAGE)).toThrow(UseAfterFreeError);
    expect(() => sharing.importPage(PAGE, source)).toThrow(UseAfterFreeError);
  });
});

test('the simulated device shares nothing', () => {
  expect(open('sim').sharing).toBeNull();
});

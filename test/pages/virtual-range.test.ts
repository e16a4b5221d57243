// A range of addresses: what is mapped where, rounding to whole pages, and failures that leave nothing behind.

import { describe, expect, test } from 'vitest';
import { AddressSpaceError, DeviceOutOfMemoryError, DriverError, InvalidAddressError } from '../../lib/errors.js';
import { PhysicalPages } from '../../lib/pages/physical-pages.js';
import { VirtualRange } from '../../lib/pages/virtual-range.js';
import { MIB, type MockDevice, open, PAGE } from '../support/devices.js';

interface Bench {
  readonly device: MockDevice;
  readonly pages: PhysicalPages;
  readonly range: VirtualRange;
}

function make(backend: 'sim' | 'mock'): Bench {
  const device = open(backend);
  const pages = new PhysicalPages(device);
  return { device, pages, range: new VirtualRange(pages, 96 * MIB, PAGE) };
}

/** Unmaps a stretch and gives its pages back. */
function giveBack({ pages, range }: Bench, offset: number, bytes: number): void {
  pages.release(PAGE, range.unmap(offset, bytes).handles);
}

describe.each(['sim', 'mock'] as const)('%s', (backend) => {
  test('is rounded up to whole pages', () => {
    const { pages } = make(backend);
    const range = new VirtualRange(pages, 50 * MIB + 1, 20 * MIB);
    expect([range.bytes, range.pageBytes]).toEqual([60 * MIB, 20 * MIB]);
  });

  test('maps whole pages and gives back those inside a stretch', () => {
    const bench = make(backend);
    const { device, pages, range } = bench;
    expect(range.map(0, 3 * PAGE - 1)).toBe(3 * PAGE);
    expect(range.map(4 * PAGE, 1)).toBe(PAGE);
    expect(device.memGetInfo().free).toBe(64 * MIB - 4 * PAGE);
    const span = range.unmap(1, 3 * PAGE - 2);
    expect([span.offset, span.bytes, span.handles.length]).toEqual([PAGE, PAGE, 1]);
    pages.release(PAGE, span.handles);
    expect(device.memGetInfo().free).toBe(64 * MIB - 3 * PAGE);
    range.map(PAGE, PAGE);
    giveBack(bench, 0, 3 * PAGE);
    giveBack(bench, 4 * PAGE, PAGE);
    range.free();
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test.each([
    [0, PAGE, true],
    [0, PAGE - 1, false],
    [1, PAGE, false],
    [1, 2 * PAGE - 1, true],
    [1, 2 * PAGE - 2, false],
    [PAGE - 1, PAGE + 1, true],
    [PAGE, 0, false],
  ])('from %i on, %i bytes: a whole page inside: %s', (offset, bytes, expected) => {
    expect(make(backend).range.hasWholePage(offset, bytes)).toBe(expected);
  });

  test('what is not mapped is not unmapped, and a range with pages is not freed', () => {
    const { device, range } = make(backend);
    range.map(0, 2 * PAGE);
    expect(() => range.free()).toThrow(InvalidAddressError);
    expect(() => range.unmap(PAGE, 2 * PAGE)).toThrow(InvalidAddressError);
    expect(device.memGetInfo().free).toBe(64 * MIB - 2 * PAGE);
  });

  test('too large for the device: nothing is mapped and the range can be used', () => {
    const bench = make(backend);
    const { device, range } = bench;
    expect(() => range.map(0, 66 * MIB)).toThrow(DeviceOutOfMemoryError);
    expect(device.memGetInfo().free).toBe(64 * MIB);
    range.map(0, 64 * MIB);
    giveBack(bench, 0, 64 * MIB);
    range.free();
  });

  test.each([
    ['cuMemCreate', 2],
    ['cuMemMap', 1],
    ['cuMemMap', 3],
    ['cuMemSetAccess', 1],
  ])('mapping fails at %s number %i: nothing is left', (fn, n) => {
    const bench = make(backend);
    const { device, pages, range } = bench;
    device.mock.failNth(fn, n, 'CUDA_ERROR_UNKNOWN');
    expect(() => range.map(PAGE, 3 * PAGE)).toThrow(DriverError);
    expect([device.memGetInfo().free, pages.keptBytes]).toEqual([64 * MIB, 0]);
    range.map(PAGE, 3 * PAGE);
    giveBack(bench, PAGE, 3 * PAGE);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test.each([1, 2, 3])('unmapping fails at page %i: all is as before', (n) => {
    const bench = make(backend);
    const { device, range } = bench;
    range.map(0, 3 * PAGE);
    device.mock.failNth('cuMemUnmap', n, 'CUDA_ERROR_UNKNOWN');
    expect(() => range.unmap(0, 3 * PAGE)).toThrow(DriverError);
    giveBack(bench, 0, 3 * PAGE);
    range.free();
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('a refused reservation is an error of its own kind', () => {
    const { device, pages } = make(backend);
    device.mock.failNth('cuMemAddressReserve', 1);
    expect(() => new VirtualRange(pages, 96 * MIB, PAGE)).toThrow(AddressSpaceError);
  });
});

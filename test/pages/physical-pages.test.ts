// Physical pages: all or none, and what the driver does not take back is not lost.

import { describe, expect, test } from 'vitest';
import { DeviceOutOfMemoryError, DriverError } from '../../lib/errors.js';
import { PhysicalPages } from '../../lib/pages/physical-pages.js';
import { MIB, open, PAGE } from '../support/devices.js';

describe.each(['sim', 'mock'] as const)('%s', (backend) => {
  test('creates and gives back', () => {
    const device = open(backend);
    const pages = new PhysicalPages(device);
    const handles = new Int32Array(4);
    pages.create(PAGE, handles);
    expect(new Set(handles).size).toBe(4);
    expect(device.memGetInfo().free).toBe(64 * MIB - 4 * PAGE);
    pages.release(PAGE, handles);
    expect([device.memGetInfo().free, pages.keptBytes]).toEqual([64 * MIB, 0]);
  });

  test('too many: none', () => {
    const device = open(backend);
    const pages = new PhysicalPages(device);
    expect(() => pages.create(PAGE, new Int32Array(33))).toThrow(DeviceOutOfMemoryError);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test.each([1, 2, 3, 4])('a release that fails at page %i keeps the rest, by size, and uses it first', (n) => {
    const device = open(backend);
    const pages = new PhysicalPages(device);
    const handles = new Int32Array(4);
    pages.create(PAGE, handles);
    const made = [...handles].slice(n - 1);
    device.mock.failNth('cuMemRelease', n, 'CUDA_ERROR_UNKNOWN');
    expect(() => pages.release(PAGE, handles)).toThrow(DriverError);
    const kept = made.length;
    expect(pages.keptBytes).toBe(kept * PAGE);
    expect(device.memGetInfo().free).toBe(64 * MIB - kept * PAGE);

    const larger = new Int32Array(1);
    pages.create(2 * PAGE, larger);
    expect(made).not.toContain(larger[0]);
    const created = device.driverCalls().cuMemCreate ?? 0;
    const again = new Int32Array(kept + 2);
    pages.create(PAGE, again);
    expect(device.driverCalls().cuMemCreate).toBe(created + 2);
    expect(new Set(again).size).toBe(kept + 2);
    expect([...again]).toEqual(expect.arrayContaining(made));
    expect(pages.keptBytes).toBe(0);
    pages.release(PAGE, again);
    pages.release(2 * PAGE, larger);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('running out while kept pages are used again changes nothing', () => {
    const device = open(backend);
    const pages = new PhysicalPages(device);
    const handles = new Int32Array(2);
    pages.create(PAGE, handles);
    device.mock.failNth('cuMemRelease', 1, 'CUDA_ERROR_UNKNOWN');
    expect(() => pages.release(PAGE, handles)).toThrow(DriverError);
    expect(() => pages.create(PAGE, new Int32Array(33))).toThrow(DeviceOutOfMemoryError);
    expect(pages.keptBytes).toBe(2 * PAGE);
    pages.releaseKept();
    expect([pages.keptBytes, device.memGetInfo().free]).toEqual([0, 64 * MIB]);
  });

  test('trying again to give back may fail again, and again loses nothing', () => {
    const device = open(backend);
    const pages = new PhysicalPages(device);
    const handles = new Int32Array(3);
    pages.create(PAGE, handles);
    for (const n of [1, 3]) device.mock.failNth('cuMemRelease', n, 'CUDA_ERROR_UNKNOWN');
    expect(() => pages.release(PAGE, handles)).toThrow(DriverError);
    expect(() => pages.releaseKept()).toThrow(DriverError);
    expect(pages.keptBytes).toBe(2 * PAGE);
    pages.releaseKept();
    expect([pages.keptBytes, device.memGetInfo().free]).toEqual([0, 64 * MIB]);
  });
});

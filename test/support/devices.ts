// Devices for tests: opened with a small capacity and closed again after each test.

import { afterEach } from 'vitest';
import { openDevice } from '../../lib/device/open.js';
import type { Device, MockControls, OpenDeviceOptions } from '../../lib/device/types.js';

export const MIB = 1024 * 1024;
/** Page size of the tests: the granularity of every stand-in. */
export const PAGE = 2 * MIB;

export type MockDevice = Device & { readonly mock: MockControls };

const opened: Device[] = [];

afterEach(() => {
  for (const device of opened.splice(0)) device.close();
});

/** A fresh device of 64 MiB unless told otherwise; closed after the test. */
export function open(backend: 'sim' | 'mock', options: OpenDeviceOptions = {}): MockDevice {
  const device = openDevice({ backend, capacity: 64 * MIB, ...options });
  opened.push(device);
  return device as MockDevice;
}

/** What a call throws. */
export function thrownBy(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Error('the call was expected to throw and did not');
}

/** A range of addresses with pages behind it. */
export function mapped(device: Device, pages: number): { address: number; bytes: number; handles: Int32Array } {
  const bytes = pages * PAGE;
  const handles = new Int32Array(pages);
  const address = device.addressReserve(bytes);
  device.memCreate(PAGE, handles);
  device.memMap(address, PAGE, handles);
  return { address, bytes, handles };
}

// Which device is opened, and what is said when it cannot be.

import { afterEach, describe, expect, test, vi } from 'vitest';
import { openDevice } from '../../lib/device/open.js';
import type { OpenDeviceOptions } from '../../lib/device/types.js';
import { ConfigError } from '../../lib/errors.js';
import { MIB } from '../support/devices.js';

afterEach(() => vi.unstubAllEnvs());

function backendOf(options?: OpenDeviceOptions): string {
  const device = openDevice(options);
  device.close();
  return device.backend;
}

test.each([
  { backend: 'gpu' },
  { backend: '' },
  { backend: 7 },
  { backend: null },
  { index: -1 },
  { index: 0.5 },
  { index: Number.NaN },
  { index: '0' },
  { capacity: 0 },
  { capacity: -1 },
  { capacity: 1.5 },
  { capacity: 2 ** 53 },
  { capacity: '16GiB' },
])('%j is refused', (bad) => {
  for (const backend of ['sim', 'mock', 'cuda'] as const) {
    expect(() => openDevice({ backend, ...(bad as OpenDeviceOptions) })).toThrow(ConfigError);
  }
});

test('each backend is what was asked for', () => {
  expect(backendOf({ backend: 'sim' })).toBe('sim');
  expect(backendOf({ backend: 'mock' })).toBe('mock');
});

test('CUDALLOC_BACKEND decides what auto means, and nothing else', () => {
  vi.stubEnv('CUDALLOC_BACKEND', 'sim');
  expect([backendOf(), backendOf({ backend: 'auto' }), backendOf({ backend: 'mock' })]).toEqual(['sim', 'sim', 'mock']);
  vi.stubEnv('CUDALLOC_BACKEND', 'mock');
  expect(backendOf()).toBe('mock');
  vi.stubEnv('CUDALLOC_BACKEND', 'gpu');
  expect(() => openDevice()).toThrow(/CUDALLOC_BACKEND: "gpu" is not one of auto, cuda, mock, sim/);
  expect(backendOf({ backend: 'sim' })).toBe('sim');
  vi.stubEnv('CUDALLOC_BACKEND', '');
  expect(['cuda', 'mock']).toContain(backendOf());
});

describe('mock devices', () => {
  test('an index that is given is one device for all who give it', () => {
    const [one, two] = [
      openDevice({ backend: 'mock', index: 40, capacity: 64 * MIB }),
      openDevice({ backend: 'mock', index: 40 }),
    ];
    const other = openDevice({ backend: 'mock', index: 41, capacity: 64 * MIB });
    one.malloc(MIB);
    expect([two.index, two.totalMemory, two.memGetInfo().free]).toEqual([40, 64 * MIB, 63 * MIB]);
    expect(other.memGetInfo().free).toBe(64 * MIB);
    one.close();
    expect(two.memGetInfo().free).toBe(64 * MIB);
    two.close();
    other.close();
  });

  test('another capacity than the open device has is refused', () => {
    const device = openDevice({ backend: 'mock', index: 42, capacity: 64 * MIB });
    expect(() => openDevice({ backend: 'mock', index: 42, capacity: 65 * MIB })).toThrow(ConfigError);
    openDevice({ backend: 'mock', index: 42, capacity: 64 * MIB }).close();
    device.close();
    const afresh = openDevice({ backend: 'mock', index: 42, capacity: 65 * MIB });
    expect(afresh.totalMemory).toBe(65 * MIB);
    afresh.close();
  });

  test('there is an end to their number', () => {
    expect(() => openDevice({ backend: 'mock', index: 1_000_000 })).toThrow(/device/);
  });
});

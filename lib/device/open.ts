// Chooses the implementation behind a device: what was asked for, or an error that says what is missing. Never swaps one
// backend for another; only `auto` chooses, and says what it took.

import { debuglog } from 'node:util';
import type { Binding, DriverReport } from '../../binding.js';
import { ConfigError, NoDeviceError } from '../errors.js';
import { formatSize } from '../units.js';
import { checkOption } from './check.js';
import { NativeDevice } from './native.js';
import { loadAddon } from './native-addon.js';
import { SimDevice } from './sim.js';
import type { Backend, Device, OpenDeviceOptions } from './types.js';

const BACKENDS: readonly string[] = ['auto', 'cuda', 'mock', 'sim'];
const FRESH = -1;
const debug = debuglog('cudalloc');

/**
 * Opens a device. `device.backend` says what it is; close it when done (`using` does).
 * Cost: the first CUDA device loads the driver and creates its context, which takes a moment.
 * @throws ConfigError for a bad option or `CUDALLOC_BACKEND`
 * @throws AddonMissingError when anything but `sim` is asked for and the addon cannot be loaded
 * @throws NoDeviceError when `cuda` is asked for and there is no driver, no device, or not that one
 */
export function openDevice(options: OpenDeviceOptions = {}): Device {
  const { index, capacity } = options;
  if (index !== undefined) checkOption('index', index, 0);
  if (capacity !== undefined) checkOption('capacity', capacity, 1);
  const asked = askedBackend(options.backend);
  if (asked === 'sim')
    return report(
      new SimDevice({ ...(index !== undefined && { index }), ...(capacity !== undefined && { capacity }) }),
    );

  const binding = loadAddon();
  const backend = asked === 'auto' ? (binding.deviceCount('cuda') > 0 ? 'cuda' : 'mock') : asked;
  if (backend === 'cuda') {
    checkCudaDevice(binding, index ?? 0);
    return report(new NativeDevice(binding, 'cuda', index ?? 0, capacity ?? 0));
  }
  if (asked === 'auto') debug('no CUDA device (%s): taking the CPU mock', whyNoDevice(binding.driverReport()));
  return report(new NativeDevice(binding, 'mock', index ?? FRESH, capacity ?? 0));
}

/** Why there is no CUDA device, without a full stop: the driver library, a function of it, or the device is missing. */
export function whyNoDevice(driver: DriverReport): string {
  return (driver.driverReason || driver.deviceReason || 'The driver reports no device').replace(/\.$/, '');
}

function askedBackend(option: unknown = 'auto'): Backend | 'auto' {
  const fromEnvironment = option === 'auto' && process.env.CUDALLOC_BACKEND ? process.env.CUDALLOC_BACKEND : undefined;
  const value = fromEnvironment ?? option;
  if (typeof value === 'string' && BACKENDS.includes(value)) return value as Backend | 'auto';
  const key = fromEnvironment === undefined ? 'backend' : 'CUDALLOC_BACKEND';
  throw new ConfigError(`${key}: ${JSON.stringify(value)} is not one of ${BACKENDS.join(', ')}`, {
    key,
    value: String(value),
  });
}

function checkCudaDevice(binding: Binding, index: number): void {
  const count = binding.deviceCount('cuda');
  if (index < count) return;
  if (count > 0) {
    throw new NoDeviceError(`There is no CUDA device ${index}: this machine has ${count}, numbered from 0.`);
  }
  throw new NoDeviceError(
    `No CUDA device. ${whyNoDevice(binding.driverReport())}. ` +
      "Run 'cudalloc doctor' for details, or open the CPU mock (backend: 'mock'), which needs no GPU.",
  );
}

function report(device: Device): Device {
  debug('opened %s device %d (%s, %s)', device.backend, device.index, device.name, formatSize(device.totalMemory));
  return device;
}

// Makes the stand-in driver this process's CUDA driver. A driver is loaded once per process, so this has to be imported before
// any device is opened, by a test file that runs in a process of its own.

import { openDevice } from '../../lib/device/open.js';
import type { Device } from '../../lib/device/types.js';
import { buildStandIns, standInEnvironment } from './stand-ins.js';

/** Room for the largest device that a test opens. */
const CAPACITY = 1024 ** 4;

export function useStandInDriver(): void {
  buildStandIns();
  Object.assign(process.env, standInEnvironment({ capacity: CAPACITY }));
}

/** A CUDA device of the stand-in driver that uses up to `capacity` bytes. */
export function openStandIn(capacity: number): Device {
  return openDevice({ backend: 'cuda', capacity });
}

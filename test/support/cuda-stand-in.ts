// Makes the stand-in driver this process's CUDA driver. A driver is loaded once per process, so this has to be imported before
// any device is opened, by a test file that runs in a process of its own. With CUDALLOC_GPU=1 the machine's own driver and card
// take its place (`npm run test:gpu`).

import { openDevice } from '../../lib/device/open.js';
import type { Device } from '../../lib/device/types.js';
import { buildStandIns, standInEnvironment } from './stand-ins.js';

/** Room for the largest device that a test opens. */
const CAPACITY = 1024 ** 4;

const REAL_GPU = process.env.CUDALLOC_GPU === '1';

export function useStandInDriver(): void {
  if (REAL_GPU) return;
  buildStandIns();
  Object.assign(process.env, standInEnvironment({ capacity: CAPACITY }));
}

/** Whether a device of so many bytes can be opened; on a card, a little is left to the context. */
export function fitsDevice(capacity: number): boolean {
  if (!REAL_GPU) return capacity <= CAPACITY;
  const device = openDevice({ backend: 'cuda' });
  const { free } = device.memGetInfo();
  device.close();
  return capacity <= free * 0.95;
}

/** A CUDA device of the stand-in driver that uses up to `capacity` bytes. */
export function openStandIn(capacity: number): Device {
  return openDevice({ backend: 'cuda', capacity });
}

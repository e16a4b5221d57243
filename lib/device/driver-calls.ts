// The names under which calls into CUDA are counted, the same for every backend. A leaf: tables and one function.

import { DRIVER_CALLS, type DriverCallCounts } from './types.js';

const RUNTIME_NAME: ReadonlyMap<string, string> = new Map([
  ['cuMemAlloc', 'cudaMalloc'],
  ['cuMemFree', 'cudaFree'],
  ['cuMemGetInfo', 'cudaMemGetInfo'],
  ['cuEventCreate', 'cudaEventCreate'],
  ['cuEventRecord', 'cudaEventRecord'],
  ['cuEventQuery', 'cudaEventQuery'],
  ['cuEventSynchronize', 'cudaEventSynchronize'],
  ['cuStreamSynchronize', 'cudaStreamSynchronize'],
  ['cuCtxSynchronize', 'cudaDeviceSynchronize'],
]);
const DRIVER_NAME: ReadonlyMap<string, string> = new Map(
  // Segments of the mock and of a device with a runtime library come from cudaMalloc itself.
  [...RUNTIME_NAME]
    .filter(([fn]) => fn !== 'cuMemAlloc' && fn !== 'cuMemFree')
    .map(([driver, runtime]) => [runtime, driver]),
);

/** The name that counts go by: `cudaEventQuery` for `cuEventQuery`; the function's own name where there is no other. */
export function countedName(fn: string): string {
  return RUNTIME_NAME.get(fn) ?? fn;
}

/** The driver function behind a counted name: `cuEventQuery` for `cudaEventQuery`. */
export function driverName(fn: string): string {
  return DRIVER_NAME.get(fn) ?? fn;
}

/** Counts as every backend reports them. */
export function normalizeCounts(raw: DriverCallCounts): Record<string, number> {
  const counts: Record<string, number> = Object.fromEntries(DRIVER_CALLS.map((name) => [name, 0]));
  for (const [key, count] of Object.entries(raw)) {
    const failed = key.endsWith('_failed') ? '_failed' : '';
    const name = countedName(key.slice(0, key.length - failed.length)) + failed;
    counts[name] = (counts[name] ?? 0) + count;
  }
  return counts;
}

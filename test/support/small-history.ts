// A small recording made by hand on the simulated device, with call sites, streams, pools, annotations and an out of memory, as the viewer sees it.

import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { SimDevice } from '../../lib/device/sim.js';
import { OutOfMemoryError } from '../../lib/errors.js';
import type { PyDict, PyValue, Snapshot } from '../../lib/snapshot/model.js';
import { MIB } from '../../lib/units.js';
import { type DeviceHistory, deviceHistory } from '../../lib/viewer/device-history.js';

/** Events: alloc a, b on the other stream, small c; free a; out of memory. */
export function smallSnapshot(): Snapshot {
  const device = new SimDevice({ capacity: 100 * MIB });
  const allocator = new CachingAllocator({ device, conf: '', policy: 'pytorch' });
  const other = device.createStream();
  const pool = allocator.createMemPool();
  allocator.recordMemoryHistory({ maxEntries: 1000, stacks: true });
  function forward(): number {
    return allocator.malloc(30 * MIB);
  }
  function onStream(): number {
    return allocator.malloc(12 * MIB, other);
  }
  function inPool(): number {
    return allocator.withMemPool(pool, () => allocator.malloc(100 * 1024));
  }
  const first = forward();
  onStream();
  inPool();
  allocator.free(first);
  try {
    allocator.malloc(90 * MIB);
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
  }
  return allocator.memorySnapshot();
}

export function smallHistory(): DeviceHistory {
  return deviceHistory(smallSnapshot(), 0);
}

/** With regions, by the times of events. */
export function annotated(
  snapshot: Snapshot,
  marks: readonly { name: string; stage: string; time: number; device?: number }[],
): Snapshot {
  const dicts = marks.map(
    ({ name, stage, time, device = 0 }): PyDict =>
      new Map<string, PyValue>([
        ['stage', stage],
        ['name', name],
        ['device', device],
        ['time_us', time],
      ]),
  );
  return { ...snapshot, extra: new Map([...(snapshot.extra ?? []), ['external_annotations', dicts]]) };
}

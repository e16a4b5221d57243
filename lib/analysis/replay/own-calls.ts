// Driver calls that a replay makes for itself (asking for free bytes, copying stamps), so that the counts it reports are the
// allocator's alone. Must not know what the calls are for.

import type { Device, DriverCallCounts } from '../../device/types.js';

interface Repeated {
  readonly cost: DriverCallCounts;
  times: number;
}

export class OwnCalls {
  readonly #device: Device;
  readonly #kinds = new Map<string, Repeated>();

  constructor(device: Device) {
    this.#device = device;
  }

  /** Runs `action`, whose calls are not the allocator's. The first of a `kind` is measured; every later one costs the same. */
  run<T>(kind: string, action: () => T): T {
    const known = this.#kinds.get(kind);
    if (known !== undefined) {
      const result = action();
      known.times++;
      return result;
    }
    const before = this.#device.driverCalls();
    const result = action();
    this.#kinds.set(kind, { cost: difference(this.#device.driverCalls(), before), times: 1 });
    return result;
  }

  /** Calls of the device so far, without those of `run`. */
  others(): DriverCallCounts {
    const counts: Record<string, number> = { ...this.#device.driverCalls() };
    for (const { cost, times } of this.#kinds.values()) {
      for (const [fn, n] of Object.entries(cost)) counts[fn] = (counts[fn] ?? 0) - n * times;
    }
    return counts;
  }
}

/** What was counted between two readings, by function. */
export function difference(after: DriverCallCounts, before: DriverCallCounts): DriverCallCounts {
  return Object.fromEntries(Object.entries(after).map(([fn, n]) => [fn, n - (before[fn] ?? 0)]));
}

// The allocations and frees of a recording by address, to ask what happened in a stretch of memory. Must not know why it is asked.

import { ALLOC, type DeviceTrace, FREE_REQUESTED } from '../../snapshot/model.js';

export class AddressIndex {
  readonly #trace: DeviceTrace;
  /** Events of allocations and frees, by address and then by time; sorted when it is first asked. */
  #order: Uint32Array | null = null;

  constructor(trace: DeviceTrace) {
    this.#trace = trace;
  }

  /**
   * Bytes from `from` to the first allocation in `[from, end)`, if it comes before the block at `address` is freed; else null.
   * Logarithmic, and linear in the events of that stretch.
   */
  firstUse(address: number, from: number, end: number): number | null {
    const freed = this.#first(address, address + 1, FREE_REQUESTED);
    const used = this.#first(from, end, ALLOC);
    if (used === null || (freed !== null && freed < used)) return null;
    return (this.#trace.addresses[used] as number) - from;
  }

  /** Requested bytes of a block that was ever allocated or freed in `[from, end)`; null when none was. Logarithmic. */
  anySize(from: number, end: number): number | null {
    const event = this.#events()[this.#position(from)];
    return event === undefined || (this.#trace.addresses[event] as number) >= end
      ? null
      : (this.#trace.sizes[event] as number);
  }

  /** The earliest event of a kind with an address in `[from, end)`. */
  #first(from: number, end: number, action: number): number | null {
    const { addresses, actions } = this.#trace;
    const order = this.#events();
    let first: number | null = null;
    for (let at = this.#position(from); at < order.length; at++) {
      const event = order[at] as number;
      if ((addresses[event] as number) >= end) break;
      if (actions[event] === action && (first === null || event < first)) first = event;
    }
    return first;
  }

  /** Position of the first event with an address of at least `from`. */
  #position(from: number): number {
    const order = this.#events();
    let low = 0;
    let high = order.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#trace.addresses[order[middle] as number] as number) < from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #events(): Uint32Array {
    this.#order ??= byAddress(this.#trace);
    return this.#order;
  }
}

function byAddress(trace: DeviceTrace): Uint32Array {
  const events = new Uint32Array(trace.length);
  let count = 0;
  for (let event = 0; event < trace.length; event++) {
    const action = trace.actions[event];
    if (action === ALLOC || action === FREE_REQUESTED) events[count++] = event;
  }
  const { addresses } = trace;
  return events.subarray(0, count).sort((a, b) => (addresses[a] as number) - (addresses[b] as number) || a - b);
}

// The address ranges that a device hands out, in order: segments and reservations. It listens at the device itself, because an
// allocator forgets a segment that it has given back. Must not know the allocator.

import type { Device } from '../../device/types.js';

/** One `cudaMalloc` or one address reservation. */
export interface Range {
  readonly kind: 'malloc' | 'reserve';
  readonly address: number;
  readonly size: number;
  /** False once it was given back. */
  live: boolean;
}

type Watched = Pick<Device, 'malloc' | 'free' | 'addressReserve' | 'addressFree'>;

/** Listens from construction until `stop`. Nothing else may watch or replace these methods meanwhile. */
export class RangeLog {
  readonly ranges: Range[] = [];
  readonly #device: Device;
  readonly #live = new Map<number, Range>();

  constructor(device: Device) {
    this.#device = device;
    // Own properties over the class's methods: the device keeps its identity, which its streams refer to.
    const { malloc, free, addressReserve, addressFree } = device;
    const watched: Watched = {
      malloc: (bytes) => this.#made('malloc', malloc.call(device, bytes), bytes),
      free: (address) => {
        free.call(device, address);
        this.#gone(address);
      },
      addressReserve: (bytes, alignment) => this.#made('reserve', addressReserve.call(device, bytes, alignment), bytes),
      addressFree: (address, bytes) => {
        addressFree.call(device, address, bytes);
        this.#gone(address);
      },
    };
    Object.assign(device, watched);
  }

  /** Leaves the device as it was. */
  stop(): void {
    const device: Partial<Watched> = this.#device;
    delete device.malloc;
    delete device.free;
    delete device.addressReserve;
    delete device.addressFree;
  }

  #made(kind: Range['kind'], address: number, size: number): number {
    const range = { kind, address, size, live: true };
    this.ranges.push(range);
    this.#live.set(address, range);
    return address;
  }

  #gone(address: number): void {
    const range = this.#live.get(address);
    if (range === undefined) return;
    range.live = false;
    this.#live.delete(address);
  }
}

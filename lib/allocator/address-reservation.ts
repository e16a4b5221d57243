// Ranges of addresses, larger than the device so that a segment can grow in its place, or as large as the driver grants. Must not know what is mapped
// there.

import type { Device } from '../device/types.js';
import { AddressSpaceError } from '../errors.js';
import { SMALL } from './block-pool.js';
import type { Config } from './config.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import { SMALL_BUFFER } from './rounding.js';

/** A range that was reserved. */
export interface Reserved {
  readonly bytes: number;
  free(): void;
}

export class AddressReservation {
  /** Reservations that the driver granted only in a smaller size. */
  stepDowns = 0;
  /** Bytes of addresses held. */
  bytes = 0;
  readonly #heap: Heap;
  readonly #device: Device;

  constructor(heap: Heap, device: Device) {
    this.#heap = heap;
    this.#device = device;
  }

  /**
   * Nine eighths of the device, or less where the driver grants less; null when it does not grant even `size` bytes (then
   * `heap.expandableRefused` says why).
   */
  reserve<Range extends Reserved>(size: number, make: (bytes: number) => Range): Range | null {
    const total = this.#device.totalMemory;
    const wanted = total + Math.floor(total / 8);
    for (let bytes = wanted; ; bytes = Math.max(size, Math.floor(bytes / 2))) {
      try {
        const range = make(bytes);
        if (bytes < wanted) this.stepDowns++;
        this.bytes += range.bytes;
        return range;
      } catch (error) {
        if (!(error instanceof AddressSpaceError)) throw error;
        if (bytes <= size) {
          this.#heap.expandableRefused = `no range of addresses could be reserved: ${error.message}`;
          return null;
        }
      }
    }
  }

  /** Gives a range back. */
  free(range: Reserved): void {
    range.free();
    this.bytes -= range.bytes;
  }
}

/** Bytes of the pages behind the blocks of a pool, as the settings and PyTorch have them, in units of the device's granularity. */
export function pageBytesOf(list: FreeList, config: Config, device: Device, large = config.largeSegmentSize): number {
  const bytes = list.kind === SMALL ? SMALL_BUFFER : large;
  return Math.ceil((config.expandableSegmentsPageSize ?? bytes) / device.granularity) * device.granularity;
}

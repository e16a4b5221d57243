// Plain segments: each one cudaMalloc, released whole. Must not know when.

import type { Device } from '../device/types.js';
import { DeviceOutOfMemoryError } from '../errors.js';
import type { Block } from './block.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import { RECORD_SEGMENT_ALLOC, RECORD_SEGMENT_FREE } from './history.js';
import type { Segment } from './segment.js';
import { OVERSIZE_SEGMENTS, RESERVED_BYTES, SEGMENT } from './stats.js';

export class PlainSegments {
  readonly #heap: Heap;
  readonly #device: Device;

  constructor(heap: Heap, device: Device) {
    this.#heap = heap;
    this.#device = device;
  }

  owns({ range }: Segment): boolean {
    return range === null;
  }

  /** A fresh segment as one free, listed block; null when the device has no memory left. */
  allocate(list: FreeList, bytes: number): Block | null {
    const heap = this.#heap;
    let address: number;
    try {
      address = this.#device.malloc(bytes);
    } catch (error) {
      if (error instanceof DeviceOutOfMemoryError) return null;
      throw error;
    }
    const segment = heap.addSegment({ address, size: bytes }, list, null);
    const pool = list.kind;
    heap.stats.increase(SEGMENT, pool, 1);
    heap.stats.increase(RESERVED_BYTES, pool, bytes);
    if (bytes >= heap.config.maxSplitSize) heap.stats.increase(OVERSIZE_SEGMENTS, pool, 1);
    heap.stats.counters.num_device_alloc++;
    heap.recordSegment(RECORD_SEGMENT_ALLOC, segment, 0, bytes);
    list.insert(segment.first);
    return segment.first;
  }

  /** Gives a segment that is one free, listed block back to the device. After an error it is as before. */
  release(block: Block): void {
    const heap = this.#heap;
    const { segment, list } = block;
    this.#device.free(segment.address);
    heap.recordSegment(RECORD_SEGMENT_FREE, segment, 0, segment.size);
    list.remove(block);
    heap.removeSegment(segment);
    const pool = list.kind;
    heap.stats.decrease(SEGMENT, pool, 1);
    heap.stats.decrease(RESERVED_BYTES, pool, segment.size);
    if (segment.size >= heap.config.maxSplitSize) heap.stats.decrease(OVERSIZE_SEGMENTS, pool, 1);
    heap.stats.counters.num_device_free++;
  }

  /** Gives a segment back, whatever lives in it. For closing only. */
  dismantle(segment: Segment): void {
    this.#device.free(segment.address);
  }
}

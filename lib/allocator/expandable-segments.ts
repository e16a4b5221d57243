// Expandable segments: a range of addresses larger than the device for each pool and stream, with pages mapped where blocks need them
// and unmapped where a flush finds them free. Must not know when to grow or flush.
// Rules: PyTorch's expandable segments (try_allocate_expandable_block, map_block, unmap_block).

import type { Device } from '../device/types.js';
import { DeviceOutOfMemoryError, UnsupportedError } from '../errors.js';
import { PhysicalPages } from '../pages/physical-pages.js';
import { Suspension } from '../pages/suspension.js';
import { VirtualRange } from '../pages/virtual-range.js';
import { type AddressReservation, pageBytesOf } from './address-reservation.js';
import { type Block, UNMAPPED } from './block.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import { RECORD_SEGMENT_MAP, RECORD_SEGMENT_UNMAP } from './history.js';
import { type Filling, fillHole, fillingsFor, lowestSpace, openHole } from './holes.js';
import type { Segment } from './segment.js';
import { RESERVED_BYTES } from './stats.js';

export class ExpandableSegments {
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #pages: PhysicalPages;
  readonly #addresses: AddressReservation;
  #suspension: Suspension | null = null;

  constructor(heap: Heap, device: Device, addresses: AddressReservation) {
    this.#heap = heap;
    this.#device = device;
    this.#pages = new PhysicalPages(device);
    this.#addresses = addresses;
  }

  /** Bytes of pages that the driver refused to take back. */
  get keptBytes(): number {
    return this.#pages.keptBytes;
  }

  owns({ range }: Segment): boolean {
    return range instanceof VirtualRange;
  }

  /**
   * A free, listed block of at least `size` bytes, made by mapping pages; null when the device has no memory left, or when no range can
   * be reserved (then `heap.expandableRefused` says why).
   */
  grow(list: FreeList, size: number): Block | null {
    const start = lowestSpace(list, size, (segment) => this.owns(segment)) ?? this.#reserve(list, size);
    if (start === null) return null;
    const fillings = fillingsFor(start, size, (start.segment.range as VirtualRange).pageBytes);
    const steps = this.#heap.policy.growthIsAtomic ? [fillings] : fillings.map((filling) => [filling]);
    let grown = start;
    for (const step of steps) {
      if (!this.#mapAll(step)) return null;
      for (const { hole, bytes } of step) grown = this.#noteMapped(hole, bytes);
    }
    return grown;
  }

  /**
   * Reserves a range and maps the given stretches of it, by offset and in whole pages: what was there is made again. The free, listed
   * blocks are returned, one for each stretch.
   * @throws DriverError
   */
  restore(list: FreeList, stretches: readonly { readonly offset: number; readonly size: number }[]): Block[] {
    const last = stretches.at(-1);
    let hole = this.#reserve(list, last === undefined ? 0 : last.offset + last.size);
    return stretches.map(({ offset, size }) => {
      if (hole === null || hole.state !== UNMAPPED) throw new UnsupportedError('no range of addresses can be reserved');
      const before = offset - hole.offset;
      let start: Block = hole;
      if (before > 0) {
        list.removeUnmapped(hole);
        start = this.#heap.splitBack(hole, before);
        list.insertUnmapped(hole);
        list.insertUnmapped(start);
      }
      if (!this.#mapAll([{ hole: start, bytes: size }]))
        throw new UnsupportedError('the device is too small for what was there');
      const mapped = this.#noteMapped(start, size);
      hole = mapped.next;
      return mapped;
    });
  }

  /** Unmaps the whole pages of a free, listed block. After an error of the unmapping the block is as before. */
  unmap(block: Block): void {
    const heap = this.#heap;
    const { segment, list } = block;
    const range = segment.range as VirtualRange;
    if (!range.hasWholePage(block.offset, block.size)) return;
    // Unmapping does not wait for work that still uses the pages.
    if (list.stream.destroyed) this.#device.synchronize();
    else list.stream.synchronize();
    const span = range.unmap(block.offset, block.size);
    const hole = openHole(heap, block, span.offset, span.bytes);
    heap.stats.decrease(RESERVED_BYTES, list.kind, span.bytes);
    heap.stats.counters.num_device_free++;
    heap.recordSegment(RECORD_SEGMENT_UNMAP, segment, span.offset, span.bytes);
    try {
      this.#pages.release(range.pageBytes, span.handles);
    } finally {
      if (!hole.isSplit) this.#freeRange(hole);
    }
  }

  /** Tries again to give back pages that the driver refused to take. */
  releaseKept(): void {
    this.#pages.releaseKept();
  }

  /** Gives all pages back to the device, whatever lives there; addresses stay. After an error all is as before. */
  suspend(): void {
    this.#suspension = new Suspension(
      this.#pages,
      this.#ranges().flatMap((range) => range.runs()),
    );
  }

  /** Makes the pages again, mapped where they were. After an error all is as before. @throws DeviceOutOfMemoryError */
  resume(): void {
    const newHandles = this.#suspension?.end() ?? new Map();
    for (const range of this.#ranges()) range.renumber(newHandles);
    this.#suspension = null;
  }

  #ranges(): VirtualRange[] {
    return [...this.#heap.segments].map(({ range }) => range).filter((range) => range instanceof VirtualRange);
  }

  /** Gives back every page and range of a segment, whatever lives in it. For closing only; after an error it can be called again. */
  dismantle(segment: Segment): void {
    const range = segment.range as VirtualRange;
    // The device has its pages already.
    if (this.#suspension !== null) return this.#addresses.free(range);
    for (let block: Block | null = segment.first; block !== null; ) {
      const start: Block = block;
      let bytes = 0;
      for (; block !== null && block.state !== UNMAPPED; block = block.next) bytes += block.size;
      if (bytes === 0) {
        block = start.next;
        continue;
      }
      const { handles } = range.unmap(start.offset, bytes);
      for (let done: Block | null = start; done !== block; done = (done as Block).next)
        (done as Block).state = UNMAPPED;
      this.#pages.release(range.pageBytes, handles);
    }
    this.#addresses.free(range);
  }

  /** A fresh range as one unmapped block: nine eighths of the device, or less where the driver grants less. */
  #reserve(list: FreeList, size: number): Block | null {
    const heap = this.#heap;
    // Not PyTorch's: it reserves another range at every attempt, and none of them can ever be filled.
    if (heap.policy.reservesWithinDevice && size > this.#device.totalMemory) return null;
    const pageBytes = pageBytesOf(list, heap.config, this.#device);
    const range = this.#addresses.reserve(size, (bytes) => new VirtualRange(this.#pages, bytes, pageBytes));
    if (range === null) return null;
    const { first } = heap.addSegment({ address: range.address, size: range.bytes }, list, range);
    heap.joinUnmapped(first);
    return first;
  }

  /** Maps all fillings or none; false when the device has no memory left. */
  #mapAll(fillings: readonly Filling[]): boolean {
    let done = 0;
    try {
      for (; done < fillings.length; done++) {
        const { hole, bytes } = fillings[done] as Filling;
        (hole.segment.range as VirtualRange).map(hole.offset, bytes);
      }
      return true;
    } catch (error) {
      for (const { hole, bytes } of fillings.slice(0, done)) {
        const range = hole.segment.range as VirtualRange;
        this.#pages.release(range.pageBytes, range.unmap(hole.offset, bytes).handles);
      }
      if (error instanceof DeviceOutOfMemoryError) return false;
      throw error;
    }
  }

  /** The first bytes of a hole are mapped now: free, and one block with its free neighbours, which is returned. */
  #noteMapped(hole: Block, bytes: number): Block {
    const heap = this.#heap;
    const { list, segment, offset } = hole;
    const joined = fillHole(heap, hole, bytes);
    heap.stats.increase(RESERVED_BYTES, list.kind, bytes);
    heap.stats.counters.num_device_alloc++;
    heap.recordSegment(RECORD_SEGMENT_MAP, segment, offset, bytes);
    return joined;
  }

  #freeRange(block: Block): void {
    const { segment, list } = block;
    const range = segment.range as VirtualRange;
    this.#addresses.free(range);
    list.removeUnmapped(block);
    this.#heap.removeSegment(segment);
  }
}

// Compaction: where free memory is scattered, movable buffers are copied together until whole pages, or whole segments of cudaMalloc, hold nothing. Must
// not know who wants the memory, nor how it is given back.
// The idea: evacuation in region-based garbage collectors (Detlefs et al., Garbage-First, ISMM 2004): the regions with the least to copy first.

import type { Device } from '../device/types.js';
import { ALLOCATED, type Block, FREE } from './block.js';
import type { BufferMemory } from './buffer-memory.js';
import type { Buffers } from './buffers.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import type { Segment } from './segment.js';
import { waitForStreams } from './stream-order.js';

/** What can be given back alone: a page, or a segment of cudaMalloc. */
interface Region {
  readonly segment: Segment;
  readonly index: number;
}

/** A block with a movable buffer, and the free block that has room for it. */
interface Move {
  readonly memory: BufferMemory;
  readonly from: Block;
  readonly target: Block;
}

/** What is in use. */
interface LiveBlocks {
  /** The block of a live address. */
  blockAt(address: number): Block;
  /** The memory of a buffer is elsewhere now, and its contents are there already. */
  moved(memory: BufferMemory, to: Block): void;
}

export class Compaction {
  /** Blocks copied so far, and their bytes. */
  moves = 0;
  bytes = 0;
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #buffers: Buffers;
  readonly #live: LiveBlocks;

  constructor(heap: Heap, device: Device, buffers: Buffers, live: LiveBlocks) {
    this.#heap = heap;
    this.#device = device;
    this.#buffers = buffers;
    this.#live = live;
  }

  /**
   * Empties regions until they add up to so many bytes, or there are none. Returns their bytes; they are free, listed memory then. Each buffer moves within its
   * stream and pool, into free blocks of regions that stay in use; pools of `createMemPool` are left alone, since graphs know their addresses. Linear in
   * blocks for each region; synchronising.
   * @throws DriverError; what the failing copy was for has not moved then
   */
  run(wanted = Number.POSITIVE_INFINITY): number {
    let emptied = 0;
    const skipped = new Map<FreeList, boolean>();
    const fill = new Fill();
    for (const { region, live } of this.#candidates(fill)) {
      if (emptied >= wanted) break;
      // Something has just moved there.
      if (fill.at(region) > live) continue;
      const { list } = region.segment;
      if (!skipped.has(list)) skipped.set(list, list.stream.destroyed || list.stream.isCapturing());
      if (skipped.get(list) === true) continue;
      const moves = this.#plan(region, fill);
      if (moves === null) continue;
      for (const { from, target } of moves) fill.add(target, from.size);
      this.#carryOut(list, moves);
      emptied += regionBytes(region.segment);
    }
    return emptied;
  }

  /** Regions of which everything may move, those with the least in them first; their fill is noted. */
  #candidates(fill: Fill): { region: Region; live: number }[] {
    const seen = new Map<Segment, Set<number>>();
    const candidates: { region: Region; live: number }[] = [];
    for (const { address } of this.#buffers.movable()) {
      const block = this.#live.blockAt(address);
      const { segment } = block;
      if (block.list.pool.owner !== null) continue;
      const indices = seen.get(segment) ?? new Set();
      seen.set(segment, indices);
      for (const index of regionsOf(block)) {
        if (indices.has(index)) continue;
        indices.add(index);
        const region = { segment, index };
        const occupants = this.#occupants(region, block);
        if (occupants === null) continue;
        const live = occupants.reduce((sum, { from }) => sum + from.size, 0);
        fill.set(region, live);
        candidates.push({ region, live });
      }
    }
    return candidates.sort((a, b) => a.live - b.live);
  }

  /** What lives in a region, in part or whole; null when some of it may not move, or when the region lies partly in nothing. */
  #occupants({ segment, index }: Region, within = segment.first): { memory: BufferMemory; from: Block }[] | null {
    const start = index * regionBytes(segment);
    const end = start + regionBytes(segment);
    const occupants: { memory: BufferMemory; from: Block }[] = [];
    let block: Block | null = within;
    while (block.offset > start && block.prev !== null) block = block.prev;
    for (; block !== null && block.offset < end; block = block.next) {
      if (block.offset + block.size <= start || block.state === FREE) continue;
      const memory = block.state === ALLOCATED ? this.#buffers.movableAt(block.address) : null;
      if (memory === null) return null;
      occupants.push({ memory, from: block });
    }
    return occupants;
  }

  /** Where everything in a region could go, the fullest regions first; null when there is no room for some of it, or nothing to do. */
  #plan(region: Region, fill: Fill): Move[] | null {
    const occupants = this.#occupants(region);
    if (occupants === null || occupants.length === 0) return null;
    const { list } = region.segment;
    const room = list
      .blocks()
      .filter((block) => !isIn(block, region) && !coversRegion(block))
      .map((target) => ({ target, units: target.units, fill: fill.of(target) }))
      .sort((a, b) => (a.fill === b.fill ? a.units - b.units : b.fill - a.fill));
    const moves: Move[] = [];
    for (const { memory, from } of occupants.sort((a, b) => b.from.units - a.from.units)) {
      const place = room.find(({ units }) => units >= from.units);
      if (place === undefined) return null;
      place.units -= from.units;
      moves.push({ memory, from, target: place.target });
    }
    return moves;
  }

  /** All of them, or after an error none. */
  #carryOut(list: FreeList, moves: readonly Move[]): void {
    const heap = this.#heap;
    const targets: Block[] = [];
    try {
      for (const { from, target } of moves) {
        const to = heap.carve(list, target, from.units, from.requested);
        to.frames = from.frames;
        targets.push(to);
        this.#copy(from, to);
      }
      // Whoever gets an address from now on, on whatever stream, finds the contents there.
      list.stream.synchronize();
    } catch (error) {
      for (const to of targets) heap.free(to);
      throw error;
    }
    moves.forEach(({ memory, from }, i) => {
      const to = targets[i] as Block;
      to.streamUses = from.streamUses;
      from.streamUses = null;
      this.#live.moved(memory, to);
      heap.free(from);
      this.moves++;
      this.bytes += from.size;
    });
  }

  #copy(from: Block, to: Block): void {
    if (!this.#device.features.copies.works) return;
    const { stream } = from.list;
    if (from.streamUses !== null) waitForStreams(stream, from.streamUses, this.#device);
    this.#device.memcpyDtoD(to.address, from.address, from.requested, stream);
  }
}

/** How much lives in regions that could be emptied. Others stay as they are, and are the best to move to: they count as the fullest. */
class Fill {
  readonly #live = new Map<Segment, Map<number, number>>();

  set({ segment, index }: Region, live: number): void {
    const ofSegment = this.#live.get(segment) ?? new Map<number, number>();
    this.#live.set(segment, ofSegment);
    ofSegment.set(index, live);
  }

  at({ segment, index }: Region): number {
    return this.#live.get(segment)?.get(index) ?? Number.MAX_SAFE_INTEGER;
  }

  /** Of the emptiest region that a block lies in. */
  of(block: Block): number {
    const { segment } = block;
    return Math.min(...regionsOf(block).map((index) => this.at({ segment, index })));
  }

  /** So many bytes move into a block. */
  add(block: Block, bytes: number): void {
    const live = this.#live.get(block.segment);
    for (const index of regionsOf(block)) {
      const before = live?.get(index);
      if (before !== undefined) live?.set(index, before + bytes);
    }
  }
}

/** Bytes of the regions of a segment. */
function regionBytes({ range, size }: Segment): number {
  return range === null ? size : range.pageBytes;
}

/** The regions that a block lies in. */
function regionsOf({ segment, offset, size }: Block): number[] {
  const bytes = regionBytes(segment);
  const first = Math.floor(offset / bytes);
  return Array.from({ length: Math.ceil((offset + size) / bytes) - first }, (_, i) => first + i);
}

function isIn({ segment, offset, size }: Block, region: Region): boolean {
  const start = region.index * regionBytes(region.segment);
  return segment === region.segment && offset < start + regionBytes(segment) && offset + size > start;
}

/** Whether a free block has a whole region in it, which can be given back as it is. */
function coversRegion({ segment, offset, size }: Block): boolean {
  const bytes = regionBytes(segment);
  return Math.ceil(offset / bytes) * bytes + bytes <= offset + size;
}

// The blocks of one allocator: finding a free one, cutting it, taking it back and joining it with its neighbours, and the statistics
// and history of all that. Asks nothing of the device; segments come from plain-segments.ts and expandable-segments.ts.
// Rules: PyTorch's caching allocator (get_free_block, alloc_found_block, free_block).

import type { Stream } from '../device/types.js';
import { ALLOCATED, type Block, BlockFactory, FREE, PENDING, UNIT, UNMAPPED } from './block.js';
import { BlockPool, eachPool, LARGE, type Pools, PrivatePool, SMALL } from './block-pool.js';
import { Clock } from './clock.js';
import type { Config } from './config.js';
import type { FreeList } from './free-list.js';
import { type MemoryHistory, RECORD_ALLOC, RECORD_FREE_COMPLETED, RECORD_FREE_REQUESTED } from './history.js';
import type { Policy } from './policy.js';
import { SMALL_SIZE } from './rounding.js';
import { isExpandable, type MappedRange, Segment } from './segment.js';
import { ACTIVE_BYTES, OVERSIZE_ALLOCATIONS, RESERVED_BYTES, Stats } from './stats.js';

const SMALL_UNITS = SMALL_SIZE / UNIT;

/** Gives a new segment its place in the order of segments. Called once for each, in the order of their creation. */
export type SegmentOrder = (segment: {
  readonly sequence: number;
  readonly size: number;
  readonly stream: Stream;
  readonly segmentType: 'small' | 'large';
  readonly isExpandable: boolean;
}) => number;

export class Heap implements Pools {
  readonly policy: Policy;
  readonly stats = new Stats();
  readonly factory = new BlockFactory();
  readonly small = new BlockPool(SMALL);
  tiny = this.small;
  readonly large = new BlockPool(LARGE);
  readonly privatePools = new Set<PrivatePool>();
  readonly segments = new Set<Segment>();
  history: MemoryHistory | null = null;
  readonly clock = new Clock();
  readonly #segmentOrder: SegmentOrder;
  #expandableRefused = '';
  #config: Config;
  #limit = Number.POSITIVE_INFINITY;
  #sequence = 0;
  #poolNumbers = 0;
  #expandableSegments = 0;
  // What follows from the settings, kept for the hot path; in units where it is a size.
  /** Best fit alone decides: no split limit, no collection, no expandable segment. */
  #bestFitOnly = true;
  #oversize = Number.MAX_SAFE_INTEGER;
  /** The smallest rest that is cut off a block of the large pool, and the smallest request that is not split there. */
  #leastRest = 0;
  #leastUnsplit = 0;
  /** What the last release changed. */
  #splitBlocks = 0;
  #splitUnits = 0;

  /** @param segmentOrder left out: the order of their creation. */
  constructor(config: Config, policy: Policy, segmentOrder: SegmentOrder = ({ sequence }) => sequence) {
    this.#config = config;
    this.policy = policy;
    this.#segmentOrder = segmentOrder;
    this.#deriveRules();
  }

  get config(): Config {
    return this.#config;
  }

  set config(config: Config) {
    this.#config = config;
    this.#deriveRules();
  }

  /** Why expandable segments cannot be had although the settings ask for them; empty otherwise. */
  get expandableRefused(): string {
    return this.#expandableRefused;
  }

  set expandableRefused(reason: string) {
    this.#expandableRefused = reason;
    this.#deriveRules();
  }

  /** Bytes that the memory fraction allows; Infinity when none is set. */
  get limit(): number {
    return this.#limit;
  }

  set limit(bytes: number) {
    this.#limit = bytes;
    this.#deriveRules();
  }

  /** Collection works only with a threshold and a memory fraction. */
  get collecting(): boolean {
    return this.#config.garbageCollectionThreshold > 0 && this.#limit !== Number.POSITIVE_INFINITY;
  }

  /** Bytes held from the device. */
  get reserved(): number {
    return this.stats.current(RESERVED_BYTES);
  }

  /** Bytes held from the device that nobody uses. */
  get cached(): number {
    return this.reserved - this.stats.current(ACTIVE_BYTES);
  }

  /** Whether new memory comes from expandable segments. */
  get expandable(): boolean {
    return this.#config.expandableSegments && this.expandableRefused === '';
  }

  #deriveRules(): void {
    const { maxSplitSize } = this.#config;
    const { paged } = this.policy;
    const limited = maxSplitSize !== Number.POSITIVE_INFINITY && !paged;
    const mapped = paged || this.expandable;
    this.#bestFitOnly = !paged && !limited && !this.collecting && this.#expandableSegments === 0;
    this.#oversize = limited ? Math.ceil(maxSplitSize / UNIT) : Number.MAX_SAFE_INTEGER;
    this.#leastRest = mapped ? 1 : SMALL_UNITS + 1;
    this.#leastUnsplit = mapped ? Number.MAX_SAFE_INTEGER : this.#oversize;
  }

  /** A pool that shares nothing with the others. */
  addPrivatePool(): PrivatePool {
    const pool = new PrivatePool(++this.#poolNumbers);
    this.privatePools.add(pool);
    return pool;
  }

  /** Takes in a range that the device has just given, as one block. */
  addSegment(at: { address: number; size: number }, list: FreeList, range: MappedRange | null): Segment {
    const sequence = this.#sequence++;
    const segmentType = list.kind === SMALL ? 'small' : 'large';
    const order = this.#segmentOrder({
      sequence,
      size: at.size,
      stream: list.stream,
      segmentType,
      isExpandable: isExpandable(range),
    });
    const frames = this.history?.captureFrames() ?? null;
    const segment = new Segment({ ...at, sequence, order, frames }, list, range);
    segment.first = this.factory.make(segment, 0, at.size / UNIT);
    this.segments.add(segment);
    if (list.pool.owner !== null) list.pool.owner.segments++;
    if (isExpandable(range)) this.#expandableSegments++;
    this.#deriveRules();
    return segment;
  }

  /** Forgets a range that went back to the device: one block, in no list. */
  removeSegment(segment: Segment): void {
    this.segments.delete(segment);
    this.factory.recycle(segment.first);
    if (segment.list.pool.owner !== null) segment.list.pool.owner.segments--;
    if (isExpandable(segment.range)) this.#expandableSegments--;
    this.#deriveRules();
  }

  /** From now on the smallest requests have pages of their own: they live longest, or shortest, and must not keep pages that others could leave. */
  keepTinyApart(): void {
    if (this.tiny === this.small) this.tiny = new BlockPool(SMALL);
  }

  /** Bytes of the largest free block of all pools. Linear in blocks. */
  largestFree(): number {
    let largest = 0;
    for (const pools of [this, ...this.privatePools]) {
      for (const list of eachPool(pools).flatMap((pool) => pool.lists())) {
        for (const block of list.blocks()) largest = Math.max(largest, block.size);
      }
    }
    return largest;
  }

  /** Everything was given back, or is gone with the device. */
  forgetAll(): void {
    this.segments.clear();
    this.privatePools.clear();
    for (const pool of eachPool(this)) pool.clear();
    this.stats.clearCurrent();
  }

  /** The best free block for a rounded size in units, still in its list; null when none may be taken. Logarithmic. */
  find(list: FreeList, units: number): Block | null {
    const block = list.lowerBound(units);
    if (this.#bestFitOnly) return block;
    if (!this.policy.paged) return this.#findByRules(list, units, block);
    // A small request is not worth the search: whatever it takes, little is left over.
    return block === null || list.kind === SMALL || block.next === null || block.next.state !== UNMAPPED
      ? block
      : this.#bestExpandable(list, block);
  }

  #findByRules(list: FreeList, units: number, bestFit: Block | null): Block | null {
    if (this.collecting) list.pool.searches++;
    let block = bestFit;
    if (block !== null && block.segment.range !== null) {
      block = this.#config.expandableSegments ? this.#bestExpandable(list, block) : firstPlain(list, block);
    }
    return block !== null && this.#fits(block, units) ? block : null;
  }

  /** The rules on oversize blocks: kept for oversize requests, and not too large for those. */
  #fits(block: Block, units: number): boolean {
    // With the policy's leave they do not hold inside expandable segments, which are split anyway.
    if (this.policy.oversizeIgnoresExpandable && block.segment.range !== null) return true;
    if (units < this.#oversize) return block.units < this.#oversize;
    return block.size < units * UNIT + this.#config.maxNonSplitRounding;
  }

  /** A free block counts with the unmapped tail it can grow into; step on while the next one is smaller in that measure. */
  #bestExpandable(list: FreeList, from: Block): Block {
    let block = from;
    while (block.segment.range !== null && block.next !== null && block.next.state === UNMAPPED) {
      const next = list.successor(block);
      if (next === null || expandableSize(next) >= expandableSize(block)) break;
      block = next;
    }
    return block;
  }

  /** Takes a free block out of its list for a request, cutting off what is too much. The block in use is returned. */
  take(list: FreeList, block: Block, units: number, requested: number): Block {
    const rest = block.units - units;
    const cut = list.kind === SMALL || (rest >= this.#leastRest && units < this.#leastUnsplit);
    return this.carve(list, block, cut ? units : block.units, requested);
  }

  /** Takes exactly so many units of a free block, whatever the rules on splitting say. */
  carve(list: FreeList, block: Block, units: number, requested: number): Block {
    const { kind } = list;
    const rest = block.units - units;
    const plain = block.segment.range === null;
    const split = block.prev !== null || block.next !== null;
    let taken = block;
    let splitBlocks = 0;
    let splitUnits = 0;
    if (rest > 0) {
      taken = this.#splitFront(block, units);
      if (plain) {
        splitBlocks = split ? 0 : 1;
        splitUnits = split ? -units : rest;
      }
    } else {
      list.remove(block);
      if (plain && split) {
        splitBlocks = -1;
        splitUnits = -block.units;
      }
    }
    taken.state = ALLOCATED;
    taken.requested = requested;
    this.stats.noteAllocated(kind, taken.units * UNIT, requested, splitBlocks, splitUnits * UNIT);
    if (taken.units >= this.#oversize) this.stats.increase(OVERSIZE_ALLOCATIONS, kind, 1);
    if (this.history !== null) {
      taken.frames = this.history.captureFrames();
      this.recordBlock(RECORD_ALLOC, taken, this.clock.recent());
    }
    return taken;
  }

  /** Cuts the first units off a listed free block; the rest keeps its identity and stays listed. */
  #splitFront(rest: Block, units: number): Block {
    const { prev, segment, start } = rest;
    const front = this.factory.make(segment, start, units);
    front.prev = prev;
    front.next = rest;
    if (prev === null) segment.first = front;
    else prev.next = front;
    rest.prev = front;
    segment.list.resize(rest, rest.units - units, start + units);
    return front;
  }

  /** The caller is done with a block, and so is everybody: it returns to its free list. The free block that it is part of now. Logarithmic. */
  free(block: Block): Block {
    const { kind } = block.list;
    if (block.units >= this.#oversize) this.stats.decrease(OVERSIZE_ALLOCATIONS, kind, 1);
    if (this.history !== null) this.#recordFree(block, true);
    const bytes = block.units * UNIT;
    const { requested } = block;
    const joined = this.#release(block);
    this.stats.noteFreed(kind, bytes, requested, this.#splitBlocks, this.#splitUnits * UNIT);
    return joined;
  }

  /** The caller is done with a block, but other streams are not. `completeFree` follows. */
  deferFree(block: Block): void {
    const { kind } = block.list;
    this.stats.noteDeferred(kind, block.size);
    if (block.units >= this.#oversize) this.stats.decrease(OVERSIZE_ALLOCATIONS, kind, 1);
    if (this.history !== null) this.#recordFree(block, false);
    block.state = PENDING;
  }

  /** The other streams are done too. Logarithmic. */
  completeFree(block: Block): void {
    const { kind } = block.list;
    if (this.history !== null) this.recordBlock(RECORD_FREE_COMPLETED, block, this.clock.now());
    const { size, requested } = block;
    this.#release(block);
    this.stats.noteDeferredDone(kind, size, requested, this.#splitBlocks, this.#splitUnits * UNIT);
  }

  /** Joins a block with its free neighbours, and notes in #splitBlocks and #splitUnits how that changes the inactive split blocks. */
  #release(block: Block): Block {
    const { prev, next, segment } = block;
    let blocks = 0;
    let units = 0;
    if (prev !== null && prev.state === FREE) {
      blocks--;
      units -= prev.units;
    }
    if (next !== null && next.state === FREE) {
      blocks--;
      units -= next.units;
    }
    const joined = this.joinFree(block);
    if (joined.prev !== null || joined.next !== null) {
      blocks++;
      units += joined.units;
    }
    // PyTorch does not count them in expandable segments, whose free pages can always be given back.
    const plain = segment.range === null;
    this.#splitBlocks = plain ? blocks : 0;
    this.#splitUnits = plain ? units : 0;
    return joined;
  }

  /** Lists a block that is in no list as free, as one block with its free neighbours; returns that. A neighbour in place is resized. */
  joinFree(block: Block): Block {
    const { list, prev, next, units, start } = block;
    block.state = FREE;
    block.frames = null;
    if (prev !== null && prev.state === FREE) {
      let joined = prev.units + units;
      this.#unchain(block);
      if (next !== null && next.state === FREE) {
        joined += next.units;
        list.remove(next);
        this.#unchain(next);
      }
      list.resize(prev, joined, prev.start);
      return prev;
    }
    if (next !== null && next.state === FREE) {
      this.#unchain(block);
      list.resize(next, next.units + units, start);
      return next;
    }
    list.insert(block);
    return block;
  }

  /** Removes a block from its segment's chain and recycles it. */
  #unchain(block: Block): void {
    const { prev, next } = block;
    if (prev === null) block.segment.first = next as Block;
    else prev.next = next;
    if (next !== null) next.prev = prev;
    this.factory.recycle(block);
  }

  /** Joins an unmapped stretch with unmapped neighbours and lists it. */
  joinUnmapped(block: Block): void {
    const list = block.list;
    const { prev, next } = block;
    block.state = UNMAPPED;
    if (prev !== null && prev.state === UNMAPPED) {
      list.removeUnmapped(prev);
      block.start = prev.start;
      block.units += prev.units;
      this.#unchain(prev);
    }
    if (next !== null && next.state === UNMAPPED) {
      list.removeUnmapped(next);
      block.units += next.units;
      this.#unchain(next);
    }
    list.insertUnmapped(block);
  }

  /** Makes a segment one block again, in no list; none of its blocks is in use. Linear in its blocks. */
  collapse(segment: Segment, state: number): void {
    const { first, list } = segment;
    for (let block: Block | null = first; block !== null; block = block.next) {
      if (block.state === FREE) list.remove(block);
      else if (block.state === UNMAPPED) list.removeUnmapped(block);
    }
    while (first.next !== null) {
      first.units += first.next.units;
      this.#unchain(first.next);
    }
    first.state = state;
  }

  /** Cuts off the end of a block that is in no list, from byte `size` on, as a block of its own, listed nowhere. */
  splitBack(block: Block, size: number): Block {
    const units = size / UNIT;
    const back = this.factory.make(block.segment, block.start + units, block.units - units);
    back.prev = block;
    back.next = block.next;
    if (block.next !== null) block.next.prev = back;
    block.next = back;
    block.units = units;
    back.state = block.state;
    return back;
  }

  recordBlock(action: number, block: Block, timeUs: number, frames = block.frames): void {
    const { segment, offset } = block;
    this.history?.record(
      action,
      segment.address + offset,
      block.requested,
      block.list.stream.id,
      segment.sequence,
      offset,
      timeUs,
      frames,
    );
  }

  /** A free that completes at once has both its entries, with one time and one stack. */
  #recordFree(block: Block, completed: boolean): void {
    const now = this.clock.recent();
    const frames = this.history?.captureFrames() ?? null;
    this.recordBlock(RECORD_FREE_REQUESTED, block, now, frames);
    if (completed) this.recordBlock(RECORD_FREE_COMPLETED, block, now, frames);
  }

  /** A part of a segment that came or went. */
  recordSegment(action: number, segment: Segment, offset: number, bytes: number): void {
    if (this.history === null) return;
    const frames = this.history.captureFrames();
    const stream = segment.list.stream.id;
    const address = segment.address + offset;
    this.history.record(action, address, bytes, stream, segment.sequence, offset, this.clock.now(), frames);
  }
}

function expandableSize(block: Block): number {
  const next = block.next;
  return next !== null && next.state === UNMAPPED ? block.units + next.units : block.units;
}

/** From a block on, the first that is not expandable, whose segments are not used while they are switched off. */
function firstPlain(list: FreeList, from: Block): Block | null {
  let block: Block | null = from;
  while (block !== null && block.segment.range !== null) block = list.successor(block);
  return block;
}

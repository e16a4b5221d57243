// The state of a device's memory at the first recorded event, rebuilt by undoing the events from the final state. What the file does not
// say is counted, not passed over. Must not know how the state is used.

import { type Config, DEFAULT_CONFIG } from '../../allocator/config.js';
import { roundSize, SMALL_SIZE } from '../../allocator/rounding.js';
import {
  ALLOC,
  type DeviceTrace,
  DeviceTraceBuilder,
  EMPTY_STACK,
  FREE_COMPLETED,
  FREE_REQUESTED,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
  type Snapshot,
  type SnapshotSegment,
} from '../../snapshot/model.js';
import { AddressIndex } from './address-index.js';
import { segmentTypeOf } from './segment-type.js';

/** A block in use (or awaited by another stream) before the first event. */
export interface StartBlock {
  readonly address: number;
  /** Bytes it takes, an unsplit rest included. */
  readonly size: number;
  readonly requested: number;
  readonly stack: number;
  readonly state: 'active_allocated' | 'active_pending_free';
  /** Whether the file states its size. False for a block that was freed later: its size is that of its request, rounded, and what cannot be free. */
  readonly sizeKnown: boolean;
}

/** A mapped stretch of memory from the driver before the first event. */
export interface StartSegment {
  readonly address: number;
  readonly size: number;
  readonly stream: number;
  readonly segmentType: 'small' | 'large';
  readonly poolId: readonly [number, number];
  readonly isExpandable: boolean;
  /** By address. */
  readonly blocks: readonly StartBlock[];
}

export interface StartState {
  /** By address. */
  readonly segments: readonly StartSegment[];
  /** Live blocks whose allocation is not among the events: they were there before the recording, or their event was overwritten. */
  readonly liveWithoutEvent: number;
  /** Of these, the ones whose size the file does not state. */
  readonly unknownBlocks: number;
  /** Events that contradict the others or the final state, in words; at most 20. */
  readonly conflicts: readonly string[];
  readonly conflictsTotal: number;
}

/** Undoes all events of one device. Linear in events, and in segments for each segment event. */
export function rebuildStart(snapshot: Snapshot, device = 0, config: Config = DEFAULT_CONFIG): StartState {
  return stateBefore(0, snapshot, device, config);
}

/** The state before an event; `liveWithoutEvent` then counts all blocks. @param index of the trace, where it is there already */
export function stateBefore(
  event: number,
  snapshot: Snapshot,
  device: number,
  config: Config,
  index?: AddressIndex,
): StartState {
  const trace = snapshot.deviceTraces[device] ?? new DeviceTraceBuilder().build();
  const undoing = new Undoing(snapshot, device, config, index ?? new AddressIndex(trace));
  undoing.undo(trace, event);
  return undoing.state();
}

interface Live {
  address: number;
  /** 0: not stated. */
  size: number;
  requested: number;
  stack: number;
  pending: boolean;
}

interface Stretch {
  address: number;
  size: number;
  readonly stream: number;
  readonly segmentType: 'small' | 'large';
  readonly poolId: readonly [number, number];
  readonly isExpandable: boolean;
}

const MAX_CONFLICTS = 20;
/** What is left of a large block when it is used is cut off only above this. */
const MAX_UNSPLIT = SMALL_SIZE;

class Undoing {
  readonly #config: Config;
  readonly #index: AddressIndex;
  readonly #live = new Map<number, Live>();
  /** By address. */
  readonly #stretches: Stretch[];
  readonly #conflicts: string[] = [];
  #conflictsTotal = 0;

  constructor(snapshot: Snapshot, device: number, config: Config, index: AddressIndex) {
    this.#config = config;
    this.#index = index;
    const segments = snapshot.segments.filter((segment) => segment.device === device);
    this.#stretches = segments.map(stretchOf).sort((a, b) => a.address - b.address);
    for (const { blocks } of segments) {
      for (const block of blocks) {
        if (block.state === 'inactive') continue;
        this.#live.set(block.address, {
          address: block.address,
          size: block.size,
          requested: block.requestedSize,
          stack: block.stack,
          pending: block.state === 'active_pending_free',
        });
      }
    }
  }

  undo(trace: DeviceTrace, first: number): void {
    for (let event = trace.length - 1; event >= first; event--) this.#undoEvent(trace, event);
  }

  state(): StartState {
    const blocks = [...this.#live.values()].sort((a, b) => a.address - b.address);
    let unknownBlocks = 0;
    let at = 0;
    const segments = this.#stretches.map((stretch) => {
      const end = stretch.address + stretch.size;
      const inside: Live[] = [];
      for (; at < blocks.length && (blocks[at] as Live).address < end; at++) {
        const block = blocks[at] as Live;
        if (block.address >= stretch.address) inside.push(block);
        else this.#conflict(`a block at ${block.address} lies in no segment`);
      }
      const placed = this.#sized(stretch, this.#withoutOverlaps(inside, end));
      unknownBlocks += placed.filter(({ sizeKnown }) => !sizeKnown).length;
      return { ...stretch, blocks: placed };
    });
    for (; at < blocks.length; at++) this.#conflict(`a block at ${(blocks[at] as Live).address} lies in no segment`);
    return {
      segments,
      liveWithoutEvent: segments.reduce((sum, segment) => sum + segment.blocks.length, 0),
      unknownBlocks,
      conflicts: this.#conflicts,
      conflictsTotal: this.#conflictsTotal,
    };
  }

  #undoEvent(trace: DeviceTrace, event: number): void {
    const address = trace.addresses[event] as number;
    const size = trace.sizes[event] as number;
    switch (trace.actions[event]) {
      case ALLOC: {
        if (!this.#live.delete(address))
          this.#conflict(`event ${event} allocates ${address}, where nothing lives later`);
        return;
      }
      case FREE_COMPLETED:
        if (this.#live.has(address))
          this.#conflict(`event ${event} completes the free of ${address}, which lives later`);
        this.#live.set(address, { address, size: 0, requested: size, stack: EMPTY_STACK, pending: true });
        return;
      case FREE_REQUESTED: {
        const block = this.#live.get(address);
        if (block === undefined) return this.#conflict(`event ${event} frees ${address}, which never completes`);
        block.pending = false;
        return;
      }
      case SEGMENT_ALLOC:
      case SEGMENT_MAP:
        return this.#cut(event, address, size);
      case SEGMENT_FREE:
        return this.#add(trace, event, false);
      case SEGMENT_UNMAP:
        return this.#add(trace, event, true);
    }
  }

  /** Before the event this memory was not there. */
  #cut(event: number, address: number, size: number): void {
    const index = this.#indexAt(address);
    const stretch = this.#stretches[index];
    if (stretch === undefined || address + size > stretch.address + stretch.size) {
      return this.#conflict(`event ${event} makes ${size} bytes at ${address}, which are in no segment later`);
    }
    const parts: Stretch[] = [];
    if (address > stretch.address) parts.push({ ...stretch, size: address - stretch.address });
    const rest = stretch.address + stretch.size - (address + size);
    if (rest > 0) parts.push({ ...stretch, address: address + size, size: rest });
    this.#stretches.splice(index, 1, ...parts);
  }

  /** Before the event this memory was there. */
  #add(trace: DeviceTrace, event: number, isExpandable: boolean): void {
    const address = trace.addresses[event] as number;
    const size = trace.sizes[event] as number;
    const stream = trace.streams[event] as number;
    const before = this.#indexAt(address);
    const previous = this.#stretches[before];
    const next = this.#stretches[before + 1];
    if (
      (previous !== undefined && previous.address + previous.size > address) ||
      (next?.address ?? Infinity) < address + size
    ) {
      return this.#conflict(`event ${event} gives back ${size} bytes at ${address}, which are there later`);
    }
    const touches = (other: Stretch | undefined, edge: number): other is Stretch =>
      isExpandable && other?.isExpandable === true && other.stream === stream && edge === 0;
    const joinsPrevious = touches(previous, (previous?.address ?? 0) + (previous?.size ?? 0) - address);
    const joinsNext = touches(next, (next?.address ?? 0) - address - size);
    if (joinsPrevious) {
      previous.size += size;
      if (joinsNext) {
        previous.size += next.size;
        this.#stretches.splice(before + 1, 1);
      }
      return;
    }
    if (joinsNext) {
      next.address = address;
      next.size += size;
      return;
    }
    const segmentType = segmentTypeOf(this.#index, { address, size, isExpandable }, this.#config);
    this.#stretches.splice(before + 1, 0, { address, size, stream, segmentType, poolId: [0, 0], isExpandable });
  }

  /** Index of the last stretch that starts at or below an address; -1 when there is none. */
  #indexAt(address: number): number {
    let low = 0;
    let high = this.#stretches.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#stretches[middle] as Stretch).address <= address) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** Of blocks that overlap, those remain whose size the file states. */
  #withoutOverlaps(blocks: readonly Live[], end: number): Live[] {
    const kept: Live[] = [];
    for (const block of blocks) {
      const last = kept.at(-1);
      const overlaps = last !== undefined && last.address + this.#least(last) > block.address;
      if (block.address + this.#least(block) > end)
        this.#conflict(`a block at ${block.address} is longer than its segment`);
      else if (!overlaps) kept.push(block);
      else {
        this.#conflict(`blocks at ${last.address} and ${block.address} overlap`);
        if (last.size === 0 && block.size > 0) kept[kept.length - 1] = block;
      }
    }
    return kept;
  }

  #least(block: Live): number {
    return block.size > 0 ? block.size : roundSize(block.requested, this.#config);
  }

  #sized(stretch: Stretch, blocks: readonly Live[]): StartBlock[] {
    return blocks.map((block, i) => {
      const { address, requested, stack } = block;
      const state = block.pending ? 'active_pending_free' : 'active_allocated';
      if (block.size > 0) return { address, size: block.size, requested, stack, state, sizeKnown: true };
      const end = blocks[i + 1]?.address ?? stretch.address + stretch.size;
      const size = this.#sizeWithRest(stretch, address, roundSize(requested, this.#config), end);
      return { address, size, requested, stack, state, sizeKnown: false };
    });
  }

  /**
   * A block may be larger than its rounded request: what is left is cut off only where that is worth it. A gap too small to have been cut
   * off belongs to the block; of a larger one the block may own the first bytes, up to where the first later block in it starts.
   */
  #sizeWithRest(stretch: Stretch, address: number, rounded: number, end: number): number {
    if (stretch.segmentType === 'small' || stretch.isExpandable || this.#config.expandableSegments) return rounded;
    // A request from the split limit on gets its segment whole.
    if (rounded >= this.#config.maxSplitSize) return end - address;
    const gap = end - address - rounded;
    if (gap <= MAX_UNSPLIT) return rounded + gap;
    return rounded + (this.#index.firstUse(address, address + rounded, address + rounded + MAX_UNSPLIT + 1) ?? 0);
  }

  #conflict(text: string): void {
    this.#conflictsTotal++;
    if (this.#conflicts.length < MAX_CONFLICTS) this.#conflicts.push(text);
  }
}

function stretchOf(segment: SnapshotSegment): Stretch {
  return {
    address: segment.address,
    size: segment.totalSize,
    stream: segment.stream,
    segmentType: segment.segmentType,
    poolId: segment.segmentPoolId,
    isExpandable: segment.isExpandable,
  };
}

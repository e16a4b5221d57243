// The state of a heap as a snapshot: the present one, or one that was kept. Reads, changes nothing.

import type { Device } from '../device/types.js';
import { PageRange } from '../pages/page-range.js';
import {
  type BlockState,
  DeviceTraceBuilder,
  EMPTY_STACK,
  type Frame,
  type PyDict,
  type PyValue,
  type Snapshot,
  type SnapshotBlock,
  type SnapshotSegment,
  StackTable,
} from '../snapshot/model.js';
import { ALLOCATED, type Block, FREE, LENT, PENDING, UNMAPPED } from './block.js';
import { SMALL } from './block-pool.js';
import type { Heap } from './heap.js';
import type { MemoryHistory } from './history.js';
import { recordedSettings } from './recorded-settings.js';
import { isExpandable, type Segment } from './segment.js';

/** A heap at one moment: all that a snapshot needs but the events, which stay in the history until one is made. */
export interface HeapState {
  readonly device: number;
  readonly segments: readonly SnapshotSegment[];
  readonly stacks: StackTable;
  readonly settings: PyDict;
  readonly history: MemoryHistory | null;
  /** The history's entries up to then. */
  readonly entries: number;
}

/** An event that no history holds. */
export interface LastEvent {
  readonly action: number;
  readonly address: number;
  readonly size: number;
  readonly stream: number;
  readonly timeUs: number;
  readonly frames: readonly Frame[] | null;
}

/** Linear in blocks and in the history. */
export function snapshotOf(heap: Heap, device: Device): Snapshot {
  return snapshotFrom(stateOf(heap, device));
}

/** Linear in blocks. */
export function stateOf(heap: Heap, device: Device): HeapState {
  const stacks = new StackTable();
  const ordered = [...heap.segments].sort((a, b) => a.sequence - b.sequence);
  return {
    device: device.index,
    segments: ordered.flatMap((segment) => stretchesOf(segment, device, stacks)),
    stacks,
    settings: recordedSettings(heap.config, heap.policy, device),
    history: heap.history,
    entries: heap.history?.total ?? 0,
  };
}

/** A state that was kept, with the events that led to it, and one more after them. Linear in the history. */
export function snapshotFrom(state: HeapState, last?: LastEvent): Snapshot {
  const { device, segments, stacks, settings, history, entries } = state;
  const trace = history?.toTrace(stacks, entries) ?? new DeviceTraceBuilder();
  if (last !== undefined) {
    trace.push(last.action, last.address, last.size, last.stream, last.timeUs, stackOf(last.frames, stacks));
  }
  const none = new DeviceTraceBuilder(0);
  return {
    segments,
    // One for each device up to this one, as PyTorch writes them.
    deviceTraces: Array.from({ length: device + 1 }, (_, index) => (index === device ? trace : none).build()),
    stacks,
    traceOverflowed: history !== null && history.total > history.length,
    extra: new Map<string, PyValue>([
      ['allocator_settings', settings],
      ['external_annotations', []],
    ]),
  };
}

/** What a snapshot shows of a segment at one place: a block, or free pages that are kept there. */
interface Part {
  readonly offset: number;
  readonly size: number;
  readonly block: Block | null;
}

/** One entry for each contiguous stretch that has memory. */
function stretchesOf(segment: Segment, device: Device, stacks: StackTable): SnapshotSegment[] {
  const stretches: Part[][] = [];
  let end = -1;
  for (const part of partsOf(segment)) {
    if (part.offset === end) (stretches.at(-1) as Part[]).push(part);
    else stretches.push([part]);
    end = part.offset + part.size;
  }
  return stretches.map((parts) => stretchOf(segment, joinFree(parts), device, stacks));
}

function* partsOf({ first, range }: Segment): IterableIterator<Part> {
  for (let block: Block | null = first; block !== null; block = block.next) {
    const { offset, size } = block;
    if (block.state !== UNMAPPED && block.state !== LENT) yield { offset, size, block };
    else if (range instanceof PageRange) {
      for (const held of range.heldIn(offset, size)) yield { offset: held.offset, size: held.bytes, block: null };
    }
  }
}

/** Kept pages and the free blocks beside them are one free block to whoever looks. */
function joinFree(parts: readonly Part[]): Part[] {
  const joined: Part[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (last !== undefined && isFree(last) && isFree(part))
      joined[joined.length - 1] = { ...last, size: last.size + part.size };
    else joined.push(part);
  }
  return joined;
}

function isFree({ block }: Part): boolean {
  return block === null || block.state === FREE;
}

function stretchOf(segment: Segment, parts: readonly Part[], device: Device, stacks: StackTable): SnapshotSegment {
  const { list } = segment;
  const start = (parts[0] as Part).offset;
  const sum = (counts: (block: Block) => boolean, pick: (block: Block) => number): number =>
    parts.reduce((total, { block }) => (block !== null && counts(block) ? total + pick(block) : total), 0);
  return {
    device: device.index,
    address: segment.address + start,
    totalSize: parts.reduce((total, { size }) => total + size, 0),
    allocatedSize: sum(
      ({ state }) => state === ALLOCATED,
      ({ size }) => size,
    ),
    activeSize: sum(isActive, ({ size }) => size),
    requestedSize: sum(isActive, ({ requested }) => requested),
    stream: list.stream.id,
    segmentType: list.pool.kind === SMALL ? 'small' : 'large',
    segmentPoolId: list.pool.owner?.id ?? [0, 0],
    isExpandable: isExpandable(segment.range),
    stack: stackOf(segment.frames, stacks),
    blocks: parts.map((part) => blockOf(segment, part, stacks)),
    place: [segment.sequence, start],
  };
}

function blockOf({ address }: Segment, { offset, size, block }: Part, stacks: StackTable): SnapshotBlock {
  return {
    address: address + offset,
    size,
    requestedSize: block !== null && isActive(block) ? block.requested : 0,
    state: stateOfBlock(block?.state ?? FREE),
    stack: stackOf(block?.frames ?? null, stacks),
  };
}

function stackOf(frames: readonly Frame[] | null, stacks: StackTable): number {
  return frames === null ? EMPTY_STACK : stacks.internFrames(frames);
}

function isActive(block: Block): boolean {
  return block.state === ALLOCATED || block.state === PENDING;
}

function stateOfBlock(state: number): BlockState {
  if (state === ALLOCATED) return 'active_allocated';
  return state === PENDING ? 'active_pending_free' : 'inactive';
}

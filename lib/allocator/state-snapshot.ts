// The state of a heap as a snapshot: the present one, or one that was kept. Reads, changes nothing.

import type { Device } from '../device/types.js';
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
import { ALLOCATED, type Block, PENDING, UNMAPPED } from './block.js';
import { SMALL } from './block-pool.js';
import type { Heap } from './heap.js';
import type { MemoryHistory } from './history.js';
import { recordedSettings } from './recorded-settings.js';
import type { Segment } from './segment.js';

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

/** One entry for each contiguous mapped stretch. */
function stretchesOf(segment: Segment, device: Device, stacks: StackTable): SnapshotSegment[] {
  const stretches: SnapshotSegment[] = [];
  let run: Block[] = [];
  const flush = (): void => {
    if (run.length > 0) stretches.push(stretchOf(run, device, stacks));
    run = [];
  };
  for (let block: Block | null = segment.first; block !== null; block = block.next) {
    if (block.state === UNMAPPED) flush();
    else run.push(block);
  }
  flush();
  return stretches;
}

function stretchOf(run: readonly Block[], device: Device, stacks: StackTable): SnapshotSegment {
  const first = run[0] as Block;
  const { segment, list } = first;
  const sum = (pick: (block: Block) => number): number => run.reduce((total, block) => total + pick(block), 0);
  return {
    device: device.index,
    address: first.address,
    totalSize: sum((block) => block.size),
    allocatedSize: sum((block) => (block.state === ALLOCATED ? block.size : 0)),
    activeSize: sum((block) => (isActive(block) ? block.size : 0)),
    requestedSize: sum((block) => (isActive(block) ? block.requested : 0)),
    stream: list.stream.id,
    segmentType: list.pool.kind === SMALL ? 'small' : 'large',
    segmentPoolId: list.pool.owner?.id ?? [0, 0],
    isExpandable: segment.range !== null,
    stack: stackOf(segment.frames, stacks),
    blocks: run.map((block) => blockOf(block, stacks)),
    place: [segment.sequence, first.offset],
  };
}

function blockOf(block: Block, stacks: StackTable): SnapshotBlock {
  return {
    address: block.address,
    size: block.size,
    requestedSize: isActive(block) ? block.requested : 0,
    state: stateOfBlock(block),
    stack: stackOf(block.frames, stacks),
  };
}

function stackOf(frames: readonly Frame[] | null, stacks: StackTable): number {
  return frames === null ? EMPTY_STACK : stacks.internFrames(frames);
}

function isActive(block: Block): boolean {
  return block.state === ALLOCATED || block.state === PENDING;
}

function stateOfBlock(block: Block): BlockState {
  if (block.state === ALLOCATED) return 'active_allocated';
  return block.state === PENDING ? 'active_pending_free' : 'inactive';
}

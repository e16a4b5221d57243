// The present state of a heap as a snapshot. Reads, changes nothing.

import type { Device } from '../device/types.js';
import {
  type BlockState,
  DeviceTraceBuilder,
  EMPTY_STACK,
  type Snapshot,
  type SnapshotBlock,
  type SnapshotSegment,
  StackTable,
} from '../snapshot/model.js';
import { ALLOCATED, type Block, PENDING, UNMAPPED } from './block.js';
import { SMALL } from './block-pool.js';
import type { Heap } from './heap.js';
import type { Segment } from './segment.js';

/** Linear in blocks and in the history. */
export function snapshotOf(heap: Heap, device: Device): Snapshot {
  const ordered = [...heap.segments].sort((a, b) => a.sequence - b.sequence);
  const { history } = heap;
  const stacks = new StackTable();
  const none = new DeviceTraceBuilder().build();
  return {
    segments: ordered.flatMap((segment) => stretchesOf(segment, device, stacks)),
    // One for each device up to this one, as PyTorch writes them.
    deviceTraces: Array.from({ length: device.index + 1 }, (_, index) =>
      index === device.index && history !== null ? history.toTrace(stacks) : none,
    ),
    stacks,
    traceOverflowed: history !== null && history.total > history.length,
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
  const isActive = (block: Block): boolean => block.state === ALLOCATED || block.state === PENDING;
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
    stack: EMPTY_STACK,
    blocks: run.map((block) => blockOf(block, stacks)),
    place: [segment.sequence, first.offset],
  };
}

function blockOf(block: Block, stacks: StackTable): SnapshotBlock {
  const active = block.state === ALLOCATED || block.state === PENDING;
  return {
    address: block.address,
    size: block.size,
    requestedSize: active ? block.requested : 0,
    state: stateOf(block),
    stack: block.frames === null ? EMPTY_STACK : stacks.internFrames(block.frames),
  };
}

function stateOf(block: Block): BlockState {
  if (block.state === ALLOCATED) return 'active_allocated';
  return block.state === PENDING ? 'active_pending_free' : 'inactive';
}

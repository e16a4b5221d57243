// What must hold of an allocator at any moment, checked through its public surface alone: snapshot, statistics, and what the device says.
// Knows nothing of how the state came about; that is shadow-model.ts.

import type { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { Snapshot, SnapshotBlock, SnapshotSegment } from '../../lib/snapshot/model.js';

export const UNIT = 512;
const PAGE = 2 * 1024 * 1024;
export const POOLS = ['small', 'large'] as const;
export type PoolName = (typeof POOLS)[number];

/** Rows of the statistics that are kept by pool. */
export const POOL_ROWS = [
  'allocation',
  'allocated_bytes',
  'requested_bytes',
  'active',
  'active_bytes',
  'inactive_split',
  'inactive_split_bytes',
  'segment',
  'reserved_bytes',
] as const;
export type PoolRow = (typeof POOL_ROWS)[number];

export function ensure(holds: boolean, what: () => string): asserts holds {
  if (!holds) throw new Error(`invariant violated: ${what()}`);
}

/** @param others bytes of the device that something else holds. @returns the snapshot that was checked */
export function checkInvariants(allocator: CachingAllocator, others = 0): Snapshot {
  const snapshot = allocator.memorySnapshot();
  const stats = allocator.memoryStats();
  checkSegments(snapshot.segments, allocator.policy.paged ? UNIT : PAGE);
  checkStats(snapshot.segments, stats);
  const { free, total } = allocator.device.memGetInfo();
  const held = stat(stats, 'reserved_bytes.all.current') + stat(stats, 'cudalloc.unreleased_page_bytes');
  ensure(
    free === total - others - held,
    () => `${held} bytes are held, but ${free} of ${total} are free (others ${others})`,
  );
  return snapshot;
}

export function stat(stats: Readonly<Record<string, number>>, key: string): number {
  const value = stats[key];
  ensure(value !== undefined, () => `there is no statistic ${key}`);
  return value;
}

/** @param grain what stretches of expandable segments are made of: whole pages, but where parts of pages are lent to other segments. */
export function checkSegments(segments: readonly SnapshotSegment[], grain: number): void {
  const byAddress = [...segments].sort((a, b) => a.address - b.address);
  byAddress.forEach((segment, i) => {
    const next = byAddress[i + 1];
    const end = segment.address + segment.totalSize;
    ensure(next === undefined || end <= next.address, () => `segments overlap at ${next?.address}`);
    checkSegment(segment, grain);
  });
  const kinds = new Map<number, string>();
  let last: { sequence: number; offset: number; totalSize: number } | undefined;
  for (const segment of segments) {
    const [sequence, offset] = placeOf(segment);
    if (last?.sequence === sequence) {
      ensure(segment.isExpandable, () => `plain segment ${sequence} appears twice`);
      ensure(
        (last?.offset ?? 0) + (last?.totalSize ?? 0) < offset || grain === UNIT,
        () => `stretches of segment ${sequence} touch at ${offset}`,
      );
    } else {
      ensure((last?.sequence ?? -1) < sequence, () => `segment ${sequence} is out of order`);
    }
    const kind = [segment.stream, segment.segmentType, segment.segmentPoolId, segment.isExpandable].join(' ');
    ensure((kinds.get(sequence) ?? kind) === kind, () => `segment ${sequence} has parts of two kinds`);
    kinds.set(sequence, kind);
    last = { sequence, offset, totalSize: segment.totalSize };
  }
}

/** Range and offset: every segment of our own allocator has them. */
function placeOf({ place }: SnapshotSegment): readonly [number, number] {
  ensure(place !== undefined, () => 'a segment of our own allocator has no place');
  return place;
}

function checkSegment(segment: SnapshotSegment, grain: number): void {
  const [sequence, offset] = placeOf(segment);
  const name = `segment ${sequence} at ${offset}`;
  ensure(segment.blocks.length > 0, () => `${name} has no block`);
  ensure(segment.isExpandable || offset === 0, () => `${name} is plain and starts inside itself`);
  if (segment.isExpandable) {
    ensure(offset % grain === 0 && segment.totalSize % grain === 0, () => `${name} is not made of whole pages`);
  }
  let at = segment.address;
  let previous: SnapshotBlock | undefined;
  for (const block of segment.blocks) {
    ensure(block.address === at, () => `${name}: a gap or overlap at ${at}`);
    ensure(block.size > 0 && block.size % UNIT === 0, () => `${name}: a block of ${block.size} bytes`);
    ensure(block.address % UNIT === 0, () => `${name}: a block at ${block.address} is not aligned`);
    const bothFree = previous?.state === 'inactive' && block.state === 'inactive';
    ensure(!bothFree, () => `${name}: free neighbours at ${block.address} are not merged`);
    if (block.state === 'inactive') {
      ensure(block.requestedSize === 0, () => `${name}: a free block at ${block.address} has a request`);
    } else {
      const fits = block.requestedSize > 0 && block.requestedSize <= block.size;
      ensure(fits, () => `${name}: ${block.requestedSize} bytes in a block of ${block.size}`);
    }
    at += block.size;
    previous = block;
  }
  ensure(at === segment.address + segment.totalSize, () => `${name}: blocks do not fill the segment`);
  const { blocks } = segment;
  ensure(segment.allocatedSize === sumOf(blocks, isAllocated, sizeOf), () => `${name}: allocated size`);
  ensure(segment.activeSize === sumOf(blocks, isActive, sizeOf), () => `${name}: active size`);
  ensure(
    segment.requestedSize === sumOf(blocks, isActive, (block) => block.requestedSize),
    () => `${name}: requested size`,
  );
}

const isAllocated = (block: SnapshotBlock): boolean => block.state === 'active_allocated';
const isActive = (block: SnapshotBlock): boolean => block.state !== 'inactive';
const sizeOf = (block: SnapshotBlock): number => block.size;

function sumOf(
  blocks: readonly SnapshotBlock[],
  counts: (block: SnapshotBlock) => boolean,
  amount: (block: SnapshotBlock) => number,
): number {
  return blocks.reduce((sum, block) => (counts(block) ? sum + amount(block) : sum), 0);
}

/** What every row must be now, counted anew. */
export function recount(segments: readonly SnapshotSegment[], pool: PoolName): Record<PoolRow, number> {
  const result = Object.fromEntries(POOL_ROWS.map((row) => [row, 0])) as Record<PoolRow, number>;
  for (const segment of segments) {
    if (segment.segmentType !== pool) continue;
    const { blocks } = segment;
    result.reserved_bytes += segment.totalSize;
    result.allocation += blocks.filter(isAllocated).length;
    result.allocated_bytes += segment.allocatedSize;
    result.active += blocks.filter(isActive).length;
    result.active_bytes += segment.activeSize;
    result.requested_bytes += segment.requestedSize;
    // As in PyTorch these two are not kept for expandable segments.
    if (segment.isExpandable) continue;
    result.segment += 1;
    if (blocks.length === 1) continue;
    result.inactive_split += blocks.filter((block) => !isActive(block)).length;
    result.inactive_split_bytes += sumOf(blocks, (block) => !isActive(block), sizeOf);
  }
  return result;
}

function checkStats(segments: readonly SnapshotSegment[], stats: Readonly<Record<string, number>>): void {
  for (const [key, value] of Object.entries(stats)) {
    ensure(Number.isSafeInteger(value), () => `${key} is ${value}`);
    const mayFall = key.startsWith('oversize_') || key === 'max_split_size';
    // Oversize counts follow the limit in force at each moment, as PyTorch's do, so a changed limit may leave them below zero.
    ensure(value >= 0 || mayFall, () => `${key} is ${value}`);
  }
  for (const pool of POOLS) {
    for (const [row, value] of Object.entries(recount(segments, pool))) {
      const key = `${row}.${pool}_pool.current`;
      ensure(stat(stats, key) === value, () => `${key} is ${stats[key]}, counted ${value}`);
    }
  }
  for (const row of POOL_ROWS) checkSums(stats, row);
  for (const pool of ['all', 'small_pool', 'large_pool']) {
    const current = (row: PoolRow): number => stat(stats, `${row}.${pool}.current`);
    ensure(current('active') >= current('allocation'), () => `${pool}: fewer active blocks than allocated ones`);
    ensure(current('active_bytes') >= current('allocated_bytes'), () => `${pool}: active < allocated`);
    ensure(current('reserved_bytes') >= current('active_bytes'), () => `${pool}: reserved < active`);
    ensure(current('requested_bytes') <= current('active_bytes'), () => `${pool}: requested > active`);
  }
}

function checkSums(stats: Readonly<Record<string, number>>, row: PoolRow): void {
  for (const name of ['current', 'allocated', 'freed']) {
    const parts = POOLS.map((pool) => stat(stats, `${row}.${pool}_pool.${name}`));
    const all = stat(stats, `${row}.all.${name}`);
    ensure(all === parts.reduce((a, b) => a + b), () => `${row}.all.${name} is ${all}, its pools are ${parts}`);
  }
  for (const pool of ['all', 'small_pool', 'large_pool']) {
    const [current, peak] = ['current', 'peak'].map((name) => stat(stats, `${row}.${pool}.${name}`)) as [
      number,
      number,
    ];
    ensure(peak >= current, () => `${row}.${pool}: peak ${peak} below current ${current}`);
  }
}

/** Nothing is held from the device any more. */
export function checkEmpty(allocator: CachingAllocator, others = 0): void {
  const { segments } = checkInvariants(allocator, others);
  ensure(segments.length === 0, () => `${segments.length} segments are left`);
  const { free, total } = allocator.device.memGetInfo();
  ensure(free === total - others, () => `${total - others - free} bytes are left on the device`);
}

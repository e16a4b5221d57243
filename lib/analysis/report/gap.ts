// How the memory of a device is used at the end of a snapshot, and what the gap between reserved and allocated consists of: for the whole
// device and for each pool and stream. Must not know the events.

import type { Config } from '../../allocator/config.js';
import { SMALL_SIZE } from '../../allocator/rounding.js';
import type { Snapshot, SnapshotSegment } from '../../snapshot/model.js';
import type { MemoryFigures, PoolReport } from './format.js';
import { largestServed } from './largest-request.js';

/** A request that decides which free memory is usable: `rounded` bytes on a stream, of the default pools. */
export interface UsableBy {
  readonly rounded: number;
  readonly stream: number;
}

/** Devices that hold memory or have events, ascending. */
export function devicesOf(snapshot: Snapshot): number[] {
  const devices = new Set(snapshot.segments.map(({ device }) => device));
  snapshot.deviceTraces.forEach((trace, device) => {
    if (trace.length > 0) devices.add(device);
  });
  return [...devices].sort((a, b) => a - b);
}

/** Linear in blocks. */
export function memoryFigures(segments: readonly SnapshotSegment[], request: UsableBy | null): MemoryFigures {
  const sums = { reserved: 0, allocated: 0, active: 0, requested: 0, largest: 0 };
  const gap = { pending: 0, other_stream: 0, wholly_free: 0, stuck: 0 };
  for (const segment of segments) {
    const usable = request === null || serves(segment, request);
    const pinned = segment.blocks.some(({ state }) => state !== 'inactive');
    for (const { size, state, requestedSize } of segment.blocks) {
      sums.reserved += size;
      if (state === 'active_allocated') {
        sums.allocated += size;
        sums.requested += requestedSize;
      }
      if (state === 'inactive') sums.largest = Math.max(sums.largest, size);
      else sums.active += size;
      if (state === 'active_pending_free') gap.pending += size;
      else if (state === 'inactive') {
        if (!usable) gap.other_stream += size;
        else if (pinned) gap.stuck += size;
        else gap.wholly_free += size;
      }
    }
  }
  const { reserved, allocated, active, requested, largest } = sums;
  return {
    reserved,
    allocated,
    active,
    requested,
    rounding: allocated - requested,
    largest_free_block: largest,
    gap,
  };
}

/** Whether free memory of a segment can serve a request. */
function serves({ stream, segmentType, segmentPoolId }: SnapshotSegment, request: UsableBy): boolean {
  const type = request.rounded <= SMALL_SIZE ? 'small' : 'large';
  return stream === request.stream && segmentType === type && segmentPoolId[0] === 0 && segmentPoolId[1] === 0;
}

/** One for each pool and stream, those with most reserved first. Linear in blocks. */
export function poolReports(
  segments: readonly SnapshotSegment[],
  request: UsableBy | null,
  config: Config,
): PoolReport[] {
  const pools = new Map<string, SnapshotSegment[]>();
  for (const segment of segments) {
    const key = `${segment.segmentType} ${segment.segmentPoolId.join()} ${segment.stream}`;
    const known = pools.get(key);
    if (known === undefined) pools.set(key, [segment]);
    else known.push(segment);
  }
  return [...pools.values()]
    .map((own) => {
      const { segmentType, segmentPoolId, stream } = own[0] as SnapshotSegment;
      const figures = memoryFigures(own, request);
      return {
        pool: segmentType,
        pool_id: segmentPoolId,
        stream,
        segments: own.length,
        ...figures,
        largest_request: largestServed(segmentType, figures.largest_free_block, config),
      };
    })
    .sort((a, b) => b.reserved - a.reserved);
}

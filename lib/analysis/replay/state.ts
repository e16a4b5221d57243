// An allocator's statistics and snapshot in the words of a replay's report. Pure mappings.

import type { Snapshot } from '../../snapshot/model.js';
import {
  type ReplaySegment,
  type ReplayStats,
  STAT_COUNTS,
  STAT_GROUPS,
  STAT_POOLS,
  STAT_SINGLES,
  STAT_VALUES,
  type Stat,
} from './format.js';

/** Nests PyTorch's flat keys (`allocation.all.current`). @param maxSplitSize reported as it is. */
export function reportStats(flat: Readonly<Record<string, number>>, maxSplitSize: number): ReplayStats {
  const value = (key: string): number => {
    const found = flat[key];
    if (found === undefined) throw new Error(`the allocator has no statistic "${key}"`);
    return found;
  };
  const stat = (key: string) => Object.fromEntries(STAT_VALUES.map((name) => [name, value(`${key}.${name}`)])) as Stat;
  const stats: Record<string, unknown> = {};
  for (const group of STAT_GROUPS) {
    stats[group] = Object.fromEntries(STAT_POOLS.map((pool) => [pool, stat(`${group}.${pool}`)]));
  }
  for (const single of STAT_SINGLES) stats[single] = stat(single);
  for (const count of STAT_COUNTS) stats[count] = value(count);
  stats.max_split_size = maxSplitSize;
  return stats as ReplayStats;
}

/** @param streamNumber the trace's number of a stream id. */
export function reportSegments(snapshot: Snapshot, streamNumber: (id: number) => number): ReplaySegment[] {
  return snapshot.segments.map((segment) => ({
    at: segment.place ?? [-1, 0],
    total_size: segment.totalSize,
    allocated_size: segment.allocatedSize,
    active_size: segment.activeSize,
    requested_size: segment.requestedSize,
    stream: streamNumber(segment.stream),
    segment_type: segment.segmentType,
    is_expandable: segment.isExpandable,
    blocks: segment.blocks.map((block) => ({
      offset: block.address - segment.address,
      size: block.size,
      state: block.state,
      ...(block.state === 'inactive' ? {} : { requested_size: block.requestedSize }),
    })),
  }));
}

// The largest request that would succeed now: in a pool from what it has free, on a device with what that could still give. Must not know
// the events. Rules: those of lib/allocator (rounding, pools by size, segments and pages).

import type { Config } from '../../allocator/config.js';
import { roundSize, SMALL_BUFFER, SMALL_SIZE, segmentSize } from '../../allocator/rounding.js';
import type { SnapshotSegment } from '../../snapshot/model.js';
import { pageSize, releasableBytes } from './request-figures.js';

/** Bytes of the largest request that a free block of a pool serves; 0: none that the pool is for. */
export function largestServed(pool: 'small' | 'large', freeBlock: number, config: Config): number {
  const bytes = largestRoundedTo(pool === 'small' ? Math.min(freeBlock, SMALL_SIZE) : freeBlock, config);
  return pool === 'large' && roundSize(bytes, config) <= SMALL_SIZE ? 0 : bytes;
}

/**
 * Bytes of the largest request that succeeds on some stream, outside private pools, once the allocator has given back what it can. Exact
 * for plain segments; where they are expandable one may succeed that is larger by less than two pages. Linear in blocks.
 */
export function largestOnDevice(segments: readonly SnapshotSegment[], capacity: number, config: Config): number {
  const free = { small: 0, large: 0 };
  let room = capacity;
  for (const { address, totalSize, segmentType, segmentPoolId, isExpandable, blocks } of segments) {
    room -= totalSize;
    if (segmentPoolId.some((part) => part !== 0)) continue;
    const segment = { address, size: totalSize, segmentType, isExpandable };
    for (const block of blocks) {
      if (block.state !== 'inactive') continue;
      free[segmentType] = Math.max(free[segmentType], block.size);
      room += releasableBytes(segment, block.address, block.size, config);
    }
  }
  return Math.max(
    largestServed('small', free.small, config),
    largestServed('large', free.large, config),
    largestGranted(room, config),
  );
}

/** With so many bytes of the device. */
function largestGranted(room: number, config: Config): number {
  if (room < SMALL_BUFFER) return 0;
  const small = largestRoundedTo(SMALL_SIZE, config);
  if (config.expandableSegments) {
    const page = pageSize('large', config);
    return Math.max(small, largestRoundedTo(Math.floor(room / page) * page, config));
  }
  // A segment of that size alone, or one of the usual size; below 10 MiB the usual size may not fit where a small segment does.
  const sizes = [Math.floor(room / SMALL_BUFFER) * SMALL_BUFFER, config.largeSegmentSize, SMALL_SIZE];
  const served = sizes.map((size) => largestRoundedTo(size, config));
  return Math.max(...served.filter((size) => segmentSize(roundSize(size, config), config) <= room));
}

/** The most bytes that are rounded to no more than `limit`; 0 when there are none. */
function largestRoundedTo(limit: number, config: Config): number {
  if (limit === 0 || roundSize(limit, config) <= limit) return limit;
  // Rounding never falls as sizes rise.
  let low = 0;
  let high = limit;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (roundSize(middle, config) <= limit) low = middle;
    else high = middle;
  }
  return low;
}

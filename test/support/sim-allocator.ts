// An allocator on a simulated device, and its state in MiB: for tests whose cases are worked out by hand.

import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { PolicyName } from '../../lib/allocator/policy.js';
import { MIB, open } from './devices.js';

export function make(conf = '', capacity = 1024 * MIB, policy: PolicyName = 'default'): CachingAllocator {
  return new CachingAllocator({ device: open('sim', { capacity }), conf, policy });
}

export const reservedMib = (allocator: CachingAllocator): number => allocator.memoryReserved() / MIB;
export const mallocMib = (allocator: CachingAllocator, mib: number): number => allocator.malloc(mib * MIB);

export function mallocAll(allocator: CachingAllocator, mib: number, count: number): number[] {
  return Array.from({ length: count }, () => mallocMib(allocator, mib));
}

export function segmentsMib(allocator: CachingAllocator): number[] {
  return allocator.memorySnapshot().segments.map((segment) => segment.totalSize / MIB);
}

/** Sizes of the blocks of the first segment, the free ones negative. */
export function layoutMib(allocator: CachingAllocator): number[] {
  const blocks = allocator.memorySnapshot().segments[0]?.blocks ?? [];
  return blocks.map((block) => ((block.state === 'inactive' ? -1 : 1) * block.size) / MIB);
}

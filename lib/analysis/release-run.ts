// A row of recorded releases: what led to it, the program that emptied the cache or a request that ran short. Must not know what is made
// of it.

import type { Config } from '../allocator/config.js';
import { roundSize, SMALL_BUFFER, SMALL_SIZE } from '../allocator/rounding.js';
import {
  ALLOC,
  type DeviceTrace,
  EMPTY_STACK,
  FREE_COMPLETED,
  OOM,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
} from '../snapshot/model.js';

export interface ReleaseRun {
  /** The event after the last release; frees may complete in between. */
  readonly end: number;
  /** Bytes released. */
  readonly bytes: number;
  /**
   * For a request that ran short: the bytes that were free on the device when it was made, as far as the outcome tells. Null when the
   * program emptied the cache.
   */
  readonly freeBefore: number | null;
}

export function isRelease(action: number | undefined): boolean {
  return action === SEGMENT_FREE || action === SEGMENT_UNMAP;
}

/**
 * Looks at the releases from event `first` on. A request that runs short with a split limit may release some, wait for frees, and release
 * the rest: all that is one row. Linear in it.
 */
export function releaseRun(trace: DeviceTrace, first: number, config: Config): ReleaseRun {
  let end = first;
  let next = first;
  let bytes = 0;
  for (; next < trace.length; next++) {
    if (isRelease(trace.actions[next]) && trace.stacks[next] === trace.stacks[first]) {
      bytes += trace.sizes[next] as number;
      end = next + 1;
    } else if (trace.actions[next] !== FREE_COMPLETED) break;
  }
  const action = next < trace.length ? trace.actions[next] : undefined;
  const takes = action === SEGMENT_ALLOC || action === SEGMENT_MAP;
  if (!takes && action !== OOM) return { end, bytes, freeBefore: null };
  if (!isByRequest(trace, first, end, next, config)) return { end, bytes, freeBefore: null };
  // After the releases there was enough, or what the failure reports; before them there was not.
  const after = action === OOM ? (trace.addresses[next] as number) : (trace.sizes[next] as number);
  return { end, bytes, freeBefore: Math.max(0, after - bytes) };
}

/**
 * PyTorch records releases with the stack of the call that led to them: the request's own, or that of `empty_cache`. Where stacks were
 * off: a request looks at its free blocks before it asks the device, so it was the program if one of the released would have done.
 */
function isByRequest(trace: DeviceTrace, first: number, end: number, next: number, config: Config): boolean {
  const stack = trace.stacks[first];
  if (stack !== EMPTY_STACK && trace.stacks[next] !== EMPTY_STACK) return stack === trace.stacks[next];
  const request = requestAfter(trace, next, config);
  if (request === null) return false;
  for (let event = first; event < end; event++) {
    if (!isRelease(trace.actions[event]) || trace.streams[event] !== request.stream) continue;
    if (wouldServe(trace.sizes[event] as number, request.size, config)) return false;
  }
  return true;
}

function requestAfter(trace: DeviceTrace, from: number, config: Config): { size: number; stream: number } | null {
  for (let event = from; event < trace.length; event++) {
    const action = trace.actions[event];
    if (action !== ALLOC && action !== OOM) continue;
    return { size: roundSize(trace.sizes[event] as number, config), stream: trace.streams[event] as number };
  }
  return null;
}

/** Whether a free segment would have been taken for a request. */
function wouldServe(segment: number, size: number, config: Config): boolean {
  if ((segment === SMALL_BUFFER) !== size <= SMALL_SIZE || segment < size) return false;
  if (size < config.maxSplitSize) return segment < config.maxSplitSize;
  return segment < size + config.maxNonSplitRounding;
}

// A row of recorded releases: what led to it, the program that emptied the cache or a request that ran short. Must not know what is made
// of it.

import type { Config } from '../../allocator/config.js';
import { roundSize, SMALL_BUFFER, SMALL_SIZE } from '../../allocator/rounding.js';
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
} from '../../snapshot/model.js';

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
  /** Whether the request waited for pending frees before it released anything: with a split limit it lets go of oversize blocks first. */
  readonly waited: boolean;
}

export function isRelease(action: number | undefined): boolean {
  return action === SEGMENT_FREE || action === SEGMENT_UNMAP;
}

/** What a request that ran short does next: it takes memory from the device, finds what its own wait has freed, or fails. */
const REQUEST: ReadonlySet<number> = new Set([SEGMENT_ALLOC, SEGMENT_MAP, ALLOC, OOM]);

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
  if (action === undefined || !REQUEST.has(action) || !isByRequest(trace, { first, end, next }, config)) {
    return { end, bytes, freeBefore: null, waited: false };
  }
  const oversizeFirst =
    (trace.sizes[first] as number) >= config.maxSplitSize && trace.streams[first] === trace.streams[next];
  // After the releases there was enough, or what the failure reports; before them there was not. An expandable segment may have been
  // filled in part before that.
  const before = mappedBefore(trace, first);
  const after = action === OOM ? (trace.addresses[next] as number) : takenFrom(trace, next);
  return { end, bytes, freeBefore: Math.max(before, before + after - bytes), waited: !oversizeFirst };
}

/** Bytes that were mapped for the same request just before. */
function mappedBefore(trace: DeviceTrace, first: number): number {
  let bytes = 0;
  for (let event = first - 1; event >= 0 && trace.actions[event] === SEGMENT_MAP; event--) {
    if (trace.stacks[event] !== trace.stacks[first]) break;
    bytes += trace.sizes[event] as number;
  }
  return bytes;
}

/** Bytes that the device gave in a row. */
function takenFrom(trace: DeviceTrace, first: number): number {
  const action = trace.actions[first];
  let bytes = 0;
  if (action === ALLOC) return bytes;
  for (let event = first; event < trace.length && trace.actions[event] === action; event++) {
    bytes += trace.sizes[event] as number;
    if (action === SEGMENT_ALLOC) break;
  }
  return bytes;
}

/**
 * PyTorch records releases with the stack of the call that led to them: the request's own, or that of `empty_cache`. Where stacks were
 * off: a request looks at its free blocks before it asks the device, so it was the program if one of the released would have done.
 */
function isByRequest(
  trace: DeviceTrace,
  { first, end, next }: { readonly first: number; readonly end: number; readonly next: number },
  config: Config,
): boolean {
  const stack = trace.stacks[first];
  if (stack !== EMPTY_STACK && trace.stacks[next] !== EMPTY_STACK) return stack === trace.stacks[next];
  if (trace.actions[next] === ALLOC) return false;
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

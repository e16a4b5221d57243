// What a request would meet in a recorded state: which free memory it could use, what could be given back to the device, what is in the
// way. Must not know what is concluded from it.

import type { Config } from '../../allocator/config.js';
import { roundSize, SMALL_BUFFER, SMALL_SIZE, segmentSize } from '../../allocator/rounding.js';
import type { FailureFigures } from '../../allocator/verdict.js';
import type { StartSegment } from '../recording/start-state.js';

export interface RecordedRequest {
  /** Bytes asked for. */
  readonly bytes: number;
  readonly stream: number;
}

export interface RequestFigures {
  readonly rounded: number;
  /** What the device would be asked for. */
  readonly wanted: number;
  readonly reserved: number;
  readonly allocated: number;
  readonly pending: number;
  /** Free in the request's stream and pool: in segments that a live block pins, and in ones that could be given back. */
  readonly ownStuck: number;
  readonly ownReleasable: number;
  /** Free elsewhere. */
  readonly otherStuck: number;
  readonly otherReleasable: number;
  /** Of the request's stream and pool. */
  readonly largestFree: number;
}

/** Linear in blocks. Requests are taken to be of the default pools. */
export function requestFigures(
  segments: readonly StartSegment[],
  request: RecordedRequest,
  config: Config,
): RequestFigures {
  const rounded = roundSize(request.bytes, config);
  const type = rounded <= SMALL_SIZE ? 'small' : 'large';
  const sums = { reserved: 0, allocated: 0, pending: 0 };
  const stuck = { own: 0, other: 0 };
  const releasable = { own: 0, other: 0 };
  let largestFree = 0;
  for (const segment of segments) {
    const isDefault = segment.poolId[0] === 0 && segment.poolId[1] === 0;
    const own = isDefault && segment.segmentType === type && segment.stream === request.stream;
    const where = own ? 'own' : 'other';
    sums.reserved += segment.size;
    for (const { size, state } of segment.blocks) {
      if (state === 'active_allocated') sums.allocated += size;
      else sums.pending += size;
    }
    for (const { address, size } of gapsOf(segment)) {
      // A private pool keeps what it has.
      const back = isDefault ? releasableBytes(segment, address, size, config) : 0;
      releasable[where] += back;
      stuck[where] += size - back;
      if (own) largestFree = Math.max(largestFree, size);
    }
  }
  return {
    rounded,
    wanted: segmentSize(rounded, config),
    ...sums,
    ownStuck: stuck.own,
    ownReleasable: releasable.own,
    otherStuck: stuck.other,
    otherReleasable: releasable.other,
    largestFree,
  };
}

/** What the device had at the time. Bytes. */
export interface DeviceFigures {
  /** Free, before the allocator gives anything back. */
  readonly free: number;
  readonly total: number;
  /** Allowed by the memory fraction; `total` without one. */
  readonly limit: number;
}

/** As they stand when the allocator has given back all it can. */
export function failureFigures(
  request: RecordedRequest,
  figures: RequestFigures,
  device: DeviceFigures,
): FailureFigures {
  const released = figures.ownReleasable + figures.otherReleasable;
  return {
    requested: request.bytes,
    rounded: figures.rounded,
    wanted: figures.wanted,
    free: Math.max(0, device.free) + released,
    total: device.total,
    limit: device.limit,
    allocated: figures.allocated,
    reserved: figures.reserved - released,
    pending: figures.pending,
    stuck: figures.ownStuck,
    elsewhere: figures.otherStuck,
    largestFree: figures.largestFree,
    expandableSegments: null,
  };
}

/** The stretches of a segment without a live block. */
export function gapsOf(segment: StartSegment): { readonly address: number; readonly size: number }[] {
  const gaps: { address: number; size: number }[] = [];
  let at = segment.address;
  for (const { address, size } of segment.blocks) {
    if (address > at) gaps.push({ address: at, size: address - at });
    at = address + size;
  }
  const end = segment.address + segment.size;
  if (end > at) gaps.push({ address: at, size: end - at });
  return gaps;
}

/** Bytes of a free stretch that can go back: a plain segment goes whole or not at all, an expandable one page by page. */
export function releasableBytes(
  segment: Pick<StartSegment, 'address' | 'size' | 'segmentType' | 'isExpandable'>,
  address: number,
  size: number,
  config: Config,
): number {
  if (!segment.isExpandable) return size === segment.size ? size : 0;
  const page = pageSize(segment.segmentType, config);
  const offset = address - segment.address;
  return Math.max(0, Math.floor((offset + size) / page) * page - Math.ceil(offset / page) * page);
}

/** Bytes of a page of an expandable segment: the driver maps multiples of 2 MiB. */
export function pageSize(segmentType: 'small' | 'large', config: Config): number {
  const wanted =
    config.expandableSegmentsPageSize ?? (segmentType === 'small' ? SMALL_BUFFER : config.largeSegmentSize);
  return Math.ceil(wanted / SMALL_BUFFER) * SMALL_BUFFER;
}

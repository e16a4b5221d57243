// The start state of a recording in the form in which an allocator can be set up with it. Must not know how it was rebuilt.

import type { Config } from '../../allocator/config.js';
import type { SegmentOrder } from '../../allocator/heap.js';
import { type DeviceTrace, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP } from '../../snapshot/model.js';
import type { Restoration } from '../replay/trace-runner.js';
import { AddressIndex } from './address-index.js';
import { segmentTypeOf } from './segment-type.js';
import type { SnapshotTrace } from './snapshot-trace.js';
import type { StartSegment, StartState } from './start-state.js';

/** One cudaMalloc or one reservation of the start state: its recorded start, and the stretches of it that are mapped. */
export interface StartRange {
  readonly address: number;
  readonly stretches: readonly StartSegment[];
}

/**
 * A plain segment is a range of its own; the stretches of one stream's expandable segment of one pool are one, unless they lie further
 * apart than anything that was ever held. Where a range starts is not recorded: it is taken to be the lowest address that is or will be
 * mapped of it. In the order of addresses. Linear in events.
 */
export function rangesOf({ segments }: StartState, trace: DeviceTrace, config: Config): StartRange[] {
  const index = new AddressIndex(trace);
  const widest = peakReserved(segments, trace);
  const ranges: StartSegment[][] = [];
  const expandable = new Map<string, StartSegment[]>();
  for (const segment of segments) {
    if (!segment.isExpandable) {
      ranges.push([segment]);
      continue;
    }
    const key = `${segment.stream} ${segment.segmentType} ${segment.poolId.join()}`;
    const stretches = expandable.get(key);
    const last = stretches?.at(-1);
    if (last !== undefined && segment.address - (last.address + last.size) <= widest) stretches?.push(segment);
    else {
      const first = [segment];
      expandable.set(key, first);
      ranges.push(first);
    }
  }
  return ranges
    .map((stretches) => ({ address: lowestOf(stretches, trace, { index, config, widest }), stretches }))
    .sort((a, b) => a.address - b.address);
}

function peakReserved(segments: readonly StartSegment[], trace: DeviceTrace): number {
  let reserved = segments.reduce((sum, { size }) => sum + size, 0);
  let peak = reserved;
  for (let event = 0; event < trace.length; event++) {
    const action = trace.actions[event];
    if (action === SEGMENT_ALLOC || action === SEGMENT_MAP) reserved += trace.sizes[event] as number;
    else if (action === SEGMENT_FREE || action === SEGMENT_UNMAP) reserved -= trace.sizes[event] as number;
    peak = Math.max(peak, reserved);
  }
  return peak;
}

/** As long as any of it is mapped, what is mapped nearby for its stream and pool is part of it. */
function lowestOf(
  stretches: readonly StartSegment[],
  trace: DeviceTrace,
  { index, config, widest }: { readonly index: AddressIndex; readonly config: Config; readonly widest: number },
): number {
  const { stream, segmentType, address, isExpandable } = stretches[0] as StartSegment;
  let lowest = address;
  let mapped = isExpandable ? stretches.reduce((sum, { size }) => sum + size, 0) : 0;
  for (let event = 0; event < trace.length && mapped > 0; event++) {
    const action = trace.actions[event];
    if ((action !== SEGMENT_MAP && action !== SEGMENT_UNMAP) || trace.streams[event] !== stream) continue;
    const size = trace.sizes[event] as number;
    const at = trace.addresses[event] as number;
    if (Math.abs(at - lowest) > widest) continue;
    if (segmentTypeOf(index, { address: at, size, isExpandable }, config) !== segmentType) continue;
    mapped += action === SEGMENT_MAP ? size : -size;
    lowest = Math.min(lowest, at);
  }
  return lowest;
}

/** @param trace the operations whose first allocations are the blocks of the start state. */
export function restorationOf(
  ranges: readonly StartRange[],
  trace: SnapshotTrace,
  segmentOrder: SegmentOrder,
): Restoration {
  const slots = new Map<number, number>();
  // From the back: the first allocations are the blocks of the start state, and only they.
  for (let slot = trace.addresses.length - 1; slot >= 0; slot--) slots.set(trace.addresses[slot] as number, slot);
  const numbers = new Map(trace.streams.map((stream, number) => [stream, number]));
  const segments = ranges.map(({ address, stretches }) => {
    const { stream, segmentType, isExpandable, poolId } = stretches[0] as StartSegment;
    return {
      segmentType,
      isExpandable,
      stream: numbers.get(stream) ?? 0,
      pool: trace.pools.findIndex(([a, b]) => a === poolId[0] && b === poolId[1]),
      stretches: stretches.map((stretch) => ({ offset: stretch.address - address, size: stretch.size })),
      blocks: stretches.flatMap(({ blocks }) =>
        blocks.map((block) => ({
          offset: block.address - address,
          size: block.size,
          requested: block.requested,
          slot: slots.get(block.address) as number,
        })),
      ),
    };
  });
  return { segments, segmentOrder };
}

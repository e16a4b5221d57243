// The start state of a recording in the form in which an allocator can be set up with it. Must not know how it was rebuilt.

import type { SegmentOrder } from '../allocator/heap.js';
import type { SnapshotTrace } from './snapshot-trace.js';
import type { StartSegment, StartState } from './start-state.js';
import type { Restoration } from './trace-runner.js';

/** A range, by its recorded start, and the stretches of it that are mapped. */
interface Range {
  readonly address: number;
  readonly stretches: StartSegment[];
}

/** Recorded starts of the ranges, in the order in which they are restored. */
export function rangeStarts(start: StartState): number[] {
  return rangesOf(start).map(({ address }) => address);
}

/** @param trace the operations whose first allocations are the blocks of the start state, by address. */
export function restorationOf(start: StartState, trace: SnapshotTrace, segmentOrder: SegmentOrder): Restoration {
  const numbers = new Map(trace.streams.map((stream, number) => [stream, number]));
  const segments = rangesOf(start).map(({ address, stretches }) => {
    const { stream, segmentType, isExpandable, poolId } = stretches[0] as StartSegment;
    return {
      segmentType,
      isExpandable,
      stream: numbers.get(stream) ?? 0,
      pool: trace.pools.findIndex(([a, b]) => a === poolId[0] && b === poolId[1]),
      stretches: stretches.map((stretch) => ({ offset: stretch.address - address, size: stretch.size })),
      blocks: stretches.flatMap(({ blocks }) =>
        blocks.map((block) => ({ offset: block.address - address, size: block.size, requested: block.requested })),
      ),
    };
  });
  return { segments, segmentOrder };
}

/**
 * A plain segment is a range of its own. The stretches of one stream's expandable segment of one pool are one range, taken to start
 * where the lowest of them does.
 */
function rangesOf({ segments }: StartState): Range[] {
  const ranges: Range[] = [];
  const expandable = new Map<string, Range>();
  for (const segment of segments) {
    const key = `${segment.stream} ${segment.segmentType} ${segment.poolId.join()}`;
    const known = segment.isExpandable ? expandable.get(key) : undefined;
    if (known !== undefined) {
      known.stretches.push(segment);
      continue;
    }
    const range = { address: segment.address, stretches: [segment] };
    ranges.push(range);
    if (segment.isExpandable) expandable.set(key, range);
  }
  return ranges;
}

// How large the block behind each recorded allocation and free was: an event says what was asked for, a block may be larger. Found by
// placing the allocations along the events, from the state before them. Must not know what the sizes are used for.

import type { Config } from '../../allocator/config.js';
import { roundSize, SMALL_SIZE } from '../../allocator/rounding.js';
import {
  ALLOC,
  type DeviceTrace,
  FREE_COMPLETED,
  FREE_REQUESTED,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  type Snapshot,
} from '../../snapshot/model.js';
import { rebuildStart, type StartSegment } from './start-state.js';

/**
 * By event: bytes of the block that it allocates or frees, 0 for other events. The rounded request, and in plain segments of the large pool
 * the rest behind it, which belongs to the block where it is too small to be split off, or where the block is above the split limit. Exact
 * for a complete recording under one configuration; for blocks that were there before it, as exact as the rebuilt start. Linear in events, times the
 * logarithm of segments.
 * @param start what `rebuildStart` gave, where it is there already
 */
export function blockSizes(
  snapshot: Snapshot,
  device: number,
  config: Config,
  start?: readonly StartSegment[],
): Float64Array {
  const trace = snapshot.deviceTraces[device];
  if (trace === undefined) return new Float64Array(0);
  // Where segments are expandable every rest is split off.
  const placing = config.expandableSegments
    ? null
    : new Placing(start ?? rebuildStart(snapshot, device, config).segments, config);
  const sizes = new Float64Array(trace.length);
  for (let event = 0; event < trace.length; event++) {
    const action = trace.actions[event];
    const isOfBlock = action === ALLOC || action === FREE_REQUESTED || action === FREE_COMPLETED;
    const rounded = isOfBlock ? roundSize(trace.sizes[event] as number, config) : 0;
    sizes[event] = rounded;
    if (placing === null || (isOfBlock && rounded <= SMALL_SIZE)) continue;
    sizes[event] = placing.take(trace, event, rounded);
  }
  return sizes;
}

interface Placed {
  readonly address: number;
  readonly size: number;
}

interface PlainSegment {
  readonly address: number;
  readonly end: number;
  /** Those of the large pool, by address. */
  readonly blocks: Placed[];
}

/** The blocks of the large pool in plain segments, along the events. */
class Placing {
  readonly #config: Config;
  /** By address. */
  readonly #segments: PlainSegment[];

  constructor(segments: readonly StartSegment[], config: Config) {
    this.#config = config;
    this.#segments = segments
      .filter(({ isExpandable }) => !isExpandable)
      .map(({ address, size, segmentType, blocks }) => ({
        address,
        end: address + size,
        blocks: segmentType === 'small' ? [] : blocks.map((block) => ({ address: block.address, size: block.size })),
      }));
  }

  /** Takes in an event; returns the size of its block. */
  take(trace: DeviceTrace, event: number, rounded: number): number {
    const address = trace.addresses[event] as number;
    switch (trace.actions[event]) {
      case ALLOC:
        return this.#place(address, rounded);
      case FREE_REQUESTED:
        return this.#find(address)?.size ?? rounded;
      case FREE_COMPLETED:
        return this.#remove(address)?.size ?? rounded;
      case SEGMENT_ALLOC: {
        const end = address + (trace.sizes[event] as number);
        this.#segments.splice(lastAtOrBelow(this.#segments, address) + 1, 0, { address, end, blocks: [] });
        return 0;
      }
      case SEGMENT_FREE: {
        const index = lastAtOrBelow(this.#segments, address);
        if (this.#segments[index]?.address === address) this.#segments.splice(index, 1);
        return 0;
      }
      default:
        return 0;
    }
  }

  #place(address: number, rounded: number): number {
    const segment = this.#segmentAt(address);
    if (segment === undefined) return rounded;
    const { blocks, end } = segment;
    const next = lastAtOrBelow(blocks, address) + 1;
    const rest = (blocks[next]?.address ?? end) - address - rounded;
    const isSplit = rounded < this.#config.maxSplitSize && rest > SMALL_SIZE;
    const size = isSplit || rest < 0 ? rounded : rounded + rest;
    blocks.splice(next, 0, { address, size });
    return size;
  }

  #find(address: number): Placed | undefined {
    const blocks = this.#segmentAt(address)?.blocks ?? [];
    const block = blocks[lastAtOrBelow(blocks, address)];
    return block?.address === address ? block : undefined;
  }

  #remove(address: number): Placed | undefined {
    const blocks = this.#segmentAt(address)?.blocks ?? [];
    const index = lastAtOrBelow(blocks, address);
    return blocks[index]?.address === address ? blocks.splice(index, 1)[0] : undefined;
  }

  #segmentAt(address: number): PlainSegment | undefined {
    const segment = this.#segments[lastAtOrBelow(this.#segments, address)];
    return segment !== undefined && address < segment.end ? segment : undefined;
  }
}

/** Index of the last that starts at or below an address; -1 when there is none. */
function lastAtOrBelow(sorted: readonly { readonly address: number }[], address: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as { readonly address: number }).address <= address) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

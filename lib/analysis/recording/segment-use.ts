// Which segments are in use while recorded events go by: how many blocks each holds, and of which pool it is. Must not know what the
// blocks are.

import type { Snapshot, SnapshotSegment } from '../../snapshot/model.js';
import type { StartState } from './start-state.js';

type PoolId = readonly [number, number];

interface Counted {
  address: number;
  size: number;
  blocks: number;
  readonly poolId: PoolId;
}

const DEFAULT_POOL: PoolId = [0, 0];

export class SegmentUse {
  /** By address. */
  readonly #segments: Counted[];
  /** The segments at the end, by address: they tell the pool, which an event does not name. */
  readonly #final: readonly SnapshotSegment[];
  #unused = 0;

  constructor(start: StartState, snapshot: Snapshot, device: number) {
    this.#segments = start.segments.map(({ address, size, blocks, poolId }) => ({
      address,
      size,
      blocks: blocks.length,
      poolId,
    }));
    this.#final = snapshot.segments
      .filter((segment) => segment.device === device)
      .sort((a, b) => a.address - b.address);
    this.#unused = this.#segments.filter((segment) => isUnused(segment)).length;
  }

  /** Segments of the default pools without a block. */
  get unusedSegments(): number {
    return this.#unused;
  }

  /** Bytes held from the driver. Linear in segments. */
  get reserved(): number {
    return this.#segments.reduce((sum, { size }) => sum + size, 0);
  }

  addSegment(address: number, size: number): void {
    const segment = { address, size, blocks: 0, poolId: this.#finalPool(address) };
    this.#segments.splice(lastAt(this.#segments, address) + 1, 0, segment);
    if (isUnused(segment)) this.#unused++;
  }

  /** Pool of the segment that holds an address. */
  poolAt(address: number): PoolId {
    return this.#segments[lastAt(this.#segments, address)]?.poolId ?? DEFAULT_POOL;
  }

  /** All of a segment, or a part of an expandable one, is gone. */
  removeSegment(address: number, size: number): void {
    const index = lastAt(this.#segments, address);
    const segment = this.#segments[index];
    if (segment === undefined || segment.address + segment.size < address + size) return;
    if (segment.size !== size) {
      // A part of an expandable segment. What is left keeps the count: it only tells whether segments are unused.
      segment.size -= size;
      return;
    }
    this.#segments.splice(index, 1);
    if (isUnused(segment)) this.#unused--;
  }

  use(address: number): void {
    const segment = this.#segments[lastAt(this.#segments, address)];
    if (segment === undefined) return;
    if (isUnused(segment)) this.#unused--;
    segment.blocks++;
  }

  unuse(address: number): void {
    const segment = this.#segments[lastAt(this.#segments, address)];
    if (segment === undefined || segment.blocks === 0) return;
    segment.blocks--;
    if (isUnused(segment)) this.#unused++;
  }

  #finalPool(address: number): PoolId {
    const segment = this.#final[lastAt(this.#final, address)];
    return segment !== undefined && address < segment.address + segment.totalSize
      ? segment.segmentPoolId
      : DEFAULT_POOL;
  }
}

/** Index of the last that starts at or below an address; -1 when there is none. */
function lastAt(segments: readonly { readonly address: number }[], address: number): number {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((segments[middle]?.address as number) <= address) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function isUnused({ blocks, poolId }: Counted): boolean {
  return blocks === 0 && poolId[0] === 0 && poolId[1] === 0;
}

// Statistics: one row each, from which the counters, PyTorch's keys, the summary and the metrics follow. Must not know what is counted.
//
// Of each row the current value and all that was ever added are kept by pool, and the peaks by pool and for both. What was taken off, the
// sums over both pools, and what is active (allocated or pending) are computed when asked; the peaks of what every allocation changes are
// brought up to date only before a fall, and when asked. That leaves a third of the work in every allocation.

import { LARGE, type PoolKind, SMALL } from './block-pool.js';

/** A statistic kept for the small and the large pool: PyTorch's key and what it counts. */
export interface StatRow {
  readonly key: string;
  readonly unit: 'count' | 'bytes';
  /** False where PyTorch has one value and no pools. */
  readonly pools: boolean;
  readonly label: string;
  /** Where it is the sum of another row, of what is allocated, and of what waits to be free: that row. */
  readonly activeOf?: number;
}

export const STAT_ROWS: readonly StatRow[] = [
  { key: 'allocation', unit: 'count', pools: true, label: 'Allocations' },
  { key: 'allocated_bytes', unit: 'bytes', pools: true, label: 'Allocated memory' },
  { key: 'requested_bytes', unit: 'bytes', pools: true, label: 'Requested memory' },
  { key: 'active', unit: 'count', pools: true, label: 'Active blocks', activeOf: 0 },
  { key: 'active_bytes', unit: 'bytes', pools: true, label: 'Active memory', activeOf: 1 },
  { key: 'inactive_split', unit: 'count', pools: true, label: 'Inactive split blocks' },
  { key: 'inactive_split_bytes', unit: 'bytes', pools: true, label: 'Inactive split memory' },
  { key: 'segment', unit: 'count', pools: true, label: 'Segments' },
  { key: 'reserved_bytes', unit: 'bytes', pools: true, label: 'Reserved memory' },
  { key: 'oversize_allocations', unit: 'count', pools: false, label: 'Oversize allocations' },
  { key: 'oversize_segments', unit: 'count', pools: false, label: 'Oversize segments' },
];

// Positions in STAT_ROWS.
export const ALLOCATION = 0;
export const ALLOCATED_BYTES = 1;
export const REQUESTED_BYTES = 2;
export const ACTIVE = 3;
export const ACTIVE_BYTES = 4;
export const INACTIVE_SPLIT = 5;
export const INACTIVE_SPLIT_BYTES = 6;
export const SEGMENT = 7;
export const RESERVED_BYTES = 8;
export const OVERSIZE_ALLOCATIONS = 9;
export const OVERSIZE_SEGMENTS = 10;
// Behind them: blocks freed but awaited by another stream, which PyTorch has only as a part of the active ones.
const PENDING = STAT_ROWS.length;
const PENDING_BYTES = PENDING + 1;

/** Counters that only grow. */
export const COUNTER_KEYS = [
  'num_alloc_retries',
  'num_ooms',
  'num_sync_all_streams',
  'num_device_alloc',
  'num_device_free',
] as const;
export type CounterKey = (typeof COUNTER_KEYS)[number];

/** One statistic of one pool, as PyTorch reports it. */
export interface StatValues {
  readonly current: number;
  readonly peak: number;
  readonly allocated: number;
  readonly freed: number;
}

const ROWS = STAT_ROWS.length + 2;
const BOTH = 2;

// The numbers of a pool in one array: the current values of all rows, then what was ever added to them, their peaks, and the current
// values when the accumulated numbers were last reset.
const ADDED = ROWS;
const PEAK = 2 * ROWS;
const BASE = 3 * ROWS;

// Which rows have risen since their peaks were lifted.
const SMALL_ALLOCATED = 1;
const LARGE_ALLOCATED = 2;
const SMALL_SPLIT = 4;
const LARGE_SPLIT = 8;

/** Lifts the peaks of a row, of one pool and of both together, to the current values. */
function liftPeaks(row: number, pool: Float64Array, other: Float64Array, both: Float64Array): void {
  const current = pool[row] as number;
  if (current > (pool[PEAK + row] as number)) pool[PEAK + row] = current;
  const sum = current + (other[row] as number);
  if (sum > (both[row] as number)) both[row] = sum;
}

function liftAllocated(pool: Float64Array, other: Float64Array, both: Float64Array): void {
  liftPeaks(ALLOCATION, pool, other, both);
  liftPeaks(ALLOCATED_BYTES, pool, other, both);
  liftPeaks(REQUESTED_BYTES, pool, other, both);
}

function liftSplit(pool: Float64Array, other: Float64Array, both: Float64Array): void {
  liftPeaks(INACTIVE_SPLIT, pool, other, both);
  liftPeaks(INACTIVE_SPLIT_BYTES, pool, other, both);
}

export class Stats {
  readonly #small = new Float64Array(4 * ROWS);
  readonly #large = new Float64Array(4 * ROWS);
  /** Peaks of both pools together. */
  readonly #both = new Float64Array(ROWS);
  #rises = 0;
  /** Blocks pending. */
  #pending = 0;
  readonly counters: Record<CounterKey, number> = {
    num_alloc_retries: 0,
    num_ooms: 0,
    num_sync_all_streams: 0,
    num_device_alloc: 0,
    num_device_free: 0,
  };

  increase(row: number, kind: PoolKind, amount: number): void {
    const pool = this.#pool(kind);
    (pool[row] as number) += amount;
    (pool[ADDED + row] as number) += amount;
    liftPeaks(row, pool, this.#other(kind), this.#both);
  }

  decrease(row: number, kind: PoolKind, amount: number): void {
    (this.#pool(kind)[row] as number) -= amount;
  }

  /**
   * A block is in use. What its cutting changed in the inactive split blocks comes along, as a net change of either sign: one call, since this
   * is the hottest path.
   */
  noteAllocated(kind: PoolKind, bytes: number, requested: number, splitBlocks: number, splitBytes: number): void {
    if (splitBytes < 0 && this.#rises >= SMALL_SPLIT) this.#endRise();
    const pool = kind === SMALL ? this.#small : this.#large;
    this.#rises |= kind === SMALL ? SMALL_ALLOCATED : LARGE_ALLOCATED;
    (pool[ALLOCATION] as number) += 1;
    (pool[ADDED + ALLOCATION] as number) += 1;
    (pool[ALLOCATED_BYTES] as number) += bytes;
    (pool[ADDED + ALLOCATED_BYTES] as number) += bytes;
    (pool[REQUESTED_BYTES] as number) += requested;
    (pool[ADDED + REQUESTED_BYTES] as number) += requested;
    (pool[INACTIVE_SPLIT] as number) += splitBlocks;
    (pool[INACTIVE_SPLIT_BYTES] as number) += splitBytes;
    if (splitBytes > 0) this.#noteSplitRise(pool, kind, splitBlocks, splitBytes);
    if (this.#pending > 0) this.#liftActivePeaks();
  }

  /** It is free again, at once, and joined with its neighbours. */
  noteFreed(kind: PoolKind, bytes: number, requested: number, splitBlocks: number, splitBytes: number): void {
    if (this.#rises !== 0) this.#endRise();
    const pool = kind === SMALL ? this.#small : this.#large;
    (pool[ALLOCATION] as number) -= 1;
    (pool[ALLOCATED_BYTES] as number) -= bytes;
    (pool[REQUESTED_BYTES] as number) -= requested;
    (pool[INACTIVE_SPLIT] as number) += splitBlocks;
    (pool[INACTIVE_SPLIT_BYTES] as number) += splitBytes;
    if (splitBytes > 0) this.#noteSplitRise(pool, kind, splitBlocks, splitBytes);
  }

  /** Its user is done with it, but another stream may not be. */
  noteDeferred(kind: PoolKind, bytes: number): void {
    this.#endRise();
    this.#pending++;
    this.decrease(ALLOCATION, kind, 1);
    this.decrease(ALLOCATED_BYTES, kind, bytes);
    this.increase(PENDING, kind, 1);
    this.increase(PENDING_BYTES, kind, bytes);
  }

  /** Now the other stream is done too, and the block is joined with its neighbours. */
  noteDeferredDone(kind: PoolKind, bytes: number, requested: number, splitBlocks: number, splitBytes: number): void {
    this.#endRise();
    this.#pending--;
    this.decrease(PENDING, kind, 1);
    this.decrease(PENDING_BYTES, kind, bytes);
    this.decrease(REQUESTED_BYTES, kind, requested);
    const pool = this.#pool(kind);
    (pool[INACTIVE_SPLIT] as number) += splitBlocks;
    (pool[INACTIVE_SPLIT_BYTES] as number) += splitBytes;
    if (splitBytes > 0) this.#noteSplitRise(pool, kind, splitBlocks, splitBytes);
  }

  /** Current value over both pools. */
  current(row: number): number {
    const activeOf = STAT_ROWS[row]?.activeOf;
    if (activeOf !== undefined) return this.current(activeOf) + this.current(PENDING + activeOf);
    return (this.#small[row] as number) + (this.#large[row] as number);
  }

  /** Peak over both pools together. */
  peak(row: number): number {
    return this.values(row, BOTH).peak;
  }

  /** @param pool 0 small, 1 large, 2 both. */
  values(row: number, pool: 0 | 1 | 2): StatValues {
    this.#endRise();
    const of = (offset: number): number => {
      if (pool === BOTH) return (this.#small[offset + row] as number) + (this.#large[offset + row] as number);
      return this.#pool(pool)[offset + row] as number;
    };
    const peak = pool === BOTH ? (this.#both[row] as number) : of(PEAK);
    const activeOf = STAT_ROWS[row]?.activeOf;
    if (activeOf === undefined) {
      const current = of(0);
      const allocated = of(ADDED);
      return { current, peak, allocated, freed: allocated - (current - of(BASE)) };
    }
    const allocated = this.values(activeOf, pool);
    const pending = this.values(PENDING + activeOf, pool);
    return {
      current: allocated.current + pending.current,
      peak: Math.max(peak, allocated.peak),
      allocated: allocated.allocated,
      // What became pending left the allocated ones, but not yet the active ones.
      freed: allocated.freed - (pending.allocated - pending.freed),
    };
  }

  resetPeak(): void {
    for (let row = 0; row < ROWS; row++) {
      this.#small[PEAK + row] = this.values(row, SMALL).current;
      this.#large[PEAK + row] = this.values(row, LARGE).current;
      this.#both[row] = this.values(row, BOTH).current;
    }
  }

  /** Nothing is held any more. */
  clearCurrent(): void {
    this.#endRise();
    this.#small.fill(0, 0, ROWS);
    this.#large.fill(0, 0, ROWS);
    this.#pending = 0;
  }

  /** Sets what was added and taken off, and the counters, to 0. */
  resetAccumulated(): void {
    for (const pool of [this.#small, this.#large]) {
      pool.fill(0, ADDED, ADDED + ROWS);
      pool.copyWithin(BASE, 0, ROWS);
    }
    for (const key of COUNTER_KEYS) this.counters[key] = 0;
  }

  /** PyTorch's flat keys: `allocated_bytes.all.current`, `num_ooms`, ... */
  flat(): Record<string, number> {
    const result: Record<string, number> = {};
    STAT_ROWS.forEach((definition, row) => {
      const put = (prefix: string, pool: 0 | 1 | 2): void => {
        for (const [name, value] of Object.entries(this.values(row, pool))) result[`${prefix}.${name}`] = value;
      };
      if (definition.pools) {
        put(`${definition.key}.all`, BOTH);
        put(`${definition.key}.small_pool`, 0);
        put(`${definition.key}.large_pool`, 1);
      } else {
        put(definition.key, BOTH);
      }
    });
    return Object.assign(result, this.counters);
  }

  #pool(kind: PoolKind): Float64Array {
    return kind === SMALL ? this.#small : this.#large;
  }

  #other(kind: PoolKind): Float64Array {
    return kind === SMALL ? this.#large : this.#small;
  }

  /** Blocks may fall while bytes rise, not the other way round. */
  #noteSplitRise(pool: Float64Array, kind: PoolKind, blocks: number, bytes: number): void {
    this.#rises |= kind === SMALL ? SMALL_SPLIT : LARGE_SPLIT;
    (pool[ADDED + INACTIVE_SPLIT_BYTES] as number) += bytes;
    if (blocks > 0) (pool[ADDED + INACTIVE_SPLIT] as number) += blocks;
  }

  /** Before anything falls, and before anybody looks: the peaks of what has risen. */
  #endRise(): void {
    const rises = this.#rises;
    const small = this.#small;
    const large = this.#large;
    const both = this.#both;
    this.#rises = 0;
    if ((rises & SMALL_ALLOCATED) !== 0) liftAllocated(small, large, both);
    if ((rises & LARGE_ALLOCATED) !== 0) liftAllocated(large, small, both);
    if ((rises & SMALL_SPLIT) !== 0) liftSplit(small, large, both);
    if ((rises & LARGE_SPLIT) !== 0) liftSplit(large, small, both);
  }

  /** While nothing is pending, the peaks of the active rows are those of the allocated ones. */
  #liftActivePeaks(): void {
    for (const row of [ACTIVE, ACTIVE_BYTES]) {
      this.#small[PEAK + row] = Math.max(this.#small[PEAK + row] as number, this.values(row, SMALL).current);
      this.#large[PEAK + row] = Math.max(this.#large[PEAK + row] as number, this.values(row, LARGE).current);
      this.#both[row] = Math.max(this.#both[row] as number, this.values(row, BOTH).current);
    }
  }
}

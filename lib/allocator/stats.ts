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
  /** Where it is the sum of two others: what is allocated, and what waits to be free. */
  readonly sumOf?: readonly [allocated: number, pending: number];
}

export const STAT_ROWS: readonly StatRow[] = [
  { key: 'allocation', unit: 'count', pools: true, label: 'Allocations' },
  { key: 'allocated_bytes', unit: 'bytes', pools: true, label: 'Allocated memory' },
  { key: 'requested_bytes', unit: 'bytes', pools: true, label: 'Requested memory' },
  { key: 'active', unit: 'count', pools: true, label: 'Active blocks', sumOf: [0, 11] },
  { key: 'active_bytes', unit: 'bytes', pools: true, label: 'Active memory', sumOf: [1, 12] },
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
const PENDING = 11;
const PENDING_BYTES = 12;

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
const POOLS = [SMALL, LARGE] as const;

// Layout of a row; the small pool first.
const STRIDE = 8;
const CURRENT = 0;
const ADDED = 2;
const PEAK = 4;

export class Stats {
  /** Of each row: current value and all that was added, by pool; the peaks, by pool and for both. */
  readonly #values = new Float64Array(ROWS * STRIDE);
  /** Of each row and pool: the current value when the accumulated numbers were last reset. */
  readonly #base = new Float64Array(ROWS * 2);
  /** Blocks pending. */
  #pending = 0;
  /** A bit for each pool in which blocks were allocated since the last fall. */
  #rising = 0;
  readonly counters: Record<CounterKey, number> = {
    num_alloc_retries: 0,
    num_ooms: 0,
    num_sync_all_streams: 0,
    num_device_alloc: 0,
    num_device_free: 0,
  };

  increase(row: number, pool: PoolKind, amount: number): void {
    const at = row * STRIDE + pool;
    (this.#values[at] as number) += amount;
    (this.#values[at + ADDED] as number) += amount;
    this.#raisePeaks(row, pool);
  }

  decrease(row: number, pool: PoolKind, amount: number): void {
    (this.#values[row * STRIDE + pool] as number) -= amount;
  }

  /** A block is in use. */
  noteAllocated(pool: PoolKind, bytes: number, requested: number): void {
    const values = this.#values;
    this.#rising |= 1 << pool;
    (values[ALLOCATION * STRIDE + pool] as number) += 1;
    (values[ALLOCATION * STRIDE + ADDED + pool] as number) += 1;
    (values[ALLOCATED_BYTES * STRIDE + pool] as number) += bytes;
    (values[ALLOCATED_BYTES * STRIDE + ADDED + pool] as number) += bytes;
    (values[REQUESTED_BYTES * STRIDE + pool] as number) += requested;
    (values[REQUESTED_BYTES * STRIDE + ADDED + pool] as number) += requested;
    if (this.#pending > 0) this.#noteActivePeaks();
  }

  /** It is free again, at once. */
  noteFreed(pool: PoolKind, bytes: number, requested: number): void {
    if (this.#rising !== 0) this.#noteRise();
    const values = this.#values;
    (values[ALLOCATION * STRIDE + pool] as number) -= 1;
    (values[ALLOCATED_BYTES * STRIDE + pool] as number) -= bytes;
    (values[REQUESTED_BYTES * STRIDE + pool] as number) -= requested;
  }

  /** The peaks of what `noteAllocated` raised since the last fall. */
  #noteRise(): void {
    for (const pool of POOLS) {
      if ((this.#rising & (1 << pool)) === 0) continue;
      this.#raisePeaks(ALLOCATION, pool);
      this.#raisePeaks(ALLOCATED_BYTES, pool);
      this.#raisePeaks(REQUESTED_BYTES, pool);
    }
    this.#rising = 0;
  }

  #raisePeaks(row: number, pool: PoolKind): void {
    const values = this.#values;
    const base = row * STRIDE;
    const current = values[base + pool] as number;
    if (current > (values[base + PEAK + pool] as number)) values[base + PEAK + pool] = current;
    const both = (values[base] as number) + (values[base + 1] as number);
    if (both > (values[base + PEAK + BOTH] as number)) values[base + PEAK + BOTH] = both;
  }

  /** Its user is done with it, but another stream may not be. */
  noteDeferred(pool: PoolKind, bytes: number): void {
    this.#noteRise();
    this.#pending++;
    this.decrease(ALLOCATION, pool, 1);
    this.decrease(ALLOCATED_BYTES, pool, bytes);
    this.increase(PENDING, pool, 1);
    this.increase(PENDING_BYTES, pool, bytes);
  }

  /** Now the other stream is done too. */
  noteDeferredDone(pool: PoolKind, bytes: number, requested: number): void {
    this.#noteRise();
    this.#pending--;
    this.decrease(PENDING, pool, 1);
    this.decrease(PENDING_BYTES, pool, bytes);
    this.decrease(REQUESTED_BYTES, pool, requested);
  }

  /** While nothing is pending, the peaks of the active rows are those of the allocated ones. */
  #noteActivePeaks(): void {
    for (const row of [ACTIVE, ACTIVE_BYTES]) {
      for (const pool of [0, 1, BOTH] as const) {
        const at = row * STRIDE + PEAK + pool;
        this.#values[at] = Math.max(this.#values[at] as number, this.values(row, pool).current);
      }
    }
  }

  /** Adds the net changes, each of either sign, of inactive split blocks and bytes. */
  noteInactiveSplit(pool: PoolKind, blocks: number, bytes: number): void {
    if (blocks !== 0) this.#update(INACTIVE_SPLIT, pool, blocks);
    if (bytes !== 0) this.#update(INACTIVE_SPLIT_BYTES, pool, bytes);
  }

  #update(row: number, pool: PoolKind, net: number): void {
    if (net > 0) this.increase(row, pool, net);
    else this.decrease(row, pool, -net);
  }

  /** Current value over both pools. */
  current(row: number): number {
    if (STAT_ROWS[row]?.sumOf !== undefined) return this.values(row, BOTH).current;
    return (this.#values[row * STRIDE] as number) + (this.#values[row * STRIDE + 1] as number);
  }

  /** Peak over both pools together. */
  peak(row: number): number {
    return this.values(row, BOTH).peak;
  }

  /** @param pool 0 small, 1 large, 2 both. */
  values(row: number, pool: 0 | 1 | 2): StatValues {
    this.#noteRise();
    const peak = this.#values[row * STRIDE + PEAK + pool] as number;
    const parts = STAT_ROWS[row]?.sumOf;
    if (parts !== undefined) {
      const [allocated, pending] = parts.map((part) => this.values(part, pool)) as [StatValues, StatValues];
      return {
        current: allocated.current + pending.current,
        peak: Math.max(peak, allocated.peak),
        allocated: allocated.allocated,
        // What became pending left the allocated ones, but not yet the active ones.
        freed: allocated.freed - (pending.allocated - pending.freed),
      };
    }
    const of = (array: Float64Array, at: number): number =>
      pool === BOTH ? (array[at] as number) + (array[at + 1] as number) : (array[at + pool] as number);
    const current = of(this.#values, row * STRIDE + CURRENT);
    const allocated = of(this.#values, row * STRIDE + ADDED);
    return { current, peak, allocated, freed: allocated - (current - of(this.#base, row * 2)) };
  }

  resetPeak(): void {
    for (let row = 0; row < ROWS; row++) {
      for (const pool of [0, 1, BOTH] as const) this.#values[row * STRIDE + PEAK + pool] = this.values(row, pool).current;
    }
  }

  /** Sets what was added and taken off, and the counters, to 0. */
  resetAccumulated(): void {
    for (let row = 0; row < ROWS; row++) {
      for (const pool of [0, 1]) {
        this.#values[row * STRIDE + ADDED + pool] = 0;
        this.#base[row * 2 + pool] = this.#values[row * STRIDE + CURRENT + pool] as number;
      }
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
}

// Statistics: one row each, from which the counters, PyTorch's keys, the summary and the metrics follow. Must not know what is counted.
//
// Of each row the current value and all that was ever added are kept by pool, and the peaks by pool and for both; what was taken off and
// the sums over both pools are computed when asked. That halves the work in every allocation.

/** A statistic kept for the small and the large pool: PyTorch's key and what it counts. */
export interface StatRow {
  readonly key: string;
  readonly unit: 'count' | 'bytes';
  /** False where PyTorch has one value and no pools. */
  readonly pools: boolean;
  readonly label: string;
}

export const STAT_ROWS: readonly StatRow[] = [
  { key: 'allocation', unit: 'count', pools: true, label: 'Allocations' },
  { key: 'allocated_bytes', unit: 'bytes', pools: true, label: 'Allocated memory' },
  { key: 'requested_bytes', unit: 'bytes', pools: true, label: 'Requested memory' },
  { key: 'active', unit: 'count', pools: true, label: 'Active blocks' },
  { key: 'active_bytes', unit: 'bytes', pools: true, label: 'Active memory' },
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

const ROWS = STAT_ROWS.length;
const BOTH = 2;

export class Stats {
  // [row * 2 + pool]
  readonly #current = new Float64Array(ROWS * 2);
  readonly #added = new Float64Array(ROWS * 2);
  /** Value of `current` when the accumulated numbers were last reset. */
  readonly #base = new Float64Array(ROWS * 2);
  // [row * 3 + pool], the third for both pools
  readonly #peak = new Float64Array(ROWS * 3);
  readonly counters: Record<CounterKey, number> = {
    num_alloc_retries: 0,
    num_ooms: 0,
    num_sync_all_streams: 0,
    num_device_alloc: 0,
    num_device_free: 0,
  };

  increase(row: number, pool: number, amount: number): void {
    const at = row * 2 + pool;
    const current = (this.#current[at] as number) + amount;
    this.#current[at] = current;
    this.#added[at] = (this.#added[at] as number) + amount;
    const peaks = row * 3;
    if (current > (this.#peak[peaks + pool] as number)) this.#peak[peaks + pool] = current;
    const both = current + (this.#current[at ^ 1] as number);
    if (both > (this.#peak[peaks + BOTH] as number)) this.#peak[peaks + BOTH] = both;
  }

  decrease(row: number, pool: number, amount: number): void {
    const at = row * 2 + pool;
    this.#current[at] = (this.#current[at] as number) - amount;
  }

  /** Adds a net change that may be of either sign. */
  update(row: number, pool: number, net: number): void {
    if (net > 0) this.increase(row, pool, net);
    else if (net < 0) this.decrease(row, pool, -net);
  }

  /** Current value over both pools. */
  current(row: number): number {
    return (this.#current[row * 2] as number) + (this.#current[row * 2 + 1] as number);
  }

  /** Peak over both pools together. */
  peak(row: number): number {
    return this.#peak[row * 3 + BOTH] as number;
  }

  /** @param pool 0 small, 1 large, 2 both. */
  values(row: number, pool: 0 | 1 | 2): StatValues {
    const of = (array: Float64Array): number =>
      pool === BOTH ? (array[row * 2] as number) + (array[row * 2 + 1] as number) : (array[row * 2 + pool] as number);
    const current = of(this.#current);
    const allocated = of(this.#added);
    return { current, peak: this.#peak[row * 3 + pool] as number, allocated, freed: allocated - (current - of(this.#base)) };
  }

  resetPeak(): void {
    for (let row = 0; row < ROWS; row++) {
      for (const pool of [0, 1, 2] as const) this.#peak[row * 3 + pool] = this.values(row, pool).current;
    }
  }

  /** Sets what was added and taken off, and the counters, to 0. */
  resetAccumulated(): void {
    this.#added.fill(0);
    this.#base.set(this.#current);
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

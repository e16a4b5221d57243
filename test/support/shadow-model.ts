// A second account of an allocator, kept from its history and from what it was told: which blocks live, which wait for whom, and every
// statistic with its peaks. Compared with the allocator after each operation. Must not know how the allocator decides.

import type { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { HistoryEntry } from '../../lib/allocator/history.js';
import type { Snapshot, SnapshotBlock, SnapshotSegment } from '../../lib/snapshot/model.js';
import { ensure, POOL_ROWS, POOLS, type PoolName, type PoolRow, recount, stat } from './invariants.js';

const ROWS = [
  'allocation',
  'allocated_bytes',
  'requested_bytes',
  'active',
  'active_bytes',
  'segment',
  'reserved_bytes',
] as const;
const SINGLE_ROWS = ['oversize_allocations', 'oversize_segments'] as const;
type Row = (typeof ROWS)[number] | (typeof SINGLE_ROWS)[number];

/** What an operation asked for; tells the pool of the segments that it makes. */
export interface Request {
  readonly pool: PoolName;
  readonly stream: number;
  readonly poolId: readonly [number, number];
}

interface Held extends Request {
  readonly size: number;
  readonly requested: number;
  /** Streams that use it beside its own. */
  readonly uses: Set<number>;
  /** Streams whose events must be completed before it may be free. */
  readonly blockedBy: Set<number>;
}

class Tally {
  readonly current = { small: 0, large: 0 };
  readonly allocated = { small: 0, large: 0 };
  readonly freed = { small: 0, large: 0 };
  readonly peak = { small: 0, large: 0, all: 0 };

  change(pool: PoolName, amount: number): void {
    this.current[pool] += amount;
    if (amount > 0) this.allocated[pool] += amount;
    else this.freed[pool] -= amount;
    this.peak[pool] = Math.max(this.peak[pool], this.current[pool]);
    this.peak.all = Math.max(this.peak.all, this.current.small + this.current.large);
  }

  resetPeak(): void {
    Object.assign(this.peak, this.current, { all: this.current.small + this.current.large });
  }

  resetAccumulated(): void {
    for (const pool of POOLS) this.allocated[pool] = this.freed[pool] = 0;
  }
}

export class ShadowModel {
  readonly live = new Map<number, Held>();
  readonly pending = new Map<number, Held>();
  readonly #allocator: CachingAllocator;
  readonly #tallies = new Map<Row, Tally>([...ROWS, ...SINGLE_ROWS].map((row) => [row, new Tally()]));
  readonly #segments = new Map<number, Request>();
  readonly #counters: Record<string, number> = { num_ooms: 0, num_device_alloc: 0, num_device_free: 0 };
  /** Inactive split rows: greatest value seen, and the value at the last reset of the accumulated numbers. */
  readonly #seen = new Map<string, number>();
  readonly #base = new Map<string, number>();
  #entries = 0;
  /** Events recorded now stay pending. */
  holding = false;

  /** The allocator's history is on and holds everything since it was made. */
  constructor(allocator: CachingAllocator) {
    this.#allocator = allocator;
  }

  /** Takes in what the last operation did, then compares everything. @param synchronized the operation waited for all events */
  observe(snapshot: Snapshot, request: Request | null, synchronized: boolean): void {
    if (synchronized) this.completeEvents();
    const blocks = new Map<number, SnapshotBlock>();
    for (const segment of snapshot.segments) for (const block of segment.blocks) blocks.set(block.address, block);
    const { history } = this.#allocator;
    ensure(history !== null, () => 'the history is off');
    for (; this.#entries < history.total; this.#entries++) this.#take(history.entry(this.#entries), blocks, request);
    this.#compareBlocks(snapshot);
    this.#compareStats(snapshot);
  }

  recordStream(address: number, stream: number): void {
    const block = this.live.get(address);
    if (block !== undefined && stream !== block.stream) block.uses.add(stream);
  }

  /** The events of one stream, or of all, are complete. */
  completeEvents(stream?: number): void {
    for (const block of this.pending.values()) {
      if (stream === undefined) block.blockedBy.clear();
      else block.blockedBy.delete(stream);
    }
  }

  resetPeak(snapshot: Snapshot): void {
    for (const tally of this.#tallies.values()) tally.resetPeak();
    this.#seen.clear();
    this.#noteSplits(snapshot);
  }

  resetAccumulated(snapshot: Snapshot): void {
    for (const tally of this.#tallies.values()) tally.resetAccumulated();
    for (const key of Object.keys(this.#counters)) this.#counters[key] = 0;
    for (const [key, value] of splitRows(snapshot)) this.#base.set(key, value);
  }

  /** The next request sees every completed event. */
  checkNothingOverdue(): void {
    for (const [address, block] of this.pending) {
      ensure(block.blockedBy.size > 0, () => `the block at ${address} still waits though all its events are complete`);
    }
  }

  #change(row: Row, pool: PoolName, amount: number): void {
    this.#tallies.get(row)?.change(pool, amount);
  }

  #take(entry: HistoryEntry, blocks: ReadonlyMap<number, SnapshotBlock>, request: Request | null): void {
    switch (entry.action) {
      case 'alloc':
        return this.#takeAlloc(entry, blocks, request);
      case 'free_requested':
        return this.#takeFree(entry);
      case 'free_completed':
        return this.#takeCompleted(entry);
      case 'segment_alloc':
      case 'segment_map':
      case 'segment_free':
      case 'segment_unmap':
        return this.#takeSegment(entry, request);
      case 'oom':
        this.#count('num_ooms');
    }
  }

  #takeAlloc(entry: HistoryEntry, blocks: ReadonlyMap<number, SnapshotBlock>, request: Request | null): void {
    const { address, size: requested } = entry;
    const block = blocks.get(address);
    ensure(block !== undefined && request !== null, () => `an alloc at ${address} that nobody asked for`);
    ensure(!this.live.has(address) && !this.pending.has(address), () => `${address} is given out twice`);
    const { size } = block;
    this.live.set(address, { ...request, size, requested, uses: new Set(), blockedBy: new Set() });
    this.#change('allocation', request.pool, 1);
    this.#change('allocated_bytes', request.pool, size);
    this.#change('requested_bytes', request.pool, requested);
    this.#change('active', request.pool, 1);
    this.#change('active_bytes', request.pool, size);
    if (size >= this.#allocator.config.maxSplitSize) this.#change('oversize_allocations', request.pool, 1);
  }

  #takeFree({ address, size }: HistoryEntry): void {
    const block = this.live.get(address);
    ensure(
      block !== undefined && block.requested === size,
      () => `a free of ${size} bytes at ${address}, which do not live`,
    );
    this.live.delete(address);
    this.pending.set(address, block);
    if (this.holding) for (const stream of block.uses) block.blockedBy.add(stream);
    this.#change('allocation', block.pool, -1);
    this.#change('allocated_bytes', block.pool, -block.size);
    if (block.size >= this.#allocator.config.maxSplitSize) this.#change('oversize_allocations', block.pool, -1);
  }

  #takeCompleted({ address }: HistoryEntry): void {
    const block = this.pending.get(address);
    ensure(block !== undefined, () => `a free at ${address} completes that was not requested`);
    ensure(
      block.blockedBy.size === 0,
      () => `the block at ${address} is free too early: streams ${[...block.blockedBy]} use it`,
    );
    this.pending.delete(address);
    this.#change('requested_bytes', block.pool, -block.requested);
    this.#change('active', block.pool, -1);
    this.#change('active_bytes', block.pool, -block.size);
  }

  #takeSegment({ action, segment, size, stream }: HistoryEntry, request: Request | null): void {
    let owner = this.#segments.get(segment);
    if (owner === undefined) {
      ensure(request !== null, () => `segment ${segment} was made for no request`);
      owner = request;
      this.#segments.set(segment, owner);
    }
    ensure(owner.stream === stream, () => `segment ${segment} is on stream ${stream}, made for ${owner.stream}`);
    const gained = action === 'segment_alloc' || action === 'segment_map';
    this.#count(gained ? 'num_device_alloc' : 'num_device_free');
    const sign = gained ? 1 : -1;
    this.#change('reserved_bytes', owner.pool, sign * size);
    if (action === 'segment_map' || action === 'segment_unmap') return;
    this.#change('segment', owner.pool, sign);
    if (size >= this.#allocator.config.maxSplitSize) this.#change('oversize_segments', owner.pool, sign);
  }

  #count(key: string): void {
    this.#counters[key] = (this.#counters[key] ?? 0) + 1;
  }

  #compareBlocks(snapshot: Snapshot): void {
    let live = 0;
    let pending = 0;
    for (const segment of snapshot.segments) {
      const owner = this.#segments.get(segment.place?.[0] ?? -1);
      ensure(owner !== undefined, () => `segment ${segment.place?.[0] ?? -1} is not in the history`);
      ensure(isOf(segment, owner), () => `segment ${segment.place?.[0] ?? -1} is not of the pool it was made for`);
      for (const block of segment.blocks) {
        if (block.state === 'inactive') continue;
        const isLive = block.state === 'active_allocated';
        if (isLive) live++;
        else pending++;
        const held = (isLive ? this.live : this.pending).get(block.address);
        ensure(held !== undefined, () => `${block.address} is ${block.state} against the history`);
        const same = held.size === block.size && held.requested === block.requestedSize;
        ensure(
          same,
          () =>
            `${block.address} has ${block.size} bytes for ${block.requestedSize}, not ${held.size} for ${held.requested}`,
        );
        ensure(isOf(segment, held), () => `${block.address} lies in a segment of another pool or stream`);
      }
    }
    ensure(live === this.live.size, () => `${live} blocks live, ${this.live.size} should`);
    ensure(pending === this.pending.size, () => `${pending} blocks wait, ${this.pending.size} should`);
  }

  #compareStats(snapshot: Snapshot): void {
    const stats = this.#allocator.memoryStats();
    const same = (key: string, wanted: number): void =>
      ensure(stat(stats, key) === wanted, () => `${key} is ${stats[key]}, should be ${wanted}`);
    for (const [key, value] of Object.entries(this.#counters)) same(key, value);
    for (const row of ROWS) {
      const tally = this.#tallies.get(row) as Tally;
      same(`${row}.all.peak`, tally.peak.all);
      for (const pool of POOLS) {
        same(`${row}.${pool}_pool.current`, tally.current[pool]);
        same(`${row}.${pool}_pool.peak`, tally.peak[pool]);
        same(`${row}.${pool}_pool.allocated`, tally.allocated[pool]);
        same(`${row}.${pool}_pool.freed`, tally.freed[pool]);
      }
    }
    for (const row of SINGLE_ROWS) {
      const { current, peak, allocated, freed } = this.#tallies.get(row) as Tally;
      same(`${row}.current`, current.small + current.large);
      same(`${row}.peak`, peak.all);
      same(`${row}.allocated`, allocated.small + allocated.large);
      same(`${row}.freed`, freed.small + freed.large);
    }
    this.#noteSplits(snapshot);
    for (const [key, value] of splitRows(snapshot)) {
      const change = stat(stats, `${key}.allocated`) - stat(stats, `${key}.freed`);
      ensure(change === value - (this.#base.get(key) ?? 0), () => `${key}: allocated - freed is ${change}`);
      // Within an operation it may have been more for a moment.
      ensure(stat(stats, `${key}.peak`) >= (this.#seen.get(key) ?? 0), () => `${key}.peak is below a value seen`);
    }
  }

  #noteSplits(snapshot: Snapshot): void {
    for (const [key, value] of splitRows(snapshot)) this.#seen.set(key, Math.max(value, this.#seen.get(key) ?? 0));
  }
}

function isOf(segment: SnapshotSegment, request: Request): boolean {
  return (
    segment.stream === request.stream &&
    segment.segmentType === request.pool &&
    segment.segmentPoolId.join() === request.poolId.join()
  );
}

function splitRows(snapshot: Snapshot): Map<string, number> {
  const rows: readonly PoolRow[] = POOL_ROWS.filter((row) => row.startsWith('inactive_split'));
  const result = new Map<string, number>();
  for (const row of rows) {
    let all = 0;
    for (const pool of POOLS) {
      const value = recount(snapshot.segments, pool)[row];
      result.set(`${row}.${pool}_pool`, value);
      all += value;
    }
    result.set(`${row}.all`, all);
  }
  return result;
}

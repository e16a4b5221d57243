// The caching allocator: the public surface, and the path of a request that the pool can serve. Everything else is in the files it
// is composed of. Knows its device only through the interface.

import type { Device, Feature, Stream } from '../device/types.js';
import {
  ConfigError,
  DoubleFreeError,
  InvalidAddressError,
  InvalidSizeError,
  OutOfMemoryError,
  UnsupportedError,
  UseAfterFreeError,
  WrongThreadError,
} from '../errors.js';
import type { Snapshot } from '../snapshot/model.js';
import { formatSize } from '../units.js';
import { AddressTable } from './address-table.js';
import { ALLOCATED, type Block } from './block.js';
import { PrivatePool } from './block-pool.js';
import { CachedMemory } from './cached-memory.js';
import { type Config, completeConfig, parseConfig, settingsFromEnvironment } from './config.js';
import { DeferredFrees } from './deferred-frees.js';
import { type BufferOwner, DeviceBuffer } from './device-buffer.js';
import { ExpandableSegments } from './expandable-segments.js';
import type { FreeList } from './free-list.js';
import { Heap } from './heap.js';
import { type HistoryOptions, MemoryHistory, RECORD_OOM } from './history.js';
import { LeakTracker } from './leak-tracker.js';
import { memorySummary } from './memory-summary.js';
import { outOfMemoryError } from './out-of-memory.js';
import { PlainSegments } from './plain-segments.js';
import { isPolicyName, type Mends, makePolicy, type Policy, type PolicyName } from './policy.js';
import { type PressureHandler, PressureHandlers } from './pressure-handlers.js';
import { RetryLadder } from './retry-ladder.js';
import { roundSize, SMALL_SIZE, segmentSize } from './rounding.js';
import { captureFrames } from './stack.js';
import { snapshotOf } from './state-snapshot.js';
import { ALLOCATED_BYTES, RESERVED_BYTES } from './stats.js';

export interface AllocatorOptions {
  readonly device: Device;
  /** A settings string as PyTorch's, or settings; left out: from the environment (`CUDALLOC_CONF`, `PYTORCH_ALLOC_CONF`, `PYTORCH_CUDA_ALLOC_CONF`). */
  readonly conf?: string | Partial<Config>;
  /** Default `default`; `CUDALLOC_POLICY` overrides it. */
  readonly policy?: PolicyName;
  /** Switches single differences of the policy from PyTorch. */
  readonly mends?: Partial<Mends>;
  /** Warn about buffers that were collected without `free`. Default true. */
  readonly leakWarnings?: boolean;
}

export interface AllocateOptions {
  /** Default: the device's default stream. */
  readonly stream?: Stream;
  /** Default: the one of `withMemPool`, else the default pools. */
  readonly pool?: MemPool;
}

export interface AllocateAsyncOptions extends AllocateOptions {
  readonly signal?: AbortSignal;
}

/** What an observer of an out of memory is told. Bytes. */
export interface OutOfMemoryInfo {
  /** What the device was asked for. */
  readonly allocSize: number;
  /** Allowed by the memory fraction, else the device's total. */
  readonly limit: number;
  readonly deviceFree: number;
  readonly error: OutOfMemoryError;
}

/**
 * PyTorch's caching allocator over a device. `malloc` and `free` are the bare level: addresses, no objects. `allocate` is the safe one.
 * Not for several threads: each worker makes its own.
 */
export class CachingAllocator implements BufferOwner {
  readonly device: Device;
  readonly #heap: Heap;
  readonly #live = new AddressTable();
  readonly #plain: PlainSegments;
  readonly #expandable: ExpandableSegments;
  readonly #deferred: DeferredFrees;
  readonly #cached: CachedMemory;
  readonly #ladder: RetryLadder;
  readonly #handlers = new PressureHandlers();
  readonly #leaks: LeakTracker;
  readonly #observers = new Set<(info: OutOfMemoryInfo) => void>();
  readonly #defaultStream: Stream;
  /** As at the start: `setConf` does not change what the statistics report. */
  readonly #reportedMaxSplitSize: number;
  #pool: PrivatePool | null = null;
  #poolNumbers = 0;
  #closed = false;

  constructor(options: AllocatorOptions) {
    const env = environment();
    const conf = options.conf ?? settingsFromEnvironment(env)?.text ?? null;
    const config = typeof conf === 'string' || conf === null ? parseConfig(conf) : completeConfig(conf);
    this.device = options.device;
    this.#defaultStream = options.device.defaultStream;
    const heap = new Heap(config, policyFrom(options, env));
    this.#heap = heap;
    this.#reportedMaxSplitSize = Number.isFinite(config.maxSplitSize) ? config.maxSplitSize : -1;
    this.#plain = new PlainSegments(heap, this.device);
    this.#expandable = new ExpandableSegments(heap, this.device);
    this.#deferred = new DeferredFrees(heap, this.device);
    this.#cached = new CachedMemory(heap, this.#plain, this.#expandable);
    this.#ladder = new RetryLadder(heap, {
      plain: this.#plain,
      expandable: this.#expandable,
      cached: this.#cached,
      deferred: this.#deferred,
    });
    this.#leaks = new LeakTracker(options.leakWarnings ?? true, (address) => {
      if (!this.#closed) this.free(address);
    });
    const { virtualMemory } = this.device.features;
    if (!virtualMemory.works) heap.expandableRefused = virtualMemory.reason;
    if (config.perProcessMemoryFraction !== null) this.setPerProcessMemoryFraction(config.perProcessMemoryFraction);
  }

  // The bare level ------------------------------------------------------------------------------------------------------

  /**
   * An address of at least `bytes` bytes, aligned to 512; 0 for 0 bytes. A hit in the pool is logarithmic and asks nothing of the
   * device; otherwise it may synchronise.
   * @throws OutOfMemoryError, InvalidSizeError, DriverError; the state is then as before
   */
  malloc(bytes: number, stream: Stream = this.#defaultStream): number {
    if (bytes === 0) return 0;
    const heap = this.#heap;
    if (!(bytes > 0 && bytes <= Number.MAX_SAFE_INTEGER) || bytes !== Math.floor(bytes) || this.#closed) this.#refuse(bytes);
    if (stream !== this.#defaultStream && stream.device !== this.device) refuseStream();
    if (this.#deferred.outstanding > 0) this.#deferred.process();
    const size = roundSize(bytes, heap.config);
    const pools = this.#pool ?? heap;
    const list = (size <= SMALL_SIZE ? pools.small : pools.large).listOf(stream);
    const found = heap.find(list, size) ?? this.#climb(list, size, bytes);
    const block = heap.take(found, size, bytes);
    const { address } = block;
    this.#live.set(address, block);
    return address;
  }

  /**
   * Gives an address back; `free(0)` does nothing. Logarithmic, plus an event for each stream that was recorded.
   * @throws DoubleFreeError, InvalidAddressError, DriverError; the state is then as before
   */
  free(address: number): void {
    if (address === 0) return;
    const block = this.#live.get(address);
    if (block === null) return this.#refuseAddress(address);
    const { streamUses } = block;
    if (streamUses !== null) this.#deferred.defer(block);
    this.#live.delete(address);
    this.#heap.requestFree(block);
    if (this.#heap.history !== null) this.#heap.recordFree(block, streamUses === null);
    if (streamUses === null) this.#heap.release(block);
  }

  /** Another stream uses the memory: after `free` it is reused only when that stream's work so far has completed. */
  recordStream(address: number, stream: Stream): void {
    const block = this.#live.get(address);
    if (block === null) return this.#refuseAddress(address);
    if (stream.device !== this.device) refuseStream();
    if (stream === block.list.stream) return;
    if (block.streamUses === null) block.streamUses = [stream];
    else if (!block.streamUses.includes(stream)) block.streamUses.push(stream);
  }

  /** Address and bytes of the whole segment of a live address. @throws UnsupportedError inside an expandable segment, as in PyTorch */
  baseAllocation(address: number): { base: number; size: number } {
    const block = this.#live.get(address);
    if (block === null) return this.#refuseAddress(address);
    if (block.segment.range !== null) {
      throw new UnsupportedError('a block of an expandable segment has no base allocation: its segment grows and shrinks');
    }
    return { base: block.segment.address, size: block.segment.size };
  }

  // The safe level ------------------------------------------------------------------------------------------------------

  /** As `malloc`, but the result knows its size, checks its use and can be freed once. */
  allocate(bytes: number, options: AllocateOptions = {}): DeviceBuffer {
    const stream = options.stream ?? this.#defaultStream;
    const { pool } = options;
    const address = pool === undefined ? this.malloc(bytes, stream) : this.withMemPool(pool, () => this.malloc(bytes, stream));
    const buffer = new DeviceBuffer(this, address, bytes, stream);
    if (address !== 0) {
      const frames = this.#heap.history?.stacks === true ? captureFrames() : null;
      this.#leaks.watch(buffer, address, bytes, frames);
    }
    return buffer;
  }

  /**
   * As `allocate`, without blocking this thread where the pool alone does not serve: waits for pending frees, then asks the pressure
   * handlers, and fails only when neither helps.
   */
  async allocateAsync(bytes: number, options: AllocateAsyncOptions = {}): Promise<DeviceBuffer> {
    const { signal } = options;
    signal?.throwIfAborted();
    for (const stream of this.#deferred.streams) {
      await this.device.streamSynchronizeAsync(stream);
      signal?.throwIfAborted();
    }
    for (;;) {
      try {
        return this.allocate(bytes, options);
      } catch (error) {
        if (!(error instanceof OutOfMemoryError) || !(await this.#handlers.reclaim(error.details.rounded))) throw error;
      }
      signal?.throwIfAborted();
    }
  }

  /** @internal */
  freeBuffer(buffer: DeviceBuffer, address: number): void {
    if (address === 0) return;
    this.free(address);
    this.#leaks.forget(buffer);
  }

  // Settings and cached memory ------------------------------------------------------------------------------------------

  /** The settings in force. */
  get config(): Config {
    return this.#heap.config;
  }

  get policy(): Policy {
    return this.#heap.policy;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Whether the expandable segments that the settings ask for can be had. */
  get expandableSegments(): Feature {
    const reason = this.#heap.expandableRefused;
    return reason === '' ? { works: true } : { works: false, reason };
  }

  /** Parses a settings string as PyTorch's `_set_allocator_settings` does: what it does not name returns to its default, but for a few options. */
  setConf(text: string): void {
    const config = parseConfig(text, { base: this.#heap.config });
    const fraction = config.perProcessMemoryFraction;
    if (fraction !== this.#heap.config.perProcessMemoryFraction && fraction !== null) this.setPerProcessMemoryFraction(fraction);
    this.#heap.config = config;
  }

  /** Waits for pending frees, then gives all cached memory back to the device. Synchronising. */
  emptyCache(): void {
    this.#deferred.synchronize();
    this.#cached.flush();
  }

  /** Limits what is held from the device to a fraction (0 to 1) of its memory. */
  setPerProcessMemoryFraction(fraction: number): void {
    if (!(fraction >= 0 && fraction <= 1)) {
      throw new ConfigError(`the memory fraction is ${fraction}; accepted is 0 to 1`, {
        key: 'per_process_memory_fraction',
        value: String(fraction),
      });
    }
    this.#heap.limit = Math.trunc(fraction * this.device.memGetInfo().total);
  }

  // Private pools -------------------------------------------------------------------------------------------------------

  /** A pool that shares no memory with the others. */
  createMemPool(): MemPool {
    const pool = new PrivatePool(++this.#poolNumbers);
    this.#heap.privatePools.add(pool);
    return new MemPool(this, pool);
  }

  /** Runs `fn`; what it allocates comes from the pool. `fn` is synchronous: across an await use `allocate(bytes, { pool })`. */
  withMemPool<T>(pool: MemPool, fn: () => T): T {
    const outer = this.#pool;
    this.#pool = MemPool.poolOf(pool, this);
    try {
      const result = fn();
      if (result instanceof Promise) throw new TypeError('withMemPool takes a synchronous function; use allocate(bytes, { pool })');
      return result;
    } finally {
      this.#pool = outer;
    }
  }

  // Statistics, history, snapshots --------------------------------------------------------------------------------------

  /** Bytes in use by callers, rounded to blocks. Constant. */
  memoryAllocated(): number {
    return this.#heap.stats.current(ALLOCATED_BYTES);
  }

  /** Bytes held from the device. Constant. */
  memoryReserved(): number {
    return this.#heap.reserved;
  }

  maxMemoryAllocated(): number {
    return this.#heap.stats.peak(ALLOCATED_BYTES);
  }

  maxMemoryReserved(): number {
    return this.#heap.stats.peak(RESERVED_BYTES);
  }

  /** Every statistic under PyTorch's flat keys (`allocated_bytes.all.peak`), and ours under `cudalloc.`. */
  memoryStats(): Record<string, number> {
    return {
      ...this.#heap.stats.flat(),
      max_split_size: this.#reportedMaxSplitSize,
      'cudalloc.reserved_address_bytes': this.#expandable.reservedAddresses,
      'cudalloc.reservation_step_downs': this.#expandable.stepDowns,
      'cudalloc.expandable_segments_refused': this.#heap.expandableRefused === '' ? 0 : 1,
      'cudalloc.unreleased_page_bytes': this.#expandable.keptBytes,
    };
  }

  /** The statistics as a table for people. */
  memorySummary(): string {
    const { device } = this;
    return memorySummary(this.#heap.stats, `cudalloc memory summary, device ${device.index} (${device.name}), policy ${this.policy.name}`);
  }

  resetPeakMemoryStats(): void {
    this.#heap.stats.resetPeak();
  }

  resetAccumulatedMemoryStats(): void {
    this.#heap.stats.resetAccumulated();
  }

  /** The largest free block, or the free bytes of the device when those are more. */
  cacheInfo(): { largestBlock: number } {
    let largestBlock = this.device.memGetInfo().free;
    for (const pools of [this.#heap, ...this.#heap.privatePools]) {
      for (const list of [...pools.large.lists(), ...pools.small.lists()]) {
        for (const block of list.blocks()) largestBlock = Math.max(largestBlock, block.size);
      }
    }
    return { largestBlock };
  }

  /** Starts recording events, afresh; null stops it and drops them. */
  recordMemoryHistory(options: HistoryOptions | null = {}): void {
    this.#heap.history = options === null ? null : new MemoryHistory(options);
  }

  /** The recorded events; null while recording is off. */
  get history(): MemoryHistory | null {
    return this.#heap.history;
  }

  /** The present state and the recorded events. Linear. */
  memorySnapshot(): Snapshot {
    return snapshotOf(this.#heap, this.device);
  }

  // Out of memory -------------------------------------------------------------------------------------------------------

  /** Calls `observer` at every out of memory, before the error is thrown. Returns the function that ends it. */
  onOutOfMemory(observer: (info: OutOfMemoryInfo) => void): () => void {
    this.#observers.add(observer);
    return () => void this.#observers.delete(observer);
  }

  /** Asks `handler` for memory when everything else has failed. Returns the function that ends it. */
  registerPressureHandler(handler: PressureHandler): () => void {
    return this.#handlers.add(handler);
  }

  /** Waits for the device, then gives all its memory back, live blocks included. Idempotent. */
  close(): void {
    if (this.#closed) return;
    const heap = this.#heap;
    this.device.synchronize();
    this.#closed = true;
    this.#deferred.destroy();
    for (const segment of heap.segments) {
      if (segment.range === null) this.device.free(segment.address);
      else this.#expandable.dismantle(segment);
      heap.segments.delete(segment);
    }
    this.#expandable.releaseKept();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** For `console.log`. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    const { device } = this;
    const held = `${formatSize(this.memoryAllocated())} of ${formatSize(this.memoryReserved())} in use`;
    return `CachingAllocator { ${device.backend} device ${device.index}, policy ${this.policy.name}, ${this.#closed ? 'closed' : held} }`;
  }

  #climb(list: FreeList, size: number, requested: number): Block {
    const heap = this.#heap;
    const found = this.#ladder.climb(list, size) ?? this.#relieve(list, size);
    if (found !== null) return found;
    const memory = this.device.memGetInfo();
    const error = outOfMemoryError(heap, { list, requested, rounded: size, device: this.device }, memory);
    if (heap.history !== null) {
      const frames = heap.history.stacks ? captureFrames() : null;
      heap.history.record(RECORD_OOM, memory.free, size, list.stream.id, -1, 0, heap.now(), frames);
    }
    heap.stats.counters.num_ooms++;
    this.#observe({
      allocSize: segmentSize(size, heap.config),
      limit: Math.min(heap.limit, memory.total),
      deviceFree: memory.free,
      error,
    });
    throw error;
  }

  /** Not PyTorch's, and not counted as its retries: lets the pressure handlers make room. */
  #relieve(list: FreeList, size: number): Block | null {
    const { counters } = this.#heap.stats;
    return this.#handlers.relieve(size, () => {
      const retries = counters.num_alloc_retries;
      const block = this.#heap.find(list, size) ?? this.#ladder.climb(list, size);
      counters.num_alloc_retries = retries;
      return block;
    });
  }

  #observe(info: OutOfMemoryInfo): void {
    for (const observer of this.#observers) {
      try {
        observer(info);
      } catch (cause) {
        // The out of memory is the news; what went wrong while telling it goes along.
        info.error.cause ??= cause;
      }
    }
  }

  #refuse(bytes: number): never {
    if (this.#closed) throw new UseAfterFreeError('the allocator is closed');
    throw new InvalidSizeError(bytes, `a size is a whole number of bytes from 0 to 2^53 - 1, not ${String(bytes)}`);
  }

  #refuseAddress(address: number): never {
    if (this.#closed) throw new UseAfterFreeError('the allocator is closed');
    const shown = typeof address === 'number' ? `0x${address.toString(16)}` : String(address);
    for (const { address: start, size, first } of this.#heap.segments) {
      if (!(address >= start && address < start + size)) continue;
      let block: Block = first;
      while (block.next !== null && block.next.address <= address) block = block.next;
      if (block.state !== ALLOCATED) {
        throw new DoubleFreeError(address, `nothing is allocated at ${shown}; it was freed before, or never allocated`);
      }
      throw new InvalidAddressError(address, `${shown} lies inside an allocation that starts at 0x${block.address.toString(16)}`);
    }
    throw new InvalidAddressError(address, `${shown} was not given out by this allocator`);
  }
}

/** A pool of its own for what is allocated under it (PyTorch's MemPool). */
export class MemPool {
  readonly id: readonly [number, number];
  readonly #allocator: CachingAllocator;
  readonly #pool: PrivatePool;

  /** @internal */
  constructor(allocator: CachingAllocator, pool: PrivatePool) {
    this.#allocator = allocator;
    this.#pool = pool;
    this.id = pool.id;
  }

  get released(): boolean {
    return this.#pool.released;
  }

  /** Gives the pool up: nothing can be allocated from it any more, and `emptyCache` gives its free memory back. Idempotent. */
  release(): void {
    this.#pool.released = true;
  }

  [Symbol.dispose](): void {
    this.release();
  }

  /** @internal */
  static poolOf(pool: MemPool, allocator: CachingAllocator): PrivatePool {
    if (pool.#allocator !== allocator) throw new WrongThreadError('the pool belongs to another allocator');
    if (pool.#pool.released) throw new UseAfterFreeError('the pool was released');
    return pool.#pool;
  }
}

function refuseStream(): never {
  throw new WrongThreadError('the stream belongs to another device');
}

function environment(): Readonly<Record<string, string | undefined>> {
  return (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
}

function policyFrom(options: AllocatorOptions, env: Readonly<Record<string, string | undefined>>): Policy {
  const name = options.policy ?? env.CUDALLOC_POLICY ?? 'default';
  if (!isPolicyName(name)) {
    throw new ConfigError(`there is no policy '${name}'; accepted is pytorch or default`, { key: 'policy', value: name });
  }
  return makePolicy(name, options.mends);
}

// The caching allocator: what it does with memory, and the path of a request that the pool can serve. Everything else is in the files it
// is composed of. Knows its device only through the interface.

import type { Stream } from '../device/types.js';
import {
  ConfigError,
  DeviceLostError,
  InvalidSizeError,
  PausedError,
  UnsupportedError,
  UseAfterFreeError,
  WrongThreadError,
} from '../errors.js';
import type { SharedRange } from '../pages/shared-range.js';
import type { Frame } from '../snapshot/model.js';
import { formatSize } from '../units.js';
import { refuseAddress, refuseOwned } from './address-errors.js';
import { AddressReservation } from './address-reservation.js';
import { AddressTable } from './address-table.js';
import { UNIT } from './block.js';
import { type BlockPool, type Pools, PrivatePool } from './block-pool.js';
import { BufferMemory } from './buffer-memory.js';
import { Buffers } from './buffers.js';
import { Compaction } from './compaction.js';
import { parseConfig } from './config-parser.js';
import { DeferredFrees } from './deferred-frees.js';
import { type BufferOwner, DeviceBuffer } from './device-buffer.js';
import { environment } from './environment.js';
import type { FreeList } from './free-list.js';
import { Heap } from './heap.js';
import { ImportedMemory, type ImportOptions } from './imported-memory.js';
import { MemPool } from './mem-pool.js';
import { MemoryReports } from './memory-reports.js';
import type { MemorySource } from './memory-source.js';
import {
  type AllocateAsyncOptions,
  type AllocateOptions,
  type AllocatorOptions,
  configFrom,
  policyFrom,
} from './options.js';
import { OtherAllocators } from './other-allocators.js';
import type { OutOfMemoryInfo } from './out-of-memory.js';
import { PagedMemory } from './paged-memory.js';
import { SMALLEST_LARGE_PAGE } from './paged-segments.js';
import { Pause, type PausedContent } from './pause.js';
import { PoolMisses } from './pool-misses.js';
import type { PressureHandler } from './pressure-handlers.js';
import { PytorchMemory } from './pytorch-memory.js';
import type { RestoredSegment } from './restore.js';
import { roundSize, SMALL_SIZE, TINY_SIZE } from './rounding.js';
import { isExpandable } from './segment.js';
import type { ShareableHandle } from './shareable-handle.js';
import { checkShareable, ShareableMemory } from './shareable-memory.js';

const TINY_UNITS = TINY_SIZE / UNIT;
const SMALL_UNITS = SMALL_SIZE / UNIT;
/** Free blocks from this size on may have whole pages that others could use. In units. */
const LEAST_OFFERED = SMALLEST_LARGE_PAGE / UNIT;
/** The largest size whose rounding stays within 31 bits. */
const LARGEST_QUICK = 0x7ffffe00;

/**
 * PyTorch's caching allocator over a device. `malloc` and `free` are the bare level: addresses, no objects. `allocate` is the safe one.
 * Not for several threads: each worker makes its own.
 */
export class CachingAllocator extends MemoryReports implements BufferOwner {
  readonly #heap: Heap;
  #live = new AddressTable();
  readonly #addresses: AddressReservation;
  readonly #deferred: DeferredFrees;
  readonly #memory: MemorySource;
  readonly #others: OtherAllocators;
  readonly #misses: PoolMisses;
  readonly #pause: Pause;
  readonly #buffers: Buffers;
  readonly #compaction: Compaction;
  readonly #shareable: ShareableMemory;
  readonly #imported: ImportedMemory;
  readonly #defaultStream: Stream;
  /** Where requests are served from: the default pools, or those of `withMemPool`. */
  #pools: Pools;
  /** Sizes up to this need no more than rounding up to a unit. */
  #quickBytes = 0;
  #closed = false;

  constructor(options: AllocatorOptions) {
    const env = environment();
    const config = configFrom(options, env);
    const heap = new Heap(config, policyFrom(options, env), options.segmentOrder);
    super(options.device, heap);
    this.#defaultStream = options.device.defaultStream;
    this.#heap = heap;
    this.#pools = heap;
    this.#noteConfig();
    const { virtualMemory } = this.device.features;
    if (heap.policy.paged && !virtualMemory.works) {
      throw new UnsupportedError(`the policy paged needs virtual memory: ${virtualMemory.reason}`);
    }
    this.#addresses = new AddressReservation(heap, this.device);
    this.#deferred = new DeferredFrees(heap, this.device);
    const Memory = heap.policy.paged ? PagedMemory : PytorchMemory;
    this.#memory = new Memory(heap, this.device, this.#deferred, this.#addresses);
    this.#others = new OtherAllocators(this.device, (bytes) => this.trim(Math.max(0, heap.cached - bytes)));
    const leakWarnings = options.leakWarnings ?? true;
    this.#buffers = new Buffers(leakWarnings, (memory) => {
      this.#freeOwned(memory);
    });
    this.#imported = new ImportedMemory(this.device, leakWarnings);
    this.#compaction = new Compaction(heap, this.device, this.#buffers, {
      blockAt: (address) => this.#live.at(this.#live.indexOf(address)),
      moved: (memory, to) => {
        this.#live.deleteAt(this.#live.indexOf(memory.address));
        this.#live.set(to.address, to);
        this.#buffers.move(memory, to.address);
      },
    });
    const parts = {
      memory: this.#memory,
      deferred: this.#deferred,
      others: this.#others,
      compaction: this.#compaction,
    };
    const { dumpOnOutOfMemory } = options;
    this.#misses = new PoolMisses(heap, this.device, parts, {
      assertOpen: () => this.#assertOpen(),
      dumpOnOutOfMemory,
    });
    this.#shareable = new ShareableMemory(heap, this.device, { ...parts, misses: this.#misses });
    this.#pause = new Pause(heap, this.device, { ...parts, shareable: this.#shareable });
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
    const quick = bytes > 0 && bytes <= this.#quickBytes && (bytes | 0) === bytes;
    const units = quick ? (bytes + UNIT - 1) >> 9 : this.#roundCarefully(bytes);
    if (units === 0) return 0;
    if (this.#deferred.outstanding > 0) this.#deferred.process();
    const pool = this.#poolOf(units, this.#pools);
    let list = pool.byStream[stream.id];
    if (list === undefined || list.stream !== stream) list = this.#listOf(pool, stream);
    const found = this.#heap.find(list, units);
    if (found === null) return this.#allocateMiss(list, units, bytes);
    const block = this.#heap.take(list, found, units, bytes);
    const address = block.segment.address + block.start * UNIT;
    this.#live.set(address, block);
    return address;
  }

  #allocateMiss(list: FreeList, units: number, bytes: number): number {
    const found = this.#misses.serve(list, units, bytes);
    const block = this.#heap.take(found.list, found, units, bytes);
    // From another stream: it may be that stream's again only when this one is done with it.
    if (found.list.stream !== list.stream) block.streamUses = [list.stream];
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
    if (this.#buffers.count > 0 && this.#buffers.owns(address)) refuseOwned(address);
    this.#free(address);
  }

  #free(address: number): void {
    const index = this.#live.indexOf(address);
    if (index === -1) return this.#refuse(address);
    const block = this.#live.at(index);
    const waits = block.streamUses !== null && this.#deferred.defer(block);
    this.#live.deleteAt(index);
    if (waits) {
      this.#heap.deferFree(block);
    } else {
      const joined = this.#heap.free(block);
      // Others must find it even while this thread does nothing.
      if (joined.units >= LEAST_OFFERED && this.device.offers?.shared && !this.paused) this.#memory.freed(joined);
    }
  }

  /** Another stream uses the memory: after `free` it is reused only when that stream's work so far has completed. */
  recordStream(address: number, stream: Stream): void {
    const block = this.#live.get(address);
    if (block === null) return this.#refuse(address);
    if (stream.device !== this.device) refuseStream();
    if (stream === block.list.stream) return;
    if (block.streamUses === null) block.streamUses = [stream];
    else if (!block.streamUses.includes(stream)) block.streamUses.push(stream);
  }

  /** Address and bytes of the whole segment of a live address. @throws UnsupportedError inside an expandable segment, as in PyTorch */
  baseAllocation(address: number): { base: number; size: number } {
    const block = this.#live.get(address);
    if (block === null) return this.#refuse(address);
    if (isExpandable(block.segment.range)) {
      throw new UnsupportedError(
        'a block of an expandable segment has no base allocation: its segment grows and shrinks',
      );
    }
    return { base: block.segment.address, size: block.segment.size };
  }

  // The safe level ------------------------------------------------------------------------------------------------------

  /** As `malloc`, but the result knows its size, checks its use and can be freed once. */
  allocate(bytes: number, options: AllocateOptions = {}): DeviceBuffer {
    const stream = options.stream ?? this.#defaultStream;
    const { pool, movable = false, shareable = false } = options;
    if (shareable) return this.#allocateShareable(bytes, options, stream);
    const address =
      pool === undefined ? this.malloc(bytes, stream) : this.withMemPool(pool, () => this.malloc(bytes, stream));
    return this.#bufferIn(new BufferMemory(address, bytes, { movable, frames: this.#frames() }), stream);
  }

  #allocateShareable(bytes: number, options: AllocateOptions, stream: Stream): DeviceBuffer {
    checkShareable(options);
    if (stream.device !== this.device) refuseStream();
    if (this.#roundCarefully(bytes) === 0) return this.#bufferIn(new BufferMemory(0, 0), stream);
    const block = this.#shareable.allocate(bytes, stream);
    this.#live.set(block.address, block);
    const shared = block.segment.range as SharedRange;
    return this.#bufferIn(new BufferMemory(block.address, bytes, { shared, frames: this.#frames() }), stream);
  }

  #bufferIn(memory: BufferMemory, stream: Stream): DeviceBuffer {
    const buffer = new DeviceBuffer(this, memory, stream);
    if (memory.address !== 0) this.#buffers.add(buffer, memory);
    return buffer;
  }

  #frames(): readonly Frame[] | null {
    return this.#heap.history?.captureFrames() ?? null;
  }

  /**
   * A buffer in the memory of another process's shareable buffer, at an address of this process. The memory stays until both have freed theirs. The same
   * handle again shows the same memory at the same address. Nothing of it is counted here. Freeing it is synchronising.
   * @param options.stream what the buffer's work is ordered on; the processes order it among each other themselves
   * @throws UseAfterFreeError when the other process has freed it or ended, UnsupportedError when the kernel does not let its descriptor be taken
   */
  importHandle(handle: ShareableHandle, options: ImportOptions = {}): DeviceBuffer {
    this.#assertOpen();
    return this.#imported.importHandle(handle, options);
  }

  /**
   * As `allocate`, without blocking this thread where the pool alone does not serve: waits for pending frees, then asks the pressure
   * handlers, and fails only when neither helps.
   */
  async allocateAsync(bytes: number, options: AllocateAsyncOptions = {}): Promise<DeviceBuffer> {
    const { signal, pool, ...wanted } = options;
    const { stream = this.#defaultStream, shareable = false } = wanted;
    if (shareable) checkShareable(options);
    signal?.throwIfAborted();
    // What is in force at the call holds, whatever is when the waiting ends.
    const pools = pool === undefined ? this.#pools : MemPool.poolOf(pool, this);
    return this.#misses.serveAsync({
      bytes,
      signal,
      mayHit: () => !shareable && this.#mayHit(bytes, stream, pools),
      allocate: () => this.#within(pools, () => this.allocate(bytes, wanted)),
    });
  }

  /** @internal */
  freeBuffer(buffer: DeviceBuffer, memory: BufferMemory): void {
    if (memory.address === 0) return;
    this.#freeOwned(memory);
    this.#buffers.forget(buffer);
  }

  // Settings and cached memory ------------------------------------------------------------------------------------------

  get closed(): boolean {
    return this.#closed;
  }

  /** Parses a settings string as PyTorch's `_set_allocator_settings` does: what it does not name returns to its default, but for a few options. */
  setConf(text: string): void {
    this.#assertOpen();
    if (typeof text !== 'string')
      throw new ConfigError('a settings string is expected', { key: 'conf', value: String(text) });
    const config = parseConfig(text, { base: this.#heap.config });
    const fraction = config.perProcessMemoryFraction;
    if (fraction !== this.#heap.config.perProcessMemoryFraction && fraction !== null)
      this.setPerProcessMemoryFraction(fraction);
    this.#heap.config = config;
    if (!this.paused) this.#noteConfig();
  }

  /** Waits for pending frees, then gives all cached memory back to the device. Synchronising. */
  emptyCache(): void {
    this.#assertOpen();
    this.trim(0);
  }

  /**
   * Waits for pending frees, then gives cached memory back to the device until at most `bytes` of it are left, or what cannot be given back. Returns
   * the bytes given back. Synchronising.
   */
  trim(bytes: number): number {
    this.#assertOpen();
    if (!(bytes >= 0)) throw new InvalidSizeError(bytes, `a number of bytes is at least 0, not ${String(bytes)}`);
    if (this.paused) return 0;
    const before = this.#heap.reserved;
    this.#deferred.synchronize();
    this.#memory.flush(bytes);
    this.#shareable.releaseKept();
    return before - this.#heap.reserved;
  }

  /**
   * Gives cached memory back to the device, and copies buffers together that were asked for as `movable` and are not pinned, so that more can be given
   * back. Returns the bytes given back. Linear in blocks for each page that it empties; synchronising.
   * @throws DriverError; buffers are whole then, and where they were or where they were to go
   */
  compact(): number {
    this.#assertOpen();
    if (this.paused) return 0;
    let bytes = this.trim(0);
    while (this.#compaction.run() > 0) bytes += this.trim(0);
    return bytes;
  }

  /** Whether `pause` is in force. */
  get paused(): boolean {
    return this.#pause.active;
  }

  /**
   * Gives all memory back to the device, live blocks included, while addresses stay; returns the bytes given back. Contents are kept in host memory and
   * come back with `resume`, or are dropped as asked. Until then nothing can be allocated, read or written; `free` works. While it is paused already it
   * does nothing and returns 0. Synchronising.
   * @throws UnsupportedError when a segment comes from cudaMalloc; only cached memory has been given back then
   */
  pause(options: { readonly content?: PausedContent } = {}): number {
    this.#assertOpen();
    if (this.paused) return 0;
    const bytes = this.#pause.begin(options.content);
    this.#quickBytes = 0;
    return bytes;
  }

  /**
   * Takes the memory from the device again, behind the same addresses, with the contents that were kept; returns the bytes. Does nothing and returns 0
   * unless paused. Synchronising.
   * @throws DeviceOutOfMemoryError when the device has not enough any more; it stays paused, and this can be called again
   */
  resume(): number {
    this.#assertOpen();
    const bytes = this.#pause.end();
    this.#noteConfig();
    return bytes;
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
    this.#heap.config = Object.freeze({ ...this.#heap.config, perProcessMemoryFraction: fraction });
  }

  // Private pools -------------------------------------------------------------------------------------------------------

  /** A pool that shares no memory with the others. */
  createMemPool(): MemPool {
    this.#assertOpen();
    return new MemPool(this, this.#heap.addPrivatePool());
  }

  /** Runs `fn`; what it allocates comes from the pool. `fn` is synchronous: across an await use `allocate(bytes, { pool })`. */
  withMemPool<T>(pool: MemPool, fn: () => T): T {
    const result = this.#within(MemPool.poolOf(pool, this), fn);
    if (result instanceof Promise)
      throw new TypeError('withMemPool takes a synchronous function; use allocate(bytes, { pool })');
    return result;
  }

  // For replays, and for the statistics ------------------------------------------------------------------------------------

  /**
   * Makes a recorded segment again, with blocks in use; their addresses are returned. For a fresh allocator, and replays only.
   * @internal
   */
  restore(segment: RestoredSegment, memPool?: MemPool): number[] {
    const pools = memPool === undefined ? this.#heap : MemPool.poolOf(memPool, this);
    const list = this.#listOf(segment.segmentType === 'small' ? pools.small : pools.large, segment.stream);
    return this.#memory.restore(list, segment).map((block) => {
      this.#live.set(block.address, block);
      return block.address;
    });
  }

  protected override otherStats(): Record<string, number> {
    const stats = this.#memory.stats();
    const unreleased = 'cudalloc.unreleased_page_bytes';
    return {
      'cudalloc.reserved_address_bytes': this.#addresses.bytes,
      'cudalloc.reservation_step_downs': this.#addresses.stepDowns,
      'cudalloc.paused_bytes': this.#pause.keptBytes,
      'cudalloc.compactions': this.#compaction.moves,
      'cudalloc.compacted_bytes': this.#compaction.bytes,
      'cudalloc.expandable_segments_refused': this.#heap.expandableRefused === '' ? 0 : 1,
      'cudalloc.shareable_bytes': this.#shareable.bytes,
      'cudalloc.imported_bytes': this.#imported.bytes,
      ...stats,
      [unreleased]: (stats[unreleased] ?? 0) + this.#shareable.unreleasedBytes,
    };
  }

  // Out of memory -------------------------------------------------------------------------------------------------------

  /**
   * Calls `observer` at every out of memory, before the error is thrown. By then cached memory has been given back; the state before is what
   * the option `dumpOnOutOfMemory` writes. Returns the function that ends it.
   */
  onOutOfMemory(observer: (info: OutOfMemoryInfo) => void): () => void {
    return this.#misses.failures.observe(observer);
  }

  /** Asks `handler` for memory when everything else has failed. Returns the function that ends it. */
  registerPressureHandler(handler: PressureHandler): () => void {
    return this.#misses.handlers.add(handler);
  }

  /**
   * Waits for the device, then gives all its memory back, live blocks included. After a driver error it can be called again for the rest; a
   * device that is closed or lost has nothing to give back to. Idempotent. Synchronising.
   */
  close(): void {
    this.#closed = true;
    this.#quickBytes = 0;
    this.#live = new AddressTable();
    this.#buffers.close();
    try {
      if (this.device.closed) return this.#forgetAll();
      this.device.synchronize();
      this.#deferred.destroy();
      this.#imported.close();
      this.#shareable.dismantle();
      this.#memory.dismantle();
      this.#forgetAll();
    } catch (error) {
      if (!(error instanceof DeviceLostError)) throw error;
      this.#forgetAll();
    }
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

  #forgetAll(): void {
    // Not earlier: who asks meanwhile waits until everything has been given back.
    this.#others.end();
    this.#imported.forgetAll();
    this.#heap.forgetAll();
  }

  #freeOwned(memory: BufferMemory): void {
    if (memory.shared === null) this.#free(memory.address);
    else this.#freeShareable(memory.address);
    this.#buffers.disown(memory);
  }

  #freeShareable(address: number): void {
    const index = this.#live.indexOf(address);
    this.#shareable.free(this.#live.at(index));
    this.#live.deleteAt(index);
  }

  /** Runs `fn` with requests served from these pools. */
  #within<T>(pools: Pools, fn: () => T): T {
    const outer = this.#pools;
    const own = pools instanceof PrivatePool ? pools : null;
    this.#pools = pools;
    if (own !== null) own.active++;
    try {
      return fn();
    } finally {
      this.#pools = outer;
      if (own !== null) own.active--;
    }
  }

  /** Whether a request looks as if its pool could serve it. Never waits. */
  #mayHit(bytes: number, stream: Stream, pools: Pools): boolean {
    const units = this.#roundCarefully(bytes);
    if (units === 0) return true;
    if (this.#deferred.outstanding > 0) this.#deferred.process();
    return this.#listOf(this.#poolOf(units, pools), stream).lowerBound(units) !== null;
  }

  #refuse(address: number): never {
    this.#assertOpen();
    return refuseAddress(this.#heap, address);
  }

  #assertOpen(): void {
    if (this.#closed) throw new UseAfterFreeError('the allocator is closed');
  }

  #noteConfig(): void {
    this.#quickBytes = this.#heap.config.hasRoundup ? 0 : LARGEST_QUICK;
  }

  #poolOf(units: number, pools: Pools): BlockPool {
    return units <= TINY_UNITS ? pools.tiny : units <= SMALL_UNITS ? pools.small : pools.large;
  }

  #listOf(pool: BlockPool, stream: Stream): FreeList {
    if (stream.device !== this.device) refuseStream();
    return pool.listOf(stream);
  }

  /** Checks and rounds any size; in units. */
  #roundCarefully(bytes: number): number {
    this.#assertOpen();
    if (this.paused) throw new PausedError('the allocator is paused; resume() it before anything is allocated');
    if (bytes >= 0 && Number.isSafeInteger(bytes)) return bytes === 0 ? 0 : roundSize(bytes, this.#heap.config) / UNIT;
    throw new InvalidSizeError(bytes, `a size is a whole number of bytes from 0 to 2^53 - 1, not ${String(bytes)}`);
  }
}

function refuseStream(): never {
  throw new WrongThreadError('the stream belongs to another device');
}

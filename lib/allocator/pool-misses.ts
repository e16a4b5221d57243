// What happens to a request that its pool cannot serve: the retry ladder, then the pressure handlers, then the failure; all at once, or
// without blocking the thread. Must not know how the pool is searched first, nor what becomes of the block.

import type { Device } from '../device/types.js';
import { type Block, UNIT } from './block.js';
import type { Compaction } from './compaction.js';
import type { DeferredFrees } from './deferred-frees.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import type { MemorySource } from './memory-source.js';
import { type DumpOnOutOfMemory, OutOfMemoryDumps, type Shortage } from './oom-dump.js';
import type { OtherAllocators } from './other-allocators.js';
import { OutOfMemoryReporter } from './out-of-memory.js';
import { PressureHandlers } from './pressure-handlers.js';
import { ALLOCATED_BYTES } from './stats.js';

/** A request that may wait. */
export interface AsyncRequest<T extends object> {
  /** As asked for; the handlers are told. */
  readonly bytes: number;
  readonly signal: AbortSignal | undefined;
  /** Whether the pool looks as if it could serve. Never waits. */
  mayHit(): boolean;
  /** The request itself, as one that cannot wait. */
  allocate(): T;
}

/** Where memory is taken from. */
type Source = Pick<MemorySource, 'climb'>;

/** Whom it asks. */
export interface MissParts {
  readonly memory: MemorySource;
  readonly deferred: DeferredFrees;
  readonly others: OtherAllocators;
  readonly compaction: Compaction;
}

export interface MissOptions {
  readonly assertOpen: () => void;
  readonly dumpOnOutOfMemory?: string | DumpOnOutOfMemory | undefined;
}

/** One request, over all its attempts. */
interface Trial {
  /** The memory as it was when the first of them ran short. */
  shortage: Shortage | null;
}

export class PoolMisses {
  readonly handlers = new PressureHandlers();
  readonly failures: OutOfMemoryReporter;
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #deferred: DeferredFrees;
  readonly #memory: MemorySource;
  readonly #others: OtherAllocators;
  readonly #compaction: Compaction;
  readonly #assertOpen: () => void;
  /** Of the asynchronous request whose attempt is running. */
  #trial: Trial | null = null;

  /** @param options.assertOpen throws when the allocator was closed, which a handler may do. */
  constructor(heap: Heap, device: Device, parts: MissParts, options: MissOptions) {
    this.#heap = heap;
    this.#device = device;
    this.#deferred = parts.deferred;
    this.#memory = parts.memory;
    this.#others = parts.others;
    this.#compaction = parts.compaction;
    this.#assertOpen = options.assertOpen;
    const dump = options.dumpOnOutOfMemory;
    this.failures = new OutOfMemoryReporter(
      heap,
      device,
      dump === undefined ? null : new OutOfMemoryDumps(heap, device, dump),
    );
  }

  /**
   * A free block for a request of so many units, still in its list. May synchronise.
   * @param requested bytes before rounding, for the failure's text
   * @param source left out: the allocator's own
   * @throws OutOfMemoryError, DriverError
   */
  serve(list: FreeList, units: number, requested: number, source: Source = this.#memory): Block {
    const size = units * UNIT;
    const trial = this.#trial ?? { shortage: null };
    // Handlers and observers may allocate: those requests are others.
    this.#trial = null;
    const onShort = (): void => {
      trial.shortage ??= this.failures.shortageOf(list, size);
    };
    return (
      source.climb(list, size, onShort) ??
      this.#relieve(source, list, size, onShort) ??
      this.failures.raise({ list, requested, rounded: size }, trial.shortage)
    );
  }

  /**
   * Waits for pending frees, then asks the handlers, as long as there is hope. The last attempt is the one that counts, records and tells
   * the failure.
   */
  async serveAsync<T extends object>({ bytes, signal, mayHit, allocate }: AsyncRequest<T>): Promise<T> {
    if (!mayHit()) {
      for (const pending of this.#deferred.streams) {
        await this.#device.streamSynchronizeAsync(pending);
        signal?.throwIfAborted();
      }
    }
    const trial: Trial = { shortage: null };
    const attempt = (): T => this.#within(trial, allocate);
    for (let hopeful = !this.handlers.none; hopeful; ) {
      const result = this.failures.quietly(attempt);
      if (result !== null) return result;
      const before = this.#memoryState();
      hopeful = (await this.handlers.reclaim(bytes)) && this.#memoryState() !== before;
      signal?.throwIfAborted();
    }
    return attempt();
  }

  #within<T>(trial: Trial, attempt: () => T): T {
    this.#trial = trial;
    try {
      return attempt();
    } finally {
      this.#trial = null;
    }
  }

  /** Not PyTorch's, and not counted as its retries: moves buffers, lets the other allocators of this process make room, and the pressure handlers. */
  #relieve(source: Source, list: FreeList, size: number, onShort: () => void): Block | null {
    const { counters } = this.#heap.stats;
    const retry = (): Block | null => {
      this.#assertOpen();
      const retries = counters.num_alloc_retries;
      const block = this.#heap.find(list, size / UNIT) ?? source.climb(list, size, onShort);
      counters.num_alloc_retries = retries;
      return block;
    };
    const { asksOthers, compactsOnPressure } = this.#heap.policy;
    let block: Block | null = null;
    while (block === null && compactsOnPressure && this.#compaction.run(size) > 0) block = retry();
    // An asynchronous request asks the others its own way.
    if (block !== null || this.failures.quiet) return block;
    if (asksOthers && this.#others.ask(size)) block = retry();
    return block ?? this.handlers.relieve(size, retry, () => this.#memoryState());
  }

  /** Changes when anybody frees memory that could serve a request. */
  #memoryState(): string {
    const { stats, reserved } = this.#heap;
    return `${stats.current(ALLOCATED_BYTES)} ${reserved} ${this.#device.memGetInfo().free}`;
  }
}

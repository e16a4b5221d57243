// The out of memory: collects the figures of a heap at the moment of a failure, words them, tells the observers, throws.

import type { Device, MemoryInfo } from '../device/types.js';
import { DriverError, OutOfMemoryError, type PoolFigures } from '../errors.js';
import { PageRange } from '../pages/page-range.js';
import { formatSize } from '../units.js';
import { pageBytesOf } from './address-reservation.js';
import { ALLOCATED, type Block, FREE, LENT, PENDING, UNMAPPED } from './block.js';
import { SMALL } from './block-pool.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import { RECORD_OOM } from './history.js';
import type { OutOfMemoryDumps, Shortage } from './oom-dump.js';
import { segmentSize } from './rounding.js';
import { ACTIVE_BYTES, ALLOCATED_BYTES, INACTIVE_SPLIT_BYTES } from './stats.js';
import { judge } from './verdict.js';

/** What an observer of an out of memory is told. Bytes. Cached memory has been given back by then: `dumpOnOutOfMemory` keeps what was before. */
export interface OutOfMemoryInfo {
  /** What the device was asked for. */
  readonly allocSize: number;
  /** Allowed by the memory fraction, else the device's total. */
  readonly limit: number;
  readonly deviceFree: number;
  readonly error: OutOfMemoryError;
}

export interface FailedRequest {
  readonly list: FreeList;
  readonly requested: number;
  readonly rounded: number;
}

interface Dump {
  readonly path: string | null;
  readonly cause?: unknown;
}

const NO_DUMP: Dump = { path: null };

export class OutOfMemoryReporter {
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #dumps: OutOfMemoryDumps | null;
  #quiet = false;
  #telling = false;
  readonly #observers = new Set<(info: OutOfMemoryInfo) => void>();

  constructor(heap: Heap, device: Device, dumps: OutOfMemoryDumps | null) {
    this.#heap = heap;
    this.#device = device;
    this.#dumps = dumps;
  }

  observe(observer: (info: OutOfMemoryInfo) => void): () => void {
    this.#observers.add(observer);
    return () => void this.#observers.delete(observer);
  }

  /** Whether a failure now is only an attempt. */
  get quiet(): boolean {
    return this.#quiet;
  }

  /** Runs an attempt whose out of memory is neither counted nor told: null is the answer then. */
  quietly<T>(attempt: () => T): T | null {
    this.#quiet = true;
    try {
      return attempt();
    } catch (error) {
      if (error instanceof OutOfMemoryError) return null;
      throw error;
    } finally {
      this.#quiet = false;
    }
  }

  /** The memory as it is for a request that has just run short, and may fail in the end; null where that is not dumped. Linear in blocks. */
  shortageOf(list: FreeList, rounded: number): Shortage | null {
    return this.#dumps?.wanted ? this.#dumps.observe(list, rounded, this.#memoryInfo().free) : null;
  }

  /** Dumps, counts, records and tells the failure. Linear in blocks, and in the history where it is dumped. */
  raise(request: FailedRequest, shortage: Shortage | null): never {
    const heap = this.#heap;
    const { list, rounded } = request;
    const memory = this.#memoryInfo();
    const dump = shortage === null || this.#quiet ? NO_DUMP : this.#dump(shortage);
    const error = outOfMemoryError(heap, request, memory, this.#device, dump.path);
    if (this.#quiet) throw error;
    // What went wrong on the way must not hide the out of memory.
    if (dump.cause !== undefined) error.cause = dump.cause;
    if (heap.history !== null) {
      const frames = heap.history.captureFrames();
      heap.history.record(RECORD_OOM, memory.free, rounded, list.stream.id, -1, 0, heap.clock.now(), frames);
    }
    heap.stats.counters.num_ooms++;
    this.#tell({
      allocSize: error.details.segmentSize,
      limit: error.details.limit,
      deviceFree: memory.free,
      error,
    });
    throw error;
  }

  #dump(shortage: Shortage): Dump {
    try {
      return { path: this.#dumps?.write(shortage) ?? null };
    } catch (cause) {
      return { path: null, cause };
    }
  }

  /** What the device says; where even that fails, what this allocator knows, so that the out of memory is told all the same. */
  #memoryInfo(): MemoryInfo {
    try {
      return this.#device.memGetInfo();
    } catch (error) {
      if (!(error instanceof DriverError)) throw error;
      const total = this.#device.totalMemory;
      return { free: Math.max(0, total - this.#heap.reserved), total };
    }
  }

  #tell(info: OutOfMemoryInfo): void {
    // An observer that runs out of memory itself is not told of that.
    if (this.#telling) return;
    this.#telling = true;
    for (const observer of [...this.#observers]) {
      try {
        observer(info);
      } catch (cause) {
        // The out of memory is the news; what went wrong while telling it goes along.
        info.error.cause ??= cause;
      }
    }
    this.#telling = false;
  }
}

function outOfMemoryError(
  heap: Heap,
  request: FailedRequest,
  memory: MemoryInfo,
  device: Device,
  snapshot: string | null,
): OutOfMemoryError {
  const { list, requested, rounded } = request;
  const pools = poolFigures(heap);
  const own = pools.get(list);
  const sum = (pick: (figures: PoolFigures) => number): number => {
    let total = 0;
    for (const figures of pools.values()) total += pick(figures);
    return total;
  };
  const allocated = heap.stats.current(ALLOCATED_BYTES);
  const active = heap.stats.current(ACTIVE_BYTES);
  const reserved = heap.reserved;
  const wanted = segmentSize(rounded, heap.config);
  const limit = Math.min(heap.limit, memory.total);
  const stuck = own?.free ?? 0;
  const verdict = judge({
    requested,
    rounded,
    wanted: heap.policy.paged || heap.expandable ? wholePages(rounded, pageBytesOf(list, heap.config, device)) : wanted,
    free: memory.free,
    total: memory.total,
    limit,
    allocated,
    reserved,
    pending: active - allocated,
    stuck,
    elsewhere: sum((figures) => figures.free) - stuck,
    largestFree: own?.largestFreeBlock ?? 0,
    expandableSegments: heap.config.expandableSegments,
    paged: heap.policy.paged,
  });
  const figures = [wanted, memory.total, memory.free, allocated, reserved - allocated].map(formatSize);
  const details = {
    device: device.index,
    requested,
    rounded,
    segmentSize: wanted,
    free: memory.free,
    total: memory.total,
    limit,
    allocated,
    reserved,
    active,
    inactiveSplit: heap.stats.current(INACTIVE_SPLIT_BYTES),
    largestFreeBlock: Math.max(0, ...[...pools.values()].map((pool) => pool.largestFreeBlock)),
    pools: [...pools.values()],
    verdict,
    figures,
    snapshot,
  };
  return new OutOfMemoryError(wording(figures, details, device), details);
}

function wholePages(bytes: number, pageBytes: number): number {
  return Math.ceil(bytes / pageBytes) * pageBytes;
}

function wording(figures: readonly string[], details: OutOfMemoryError['details'], device: Device): string {
  const [wanted, total, free, allocated, unallocated] = figures;
  const fraction = details.limit < details.total ? ` The memory fraction allows ${formatSize(details.limit)}.` : '';
  const dumped = details.snapshot === null ? '' : ` The snapshot ${details.snapshot} shows the memory before it.`;
  const name = device.backend === 'cuda' ? `GPU ${device.index}` : `The ${device.backend} device ${device.index}`;
  return (
    `CUDA out of memory: ${wanted} could not be had for a request of ${formatSize(details.requested)}. ` +
    `${name} has ${total} in total, ${free} of it free.${fraction} ` +
    `This allocator holds ${allocated} in use and ${unallocated} reserved but unallocated. ${details.verdict.sentence}${dumped}`
  );
}

/** What each pool and stream holds. Linear in blocks. */
export function poolFigures(heap: Heap): Map<FreeList, PoolFigures> {
  const result = new Map<FreeList, { -readonly [K in keyof PoolFigures]: PoolFigures[K] }>();
  for (const segment of heap.segments) {
    const { list } = segment;
    let figures = result.get(list);
    if (figures === undefined) {
      figures = {
        pool: list.pool.kind === SMALL ? 'small' : 'large',
        stream: list.stream.id,
        poolId: list.pool.owner?.id ?? [0, 0],
        reserved: 0,
        allocated: 0,
        active: 0,
        free: 0,
        largestFreeBlock: 0,
      };
      result.set(list, figures);
    }
    for (let block: Block | null = segment.first; block !== null; block = block.next) {
      if (block.state === UNMAPPED || block.state === LENT) {
        // Free pages that are kept: they can be put behind any addresses of their pool's page size.
        const held = segment.range instanceof PageRange ? segment.range.heldIn(block.offset, block.size) : [];
        for (const { bytes } of held) {
          figures.reserved += bytes;
          figures.free += bytes;
        }
        continue;
      }
      figures.reserved += block.size;
      if (block.state === ALLOCATED) figures.allocated += block.size;
      if (block.state === ALLOCATED || block.state === PENDING) figures.active += block.size;
      if (block.state === FREE) {
        figures.free += block.size;
        figures.largestFreeBlock = Math.max(figures.largestFreeBlock, block.size);
      }
    }
  }
  return result;
}

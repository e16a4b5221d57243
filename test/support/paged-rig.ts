// Random operations on a paged allocator, with everything that must hold checked after each one: the invariants of all allocators, that no two live
// blocks share memory, and that every live block has the bytes that were written to it. Must not know where the operations come from.

import fc from 'fast-check';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { MemPool } from '../../lib/allocator/mem-pool.js';
import type { DriverCallCounts, Stream } from '../../lib/device/types.js';
import { CudallocError, OutOfMemoryError } from '../../lib/errors.js';
import type { Coverage } from './coverage.js';
import type { MockDevice } from './devices.js';
import { checkInvariants, ensure } from './invariants.js';
import { PhysicalMap } from './physical-map.js';
import { Stamps } from './stamps.js';

const MIB = 1024 * 1024;
const STREAMS = 3;

export type PagedOperation =
  | { readonly op: 'malloc'; readonly bytes: number; readonly stream: number; readonly pool: boolean }
  | { readonly op: 'free' | 'freeEveryOther'; readonly at: number }
  | { readonly op: 'recordStream'; readonly at: number; readonly stream: number }
  | { readonly op: 'emptyCache' | 'holdEvents' | 'releaseEvents' | 'switchPool' | 'pause' }
  | { readonly op: 'trim' | 'takeByOthers'; readonly bytes: number }
  | { readonly op: 'completeEvents'; readonly stream: number }
  | { readonly op: 'failing'; readonly what: PagedOperation; readonly n: number };

const at = fc.nat(10_000);
const stream = fc.nat(STREAMS - 1);
const bytes = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: MIB }) },
  { weight: 4, arbitrary: fc.integer({ min: MIB + 1, max: 20 * MIB }) },
  { weight: 4, arbitrary: fc.integer({ min: 20 * MIB, max: 80 * MIB }) },
);
const malloc = fc.record({
  op: fc.constant('malloc' as const),
  bytes,
  stream,
  pool: fc.boolean().map((own) => own),
});
const free = fc.record({ op: fc.constant('free' as const), at });
const plain = (op: 'emptyCache' | 'holdEvents' | 'releaseEvents' | 'switchPool' | 'pause') => fc.constant({ op });

export const pagedOperation: fc.Arbitrary<PagedOperation> = fc.oneof(
  { weight: 30, arbitrary: malloc.map((one) => ({ ...one, pool: one.pool && one.bytes % 7 === 0 })) },
  { weight: 22, arbitrary: free },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('freeEveryOther' as const), at }) },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('recordStream' as const), at, stream }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('completeEvents' as const), stream }) },
  {
    weight: 5,
    arbitrary: fc.record({
      op: fc.constant('failing' as const),
      what: fc.oneof(malloc, malloc, free, plain('emptyCache')),
      n: fc.integer({ min: 1, max: 12 }),
    }),
  },
  { weight: 1, arbitrary: plain('emptyCache') },
  { weight: 2, arbitrary: plain('holdEvents') },
  { weight: 2, arbitrary: plain('releaseEvents') },
  { weight: 1, arbitrary: plain('switchPool') },
  { weight: 1, arbitrary: plain('pause') },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constantFrom('trim', 'takeByOthers' as const),
      bytes: fc.integer({ min: -40, max: 40 }).map((n) => n * MIB),
    }),
  },
);

export class PagedRig {
  readonly allocator: CachingAllocator;
  readonly #device: MockDevice;
  readonly #streams: readonly Stream[];
  readonly #map: PhysicalMap;
  readonly #stamps: Stamps | null;
  readonly #live = new Map<number, number>();
  readonly #coverage: Coverage;
  #pool: MemPool | null = null;
  #others = 0;
  /** A call of the driver is about to fail. */
  #isFailing = false;

  constructor(device: MockDevice, coverage: Coverage, conf = '') {
    this.#device = device;
    this.#coverage = coverage;
    this.#map = new PhysicalMap(device);
    this.#streams = [device.defaultStream, device.createStream(), device.createStream()];
    this.allocator = new CachingAllocator({ device, conf, policy: 'paged' });
    this.allocator.recordMemoryHistory();
    this.#stamps = device.backend === 'mock' ? new Stamps(device) : null;
  }

  run(operation: PagedOperation): void {
    this.#coverage.add(operation.op);
    this.#apply(operation);
    this.check();
  }

  check(): void {
    const { segments } = checkInvariants(this.allocator, this.#others);
    const blocks = segments.flatMap((segment) => segment.blocks).filter(({ state }) => state !== 'inactive');
    const aliases = this.#map.checkDisjoint(blocks);
    this.#coverage.add('pages at several addresses', aliases);
    const shown = new Set(blocks.map(({ address }) => address));
    for (const address of this.#live.keys()) ensure(shown.has(address), () => `the live block at ${address} is gone`);
    ensure(this.allocator.memoryStats()['cudalloc.page_mappings'] === this.#map.size, () => 'mappings are miscounted');
  }

  /** Frees everything; the device must then be empty. */
  finish(): void {
    this.#stamps?.checkAll();
    for (const address of this.#live.keys()) this.allocator.free(address);
    this.#device.mock.releaseEvents();
    this.#pool?.release();
    this.allocator.emptyCache();
    const { total, free } = this.#device.memGetInfo();
    ensure(this.allocator.memoryReserved() === 0, () => `${this.allocator.memoryReserved()} bytes are left`);
    ensure(free === total - this.#others, () => 'the device has not got everything back');
    this.allocator.close();
    const calls = this.#device.driverCalls();
    ensure(calls.cuMemAddressReserve === calls.cuMemAddressFree, () => 'a closed allocator holds addresses');
    ensure(this.#map.size === 0, () => 'a closed allocator has pages mapped');
  }

  #apply(operation: PagedOperation): void {
    const { mock } = this.#device;
    switch (operation.op) {
      case 'malloc':
        return this.#malloc(operation);
      case 'free': {
        const address = this.#pick(operation.at);
        if (address !== null && !this.#isFailing) this.#stamps?.check(address);
        return this.#free(address);
      }
      case 'freeEveryOther':
        return [...this.#live.keys()].forEach((address, i) => {
          if (i % 2 === operation.at % 2) this.#free(address);
        });
      case 'recordStream': {
        const address = this.#pick(operation.at);
        if (address !== null) this.allocator.recordStream(address, this.#streams[operation.stream] as Stream);
        return;
      }
      case 'emptyCache':
        this.allocator.emptyCache();
        return this.#isFailing ? undefined : this.#stamps?.checkAll();
      case 'trim':
        this.allocator.trim(Math.abs(operation.bytes));
        return;
      case 'pause':
        this.allocator.pause();
        this.allocator.resume();
        return this.#stamps?.checkAll();
      case 'holdEvents':
        return mock.holdEvents();
      case 'releaseEvents':
        return mock.releaseEvents();
      case 'completeEvents':
        return mock.completeEvents(this.#streams[operation.stream]);
      case 'takeByOthers': {
        const before = this.#device.memGetInfo().free;
        mock.takeByOthers(operation.bytes);
        this.#others += before - this.#device.memGetInfo().free;
        return;
      }
      case 'switchPool':
        this.#pool?.release();
        this.#pool = this.#pool === null ? this.allocator.createMemPool() : null;
        return;
      case 'failing':
        return this.#failing(operation.what, operation.n);
    }
  }

  #malloc({ bytes: size, stream: on, pool }: Extract<PagedOperation, { op: 'malloc' }>): void {
    const allocate = (): number => this.allocator.malloc(size, this.#streams[on]);
    try {
      const own = pool ? this.#pool : null;
      const address = own === null ? allocate() : this.allocator.withMemPool(own, allocate);
      this.#live.set(address, size);
      // The failure that was ordered is one of the allocator's calls, not of these.
      this.#device.mock.clearFailures();
      this.#stamps?.write(address, size);
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
      this.#coverage.add('out of memory');
    }
  }

  #free(address: number | null): void {
    if (address === null) return;
    this.allocator.free(address);
    this.#stamps?.forget(address);
    this.#live.delete(address);
  }

  /** Any typed error may come out; what must hold is checked as after any other operation. */
  #failing(what: PagedOperation, n: number): void {
    this.#isFailing = true;
    const before = this.#device.driverCalls();
    this.#device.mock.failNth('*', n, n % 2 === 0 ? 'CUDA_ERROR_OUT_OF_MEMORY' : 'CUDA_ERROR_UNKNOWN');
    try {
      this.#apply(what);
    } catch (error) {
      if (!(error instanceof CudallocError)) throw error;
      this.#coverage.add('errors of failing operations');
    } finally {
      this.#isFailing = false;
      this.#device.mock.clearFailures();
      this.#noteLostPages(before);
    }
  }

  /** A device that cannot take back what it made of a creation that ran out of memory has lost it until it is closed. */
  #noteLostPages(before: DriverCallCounts): void {
    const calls = this.#device.driverCalls();
    const failed = (fn: string): boolean => (calls[`${fn}_failed`] ?? 0) > (before[`${fn}_failed`] ?? 0);
    if (!failed('cuMemCreate') || !failed('cuMemRelease')) return;
    const { free, total } = this.#device.memGetInfo();
    const stats = this.allocator.memoryStats();
    const held = this.allocator.memoryReserved() + (stats['cudalloc.unreleased_page_bytes'] ?? 0);
    this.#others += total - this.#others - held - free;
  }

  #pick(index: number): number | null {
    return [...this.#live.keys()][index % this.#live.size] ?? null;
  }
}

// Runs random operations on one device, beside a shadow model, and checks everything after each one. Must not know where the
// operations come from.

import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { MemPool } from '../../lib/allocator/mem-pool.js';
import { roundSize } from '../../lib/allocator/rounding.js';
import type { Device, DriverCallCounts, MockControls, Stream } from '../../lib/device/types.js';
import {
  CudallocError,
  DoubleFreeError,
  InvalidAddressError,
  InvalidSizeError,
  OutOfMemoryError,
  WrongThreadError,
} from '../../lib/errors.js';
import type { Snapshot } from '../../lib/snapshot/model.js';
import type { Coverage } from './coverage.js';
import { checkEmpty, checkInvariants, ensure } from './invariants.js';
import { type Request, ShadowModel } from './shadow-model.js';
import { Stamps } from './stamps.js';
import { type Failing, type Malloc, type Operation, POOL_SLOTS, type Scenario, STREAMS } from './workload.js';

const MIB = 1024 * 1024;

interface RigOptions {
  readonly coverage: Coverage;
  /** Write a pattern into every allocation and read it back when it is freed. The device holds bytes. */
  readonly stamps?: boolean;
  /** A stream of another device. */
  readonly foreignStream?: Stream;
}

/** One device with an allocator, run operation by operation beside a shadow model. */
export class Rig {
  readonly allocator: CachingAllocator;
  readonly #device: Device;
  readonly #mock: MockControls;
  readonly #streams: readonly Stream[];
  readonly #model: ShadowModel;
  readonly #coverage: Coverage;
  readonly #stamps: Stamps | null;
  readonly #foreignStream: Stream | undefined;
  readonly #pools: (MemPool | null)[] = new Array<null>(POOL_SLOTS).fill(null);
  #others = 0;
  /** Pages that the device could not give back while it undid a creation that ran out of memory: gone until it is closed. */
  #lostPages = false;

  constructor(device: Device, scenario: Scenario, options: RigOptions) {
    const { conf, policy, mends } = scenario;
    ensure(device.mock !== undefined, () => 'the device has no controls');
    this.#device = device;
    this.#mock = device.mock;
    this.#streams = [device.defaultStream, ...Array.from({ length: STREAMS - 1 }, () => device.createStream())];
    this.allocator = new CachingAllocator({ device, conf, policy, mends });
    this.allocator.recordMemoryHistory({ maxEntries: Number.POSITIVE_INFINITY });
    this.#model = new ShadowModel(this.allocator);
    this.#coverage = options.coverage;
    this.#stamps = options.stamps === true ? new Stamps(device) : null;
    this.#foreignStream = options.foreignStream;
  }

  run(operation: Operation): void {
    this.#coverage.add(operation.op);
    const syncs = this.#syncs();
    let request: Request | null = null;
    if (operation.op === 'malloc') request = this.#malloc(operation);
    else if (operation.op === 'failing') request = this.#failing(operation);
    else this.#apply(operation);
    const snapshot = checkInvariants(this.allocator, this.#others);
    const synchronized = operation.op !== 'resetAccumulated' && this.#syncs() > syncs;
    this.#model.observe(snapshot, request, synchronized);
    if (operation.op === 'failing') this.#model.completeEvents();
    if (operation.op === 'malloc') this.#model.checkNothingOverdue();
    this.#checkCalls(snapshot);
  }

  /** Frees everything; the device must then be empty. */
  finish(): void {
    this.#stamps?.checkAll();
    for (const address of this.#live()) this.allocator.free(address);
    this.#mock.releaseEvents();
    for (const pool of this.#pools) pool?.release();
    this.allocator.emptyCache();
    checkEmpty(this.allocator, this.#others);
    const { cudaMalloc, cudaFree, cuMemMap, cuMemUnmap, cuMemCreate, cuMemRelease } = this.#device.driverCalls();
    const pages = this.#lostPages || cuMemCreate === cuMemRelease;
    ensure(cudaMalloc === cudaFree && cuMemMap === cuMemUnmap && pages, () => 'calls do not pair up');
    this.allocator.close();
    const { free, total } = this.#device.memGetInfo();
    ensure(free === total - this.#others, () => 'a closed allocator holds memory');
    const calls = this.#device.driverCalls();
    ensure(calls.cuMemAddressReserve === calls.cuMemAddressFree, () => 'a closed allocator holds addresses');
  }

  #live(): number[] {
    return [...this.#model.live.keys()];
  }

  /** One of the live addresses; null when there is none. */
  #pick(index: number): number | null {
    const live = this.#live();
    return live[index % live.length] ?? null;
  }

  #syncs(): number {
    return this.allocator.memoryStats().num_sync_all_streams ?? 0;
  }

  #requestOf({ bytes, stream, pool }: Malloc): Request {
    const rounded = roundSize(bytes, this.allocator.config);
    return { pool: rounded <= MIB ? 'small' : 'large', stream, poolId: this.#pools[pool]?.id ?? [0, 0] };
  }

  #allocate({ bytes, stream, pool: slot }: Malloc): number {
    const pool = this.#pools[slot] ?? null;
    const allocate = (): number => this.allocator.malloc(bytes, this.#streams[stream] as Stream);
    const address = pool === null ? allocate() : this.allocator.withMemPool(pool, allocate);
    ensure(address % 512 === 0 && address > 0, () => `the address ${address}`);
    return address;
  }

  #malloc(operation: Malloc): Request {
    const { bytes } = operation;
    try {
      const address = this.#allocate(operation);
      this.#stamps?.write(address, bytes);
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
      this.#coverage.add('out of memory');
      this.#checkError(error, bytes, roundSize(bytes, this.allocator.config));
    }
    return this.#requestOf(operation);
  }

  /** Any typed error may come out, or none; what must hold is checked as after any other operation. */
  #failing({ what, n, error }: Failing): Request | null {
    const address = what.op === 'free' ? this.#pick(what.at) : null;
    if (address !== null) this.#stamps?.check(address);
    const before = this.#device.driverCalls();
    this.#mock.failNth('*', n, error);
    let made: number | null = null;
    try {
      if (what.op === 'malloc') made = this.#allocate(what);
      else if (what.op === 'emptyCache') this.allocator.emptyCache();
      else if (address !== null) this.allocator.free(address);
      if (address !== null) this.#stamps?.forget(address);
    } catch (thrown) {
      if (!(thrown instanceof CudallocError)) throw thrown;
      this.#coverage.add('errors of failing operations');
    }
    this.#mock.clearFailures();
    if (what.op === 'malloc' && made !== null) this.#stamps?.write(made, what.bytes);
    this.#noteLostPages(before);
    // How far it came in waiting for events is not known from outside.
    this.#completeEvents(-1);
    return what.op === 'malloc' ? this.#requestOf(what) : null;
  }

  #noteLostPages(before: DriverCallCounts): void {
    const calls = this.#device.driverCalls();
    const failed = (fn: string): boolean => (calls[`${fn}_failed`] ?? 0) > (before[`${fn}_failed`] ?? 0);
    if (!failed('cuMemCreate') || !failed('cuMemRelease')) return;
    const { free, total } = this.#device.memGetInfo();
    const stats = this.allocator.memoryStats();
    const held = (stats['reserved_bytes.all.current'] ?? 0) + (stats['cudalloc.unreleased_page_bytes'] ?? 0);
    const lost = total - this.#others - held - free;
    if (lost === 0) return;
    this.#lostPages = true;
    this.#others += lost;
    this.#coverage.add('creations not undone');
  }

  #checkError({ details, message }: OutOfMemoryError, bytes: number, rounded: number): void {
    const stats = this.allocator.memoryStats();
    ensure(
      details.requested === bytes && details.rounded === rounded,
      () => `an error of ${details.requested} bytes for ${bytes}`,
    );
    ensure(details.reserved === stats['reserved_bytes.all.current'], () => 'the reserved bytes of the error');
    ensure(details.allocated === stats['allocated_bytes.all.current'], () => 'the allocated bytes of the error');
    ensure(
      details.figures.length === 5 && details.figures.every((text) => message.includes(text)),
      () => `the figures in ${message}`,
    );
    ensure(
      details.verdict.sentence !== '' && message.endsWith(details.verdict.sentence),
      () => `the verdict in ${message}`,
    );
    const room = Math.min(details.free, details.limit - details.reserved);
    const plain = !this.allocator.config.expandableSegments;
    ensure(!plain || details.segmentSize > room, () => `out of memory with room for the segment: ${message}`);
  }

  #apply(operation: Exclude<Operation, Malloc | Failing>): void {
    switch (operation.op) {
      case 'free':
        return this.#free(this.#pick(operation.at));
      case 'freeEveryOther':
        return this.#live().forEach((address, i) => {
          if (i % 2 === operation.at % 2) this.#free(address);
        });
      case 'badFree':
        return this.#badFree(operation.at);
      case 'badMalloc':
        return this.#badMalloc();
      case 'recordStream':
        return this.#recordStream(this.#pick(operation.at), operation.stream);
      case 'emptyCache':
        this.allocator.emptyCache();
        return this.#stamps?.checkAll();
      case 'resetPeak':
        this.allocator.resetPeakMemoryStats();
        return this.#model.resetPeak(this.allocator.memorySnapshot());
      case 'resetAccumulated':
        this.allocator.resetAccumulatedMemoryStats();
        return this.#model.resetAccumulated(this.allocator.memorySnapshot());
      case 'holdEvents':
        this.#model.holding = true;
        return this.#mock.holdEvents();
      case 'releaseEvents':
        this.#model.holding = false;
        this.#model.completeEvents();
        return this.#mock.releaseEvents();
      case 'completeEvents':
        return this.#completeEvents(operation.stream);
      case 'setConf':
        return this.allocator.setConf(operation.conf);
      case 'fraction':
        return this.allocator.setPerProcessMemoryFraction(operation.fraction);
      case 'takeByOthers':
        return this.#takeByOthers(operation.bytes);
      case 'switchPool':
        return this.#switchPool(operation.slot);
    }
  }

  #free(address: number | null): void {
    if (address === null) return;
    this.#stamps?.check(address);
    this.#stamps?.forget(address);
    this.allocator.free(address);
  }

  #recordStream(address: number | null, index: number): void {
    if (address === null) return;
    this.allocator.recordStream(address, this.#streams[index] as Stream);
    this.#model.recordStream(address, index);
  }

  #completeEvents(index: number): void {
    const stream = this.#streams[index];
    this.#mock.completeEvents(stream);
    this.#model.completeEvents(stream === undefined ? undefined : index);
  }

  #takeByOthers(bytes: number): void {
    const before = this.#device.memGetInfo().free;
    this.#mock.takeByOthers(bytes);
    this.#others += before - this.#device.memGetInfo().free;
  }

  #switchPool(slot: number): void {
    const pool = this.#pools[slot];
    pool?.release();
    this.#pools[slot] = pool ? null : this.allocator.createMemPool();
  }

  #badFree(index: number): void {
    const address = this.#pick(index);
    const bad = address === null ? 512 : index % 2 === 0 ? address + 1 : address - 0.5;
    refused(() => this.allocator.free(bad), InvalidAddressError, DoubleFreeError);
    const pending = [...this.#model.pending.keys()][0];
    if (pending !== undefined) refused(() => this.allocator.free(pending), DoubleFreeError);
    const foreign = this.#foreignStream;
    if (foreign === undefined) return;
    refused(() => this.allocator.malloc(512, foreign), WrongThreadError);
    if (address !== null) refused(() => this.allocator.recordStream(address, foreign), WrongThreadError);
  }

  #badMalloc(): void {
    for (const bytes of [-1, 0.5, Number.NaN, 2 ** 53]) refused(() => this.allocator.malloc(bytes), InvalidSizeError);
  }

  #checkCalls({ segments }: Snapshot): void {
    const { cudaMalloc = 0, cudaFree = 0, cuMemAddressReserve = 0, cuMemAddressFree = 0 } = this.#device.driverCalls();
    const plain = segments.filter((segment) => !segment.isExpandable).length;
    ensure(
      cudaMalloc - cudaFree === plain,
      () => `${plain} plain segments after ${cudaMalloc} cudaMalloc and ${cudaFree} cudaFree`,
    );
    const ranges = new Set(
      segments.filter((segment) => segment.isExpandable).map((segment) => segment.place?.[0] ?? -1),
    ).size;
    ensure(ranges <= cuMemAddressReserve - cuMemAddressFree, () => `${ranges} ranges, but fewer are reserved`);
    this.#coverage.add(
      'blocks checked',
      segments.reduce((sum, { blocks }) => sum + blocks.length, 0),
    );
  }
}

type ErrorClass = new (...args: never[]) => Error;

function refused(call: () => unknown, ...classes: ErrorClass[]): void {
  try {
    call();
  } catch (error) {
    if (classes.some((type) => error instanceof type)) return;
    throw error;
  }
  throw new Error('a call was accepted that must be refused');
}

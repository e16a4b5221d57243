// Random operations on an allocator: what they are (fast-check arbitraries), and a rig that runs them and checks everything after each
// one. Must not know which tests use it.

import fc from 'fast-check';
import { CachingAllocator, type MemPool } from '../../lib/allocator/caching-allocator.js';
import type { Mends, PolicyName } from '../../lib/allocator/policy.js';
import { roundSize } from '../../lib/allocator/rounding.js';
import type { Device, MockControls, Stream } from '../../lib/device/types.js';
import { DoubleFreeError, InvalidAddressError, InvalidSizeError, OutOfMemoryError, WrongThreadError } from '../../lib/errors.js';
import type { Snapshot } from '../../lib/snapshot/model.js';
import { checkEmpty, checkInvariants, ensure } from './invariants.js';
import { type Request, ShadowModel } from './shadow-model.js';
import { Stamps } from './stamps.js';

const MIB = 1024 * 1024;
const STREAMS = 3;
const POOL_SLOTS = 2;

export type Operation =
  | { readonly op: 'malloc'; readonly bytes: number; readonly stream: number; readonly pool: number }
  | { readonly op: 'free' | 'badFree' | 'freeEveryOther'; readonly at: number }
  | { readonly op: 'recordStream'; readonly at: number; readonly stream: number }
  | { readonly op: 'emptyCache' | 'resetPeak' | 'resetAccumulated' | 'holdEvents' | 'releaseEvents' | 'badMalloc' }
  | { readonly op: 'completeEvents'; readonly stream: number }
  | { readonly op: 'setConf'; readonly conf: string }
  | { readonly op: 'fraction'; readonly fraction: number }
  | { readonly op: 'takeByOthers'; readonly bytes: number }
  | { readonly op: 'switchPool'; readonly slot: number };

/** Sizes around every boundary of the rules, and far from them. */
export const sizes: fc.Arbitrary<number> = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 64 * 1024 }) },
  { weight: 3, arbitrary: fc.integer({ min: 64 * 1024, max: MIB }) },
  { weight: 4, arbitrary: fc.integer({ min: MIB + 1, max: 10 * MIB }) },
  { weight: 3, arbitrary: fc.integer({ min: 10 * MIB, max: 48 * MIB }) },
  { weight: 1, arbitrary: fc.integer({ min: 48 * MIB, max: 300 * MIB }) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom(512, 1024, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 21 * MIB, 32 * MIB, 64 * MIB), fc.integer({ min: -1, max: 1 }))
      .map(([bytes, step]) => bytes + step),
  },
);

/** Settings strings: every option that changes a decision, in every combination. */
export const settings: fc.Arbitrary<string> = fc
  .record({
    expandable_segments: fc.constantFrom(undefined, 'True', 'True', 'False'),
    max_split_size_mb: fc.constantFrom(undefined, undefined, '21', '33', '64'),
    garbage_collection_threshold: fc.constantFrom(undefined, undefined, '0.2', '0.6', '0.9'),
    roundup_power2_divisions: fc.constantFrom(undefined, undefined, '4', '[1:8,16:2,>:4]', '[>:1]'),
    large_segment_size_mb: fc.constantFrom(undefined, undefined, '4', '12'),
    max_non_split_rounding_mb: fc.constantFrom(undefined, undefined, '0', '5'),
    expandable_segments_page_size: fc.constantFrom(undefined, undefined, String(2 * MIB), String(6 * MIB)),
    per_process_memory_fraction: fc.constantFrom(undefined, undefined, '0.5', '0.9', '1'),
  })
  .map((options) =>
    Object.entries(options)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => `${key}:${value}`)
      .join(','),
  );

const at = fc.nat(10_000);
const stream = fc.nat(STREAMS - 1);

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 36, arbitrary: fc.record({ op: fc.constant('malloc' as const), bytes: sizes, stream, pool: fc.nat(8) }) },
  { weight: 24, arbitrary: fc.record({ op: fc.constant('free' as const), at }) },
  { weight: 8, arbitrary: fc.record({ op: fc.constant('recordStream' as const), at, stream }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('freeEveryOther' as const), at }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('badFree' as const), at }) },
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constantFrom('emptyCache', 'resetPeak', 'resetAccumulated', 'holdEvents', 'releaseEvents', 'badMalloc' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('completeEvents' as const), stream: fc.integer({ min: -1, max: STREAMS - 1 }) }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('setConf' as const), conf: settings }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('fraction' as const), fraction: fc.constantFrom(0.3, 0.6, 0.95, 1) }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('takeByOthers' as const), bytes: fc.integer({ min: -64, max: 32 }).map((n) => n * MIB) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('switchPool' as const), slot: fc.nat(POOL_SLOTS - 1) }) },
);

export interface Scenario {
  readonly conf: string;
  readonly policy: PolicyName;
  readonly mends: Partial<Mends>;
  readonly capacity: number;
  /** Device of each operation, and the operation. */
  readonly operations: readonly (readonly [device: number, operation: Operation])[];
}

/** The mends are those of the policy, or one or more of them the other way round. */
export function scenarios(length: number, devices: number): fc.Arbitrary<Scenario> {
  const mend = fc.option(fc.boolean(), { nil: undefined, freq: 2 });
  return fc.record({
    conf: settings,
    policy: fc.constantFrom('pytorch', 'default'),
    mends: fc
      .record({ searchAfterEvents: mend, oversizeIgnoresExpandable: mend, growthIsAtomic: mend })
      .map((all) => Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Partial<Mends>),
    capacity: fc.constantFrom(64, 130, 257, 600).map((mib) => mib * MIB),
    operations: fc.noBias(fc.array(fc.tuple(fc.nat(devices - 1), operation), { minLength: 1, maxLength: length, size: 'max' })),
  });
}

/** What a set of runs covered, for printing. */
export class Coverage {
  readonly counts: Record<string, number> = {};

  add(what: string, n = 1): void {
    this.counts[what] = (this.counts[what] ?? 0) + n;
  }

  toString(): string {
    return Object.entries(this.counts)
      .sort()
      .map(([what, n]) => `${what} ${n}`)
      .join(', ');
  }
}

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
    const request = operation.op === 'malloc' ? this.#malloc(operation) : null;
    if (operation.op !== 'malloc') this.#apply(operation);
    const snapshot = checkInvariants(this.allocator, this.#others);
    const synchronized = operation.op !== 'resetAccumulated' && this.#syncs() > syncs;
    this.#model.observe(snapshot, request, synchronized);
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
    ensure(cudaMalloc === cudaFree && cuMemMap === cuMemUnmap && cuMemCreate === cuMemRelease, () => 'calls do not pair up');
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

  #malloc({ bytes, stream: index, pool: slot }: Operation & { readonly op: 'malloc' }): Request {
    const stream = this.#streams[index] as Stream;
    const pool = this.#pools[slot] ?? null;
    const rounded = roundSize(bytes, this.allocator.config);
    const allocate = (): number => this.allocator.malloc(bytes, stream);
    try {
      const address = pool === null ? allocate() : this.allocator.withMemPool(pool, allocate);
      ensure(address % 512 === 0 && address > 0, () => `the address ${address}`);
      this.#stamps?.write(address, bytes);
    } catch (error) {
      if (!(error instanceof OutOfMemoryError)) throw error;
      this.#coverage.add('out of memory');
      this.#checkError(error, bytes, rounded);
    }
    return { pool: rounded <= MIB ? 'small' : 'large', stream: index, poolId: pool?.id ?? [0, 0] };
  }

  #checkError({ details, message }: OutOfMemoryError, bytes: number, rounded: number): void {
    const stats = this.allocator.memoryStats();
    ensure(details.requested === bytes && details.rounded === rounded, () => `an error of ${details.requested} bytes for ${bytes}`);
    ensure(details.reserved === stats['reserved_bytes.all.current'], () => 'the reserved bytes of the error');
    ensure(details.allocated === stats['allocated_bytes.all.current'], () => 'the allocated bytes of the error');
    ensure(details.figures.length === 5 && details.figures.every((text) => message.includes(text)), () => `the figures in ${message}`);
    ensure(details.verdict.sentence !== '' && message.endsWith(details.verdict.sentence), () => `the verdict in ${message}`);
    const room = Math.min(details.free, details.limit - details.reserved);
    const plain = !this.allocator.config.expandableSegments;
    ensure(!plain || details.segmentSize > room, () => `out of memory with room for the segment: ${message}`);
  }

  #apply(operation: Exclude<Operation, { readonly op: 'malloc' }>): void {
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
    ensure(cudaMalloc - cudaFree === plain, () => `${plain} plain segments after ${cudaMalloc} cudaMalloc and ${cudaFree} cudaFree`);
    const ranges = new Set(segments.filter((segment) => segment.isExpandable).map((segment) => segment.sequence)).size;
    ensure(ranges <= cuMemAddressReserve - cuMemAddressFree, () => `${ranges} ranges, but fewer are reserved`);
    this.#coverage.add('blocks checked', segments.reduce((sum, { blocks }) => sum + blocks.length, 0));
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

// The simulated device: the Device interface with accounting only. Addresses, pages, events and calls behave as CUDA's do, but
// there are no bytes behind them. Runs anywhere (replays, the browser): imports nothing of Node and no addon.

import { UnsupportedError } from '../errors.js';
import { formatSize } from '../units.js';
import { checkHandle, checkOpen, checkOption, checkPeerBackend } from './check.js';
import { CALL, SimCalls } from './sim-calls.js';
import { SimControls } from './sim-controls.js';
import { GRANULARITY, SimMemory } from './sim-memory.js';
import { SimEvent, SimStream, SimTime } from './sim-stream.js';
import { TrimListeners } from './trim-listeners.js';
import type {
  Device,
  DeviceFeatures,
  DriverCallCounts,
  Event,
  KernelModule,
  MemoryInfo,
  MockControls,
  OpenDeviceOptions,
  Stream,
} from './types.js';

/** Bytes of a mock or simulated device that was opened without a capacity. */
export const DEFAULT_CAPACITY = 16 * 1024 ** 3;

const NO_BYTES = 'the simulated device holds no bytes; use the mock or a CUDA device';
const FEATURES: DeviceFeatures = {
  virtualMemory: { works: true },
  sharing: { works: false, reason: NO_BYTES },
  cudaMalloc: { works: true },
  copies: { works: false, reason: NO_BYTES },
  kernels: { works: false, reason: NO_BYTES },
};

export class SimDevice implements Device {
  readonly backend = 'sim';
  readonly index: number;
  readonly name = 'Simulated device';
  readonly uuid = '';
  readonly totalMemory: number;
  readonly granularity = GRANULARITY;
  readonly features = FEATURES;
  readonly defaultStream: Stream;
  readonly mock: MockControls;
  readonly offers = null;
  readonly sharing = null;
  readonly trimRequests = new TrimListeners();
  readonly #calls = new SimCalls();
  readonly #time = new SimTime(this.#calls);
  readonly #memory: SimMemory;
  #streams = 0;
  #closed = false;

  /** @throws ConfigError for a bad index or capacity */
  constructor(options: Pick<OpenDeviceOptions, 'index' | 'capacity'> = {}) {
    const { index = 0, capacity = DEFAULT_CAPACITY } = options;
    checkOption('index', index, 0);
    checkOption('capacity', capacity, 1);
    this.index = index;
    this.totalMemory = capacity;
    this.#memory = new SimMemory(capacity, this.#calls);
    this.mock = new SimControls(this, this.#calls, this.#memory, this.#time);
    this.defaultStream = new SimStream(this, this.#time, 0);
  }

  get closed(): boolean {
    return this.#closed;
  }

  memGetInfo(): MemoryInfo {
    checkOpen(this);
    this.#calls.enter(CALL.cudaMemGetInfo);
    return { free: this.#memory.free, total: this.totalMemory };
  }

  malloc(bytes: number): number {
    this.#openOutsideCapture('cudaMalloc');
    return this.#memory.malloc(bytes);
  }

  free(address: number): void {
    this.#openOutsideCapture('cudaFree');
    this.#memory.release(address);
  }

  addressReserve(bytes: number, alignment = 0): number {
    checkOpen(this);
    return this.#memory.reserve(bytes, alignment);
  }

  addressFree(address: number, bytes: number): void {
    checkOpen(this);
    this.#memory.freeReservation(address, bytes);
  }

  memCreate(pageBytes: number, handles: Int32Array): void {
    this.#openOutsideCapture('cuMemCreate');
    this.#memory.createPages(pageBytes, handles);
  }

  memMap(address: number, pageBytes: number, handles: Int32Array): void {
    this.#openOutsideCapture('cuMemMap');
    this.#memory.map(address, pageBytes, handles);
  }

  memUnmap(address: number, pageBytes: number, count: number): void {
    this.#openOutsideCapture('cuMemUnmap');
    this.#memory.unmap(address, pageBytes, count);
  }

  memUnmapRange(address: number, bytes: number): void {
    this.#openOutsideCapture('cuMemUnmap');
    this.#memory.unmapRange(address, bytes);
  }

  memRelease(handles: Int32Array): void {
    checkOpen(this);
    this.#memory.releasePages(handles);
  }

  createStream(_options: { readonly nonBlocking?: boolean; readonly priority?: number } = {}): Stream {
    checkOpen(this);
    this.#calls.enter(CALL.cuStreamCreateWithPriority);
    this.#streams += 1;
    return new SimStream(this, this.#time, this.#streams);
  }

  wrapStream(handle: number | bigint): Stream {
    checkOpen(this);
    checkHandle(handle);
    const known = this.#time.queueByHandle.get(Number(handle));
    if (known === undefined) {
      throw new UnsupportedError(
        `wrapStream: ${handle} is no stream of this simulated device, which knows none of other libraries`,
      );
    }
    if (Number(handle) === 0) return this.defaultStream;
    this.#streams += 1;
    return new SimStream(this, this.#time, this.#streams, { handle: Number(handle), queue: known });
  }

  createEvent(options: { readonly timing?: boolean } = {}): Event {
    checkOpen(this);
    return new SimEvent(this, this.#time, options.timing ?? false);
  }

  synchronize(): void {
    this.#openOutsideCapture('cudaDeviceSynchronize');
    this.#calls.enter(CALL.cudaDeviceSynchronize);
    this.#time.completeAll();
  }

  async streamSynchronizeAsync(stream: Stream): Promise<void> {
    checkOpen(this);
    SimStream.queueOf(stream, this);
    stream.synchronize();
  }

  memcpyHtoD(): void {
    this.#holdsNoBytes('memcpyHtoD');
  }

  memcpyDtoH(): void {
    this.#holdsNoBytes('memcpyDtoH');
  }

  async memcpyHtoDAsync(): Promise<void> {
    this.#holdsNoBytes('memcpyHtoDAsync');
  }

  async memcpyDtoHAsync(): Promise<void> {
    this.#holdsNoBytes('memcpyDtoHAsync');
  }

  memcpyDtoD(): void {
    this.#holdsNoBytes('memcpyDtoD');
  }

  memcpyPeer(): void {
    this.#holdsNoBytes('memcpyPeer');
  }

  memset(): void {
    this.#holdsNoBytes('memset');
  }

  hostAlloc(): ArrayBuffer {
    return this.#holdsNoBytes('hostAlloc');
  }

  hostFree(): void {
    this.#holdsNoBytes('hostFree');
  }

  loadModule(): KernelModule {
    return this.#holdsNoBytes('loadModule');
  }

  canAccessPeer(peer: Device): boolean {
    checkOpen(this);
    return peer.backend === 'sim' && peer !== this;
  }

  enablePeerAccess(peer: Device): void {
    checkOpen(this);
    checkPeerBackend(this, peer);
  }

  driverCalls(): DriverCallCounts {
    return this.#calls.total();
  }

  close(): void {
    if (this.#closed) return;
    this.#time.refuseWhileCapturing('closing the device');
    this.#closed = true;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    const state = this.#closed ? 'closed' : `${formatSize(this.#memory.free)} free`;
    return `sim device ${this.index} (${formatSize(this.totalMemory)}, ${state})`;
  }

  #openOutsideCapture(fn: string): void {
    checkOpen(this);
    this.#time.refuseWhileCapturing(fn);
  }

  #holdsNoBytes(method: string): never {
    checkOpen(this);
    throw new UnsupportedError(`${method}: ${NO_BYTES}`);
  }
}

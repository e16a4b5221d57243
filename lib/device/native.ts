// A device of CUDA or of the CPU mock: the Device interface over the addon. Checks arguments, keeps who owns what, and leaves
// the rest to the addon. Holds no policy.

import type { Binding, Feature as BindingFeature, DeviceId, DeviceProperties } from '../../binding.js';
import { CapturingError, UseAfterFreeError, WrongThreadError } from '../errors.js';
import { formatSize } from '../units.js';
import { checkAddress, checkBytes, checkCount, checkHandle, checkOpen, checkPeerBackend, describe } from './check.js';
import { normalizeCounts } from './driver-calls.js';
import { NativeControls } from './native-controls.js';
import { NativeModule } from './native-kernel.js';
import { NativePageOffers, NativeTrimRequests } from './native-offers.js';
import { PinnedBuffers } from './native-pinned.js';
import { NativePageSharing } from './native-sharing.js';
import { type NativeContext, NativeEvent, NativeStream } from './native-stream.js';
import type {
  Device,
  DeviceFeatures,
  DriverCallCounts,
  Event,
  Feature,
  KernelModule,
  MemoryInfo,
  MockControls,
  PageOffers,
  PageSharing,
  Stream,
  TrimRequests,
} from './types.js';

export class NativeDevice implements Device {
  readonly backend: 'cuda' | 'mock';
  readonly index: number;
  readonly name: string;
  readonly uuid: string;
  readonly totalMemory: number;
  readonly granularity: number;
  readonly features: DeviceFeatures;
  readonly defaultStream: Stream;
  readonly mock?: MockControls;
  readonly offers: PageOffers;
  readonly trimRequests: TrimRequests;
  readonly sharing: PageSharing | null;
  readonly #binding: Binding;
  readonly #id: DeviceId;
  readonly #context: NativeContext;
  readonly #pinned = new PinnedBuffers();
  readonly #memoryInfo = new Float64Array(2);
  #streams = 0;
  #closed = false;
  #lastCalls: DriverCallCounts = {};

  /**
   * @param index ordinal; -1 with `mock`: a fresh device. @param capacity bytes; 0 for the default.
   * @throws NoDeviceError, ConfigError for another capacity than the open mock device has, DriverError
   */
  constructor(binding: Binding, backend: 'cuda' | 'mock', index: number, capacity: number) {
    this.#binding = binding;
    this.#id = binding.openDevice(backend, index, capacity);
    const properties = binding.deviceProperties(this.#id);
    this.backend = backend;
    this.index = binding.deviceIndex(this.#id);
    this.name = properties.name;
    this.uuid = properties.uuid;
    this.totalMemory = properties.totalMemory;
    this.granularity = properties.granularity;
    this.features = deviceFeatures(properties);
    this.#context = { binding, id: this.#id, device: this };
    this.defaultStream = new NativeStream(this.#context, 0, 0);
    this.offers = new NativePageOffers(this.#context);
    this.trimRequests = new NativeTrimRequests(this.#context);
    this.sharing = this.features.sharing.works ? new NativePageSharing(this.#context) : null;
    if (backend === 'mock') this.mock = new NativeControls(this.#context);
  }

  get closed(): boolean {
    return this.#closed;
  }

  memGetInfo(): MemoryInfo {
    checkOpen(this);
    this.#binding.memGetInfo(this.#id, this.#memoryInfo);
    const [free = 0, total = 0] = this.#memoryInfo;
    return { free, total };
  }

  malloc(bytes: number): number {
    checkOpen(this);
    checkBytes(bytes);
    return this.#binding.malloc(this.#id, bytes);
  }

  free(address: number): void {
    checkOpen(this);
    checkAddress(address);
    this.#binding.free(this.#id, address);
  }

  addressReserve(bytes: number, alignment = 0): number {
    checkOpen(this);
    checkBytes(bytes);
    checkCount(alignment, 'alignment');
    return this.#binding.addressReserve(this.#id, bytes, alignment);
  }

  addressFree(address: number, bytes: number): void {
    checkOpen(this);
    checkAddress(address);
    checkBytes(bytes);
    this.#binding.addressFree(this.#id, address, bytes);
  }

  memCreate(pageBytes: number, handles: Int32Array): void {
    checkOpen(this);
    checkBytes(pageBytes, 'pageBytes');
    if (handles.length > 0) this.#binding.memCreate(this.#id, pageBytes, handles, false);
  }

  memMap(address: number, pageBytes: number, handles: Int32Array): void {
    checkOpen(this);
    checkAddress(address);
    checkBytes(pageBytes, 'pageBytes');
    if (handles.length > 0) this.#binding.memMap(this.#id, address, pageBytes, handles);
  }

  memUnmap(address: number, pageBytes: number, count: number): void {
    checkOpen(this);
    checkAddress(address);
    checkBytes(pageBytes, 'pageBytes');
    checkCount(count, 'count');
    if (count > 0) this.#binding.memUnmap(this.#id, address, pageBytes, count);
  }

  memUnmapRange(address: number, bytes: number): void {
    checkOpen(this);
    checkAddress(address);
    checkBytes(bytes);
    this.#binding.memUnmapRange(this.#id, address, bytes);
  }

  memRelease(handles: Int32Array): void {
    checkOpen(this);
    if (handles.length > 0) this.#binding.memRelease(this.#id, handles);
  }

  createStream(options: { readonly nonBlocking?: boolean; readonly priority?: number } = {}): Stream {
    checkOpen(this);
    const stream = this.#binding.streamCreate(this.#id, options.nonBlocking ?? true, options.priority ?? 0);
    this.#streams += 1;
    return new NativeStream(this.#context, this.#streams, stream);
  }

  wrapStream(handle: number | bigint): Stream {
    checkOpen(this);
    checkHandle(handle);
    if (BigInt(handle) === 0n) return this.defaultStream;
    const stream = this.#binding.streamWrap(this.#id, BigInt(handle));
    this.#streams += 1;
    return new NativeStream(this.#context, this.#streams, stream);
  }

  createEvent(options: { readonly timing?: boolean } = {}): Event {
    checkOpen(this);
    return new NativeEvent(this.#context, options.timing ?? false);
  }

  synchronize(): void {
    checkOpen(this);
    this.#binding.synchronize(this.#id);
  }

  async streamSynchronizeAsync(stream: Stream): Promise<void> {
    checkOpen(this);
    await this.#binding.streamSynchronizeAsync(this.#id, NativeStream.idOf(stream, this));
  }

  memcpyHtoD(address: number, source: Uint8Array, stream?: Stream): void {
    checkOpen(this);
    checkAddress(address);
    this.#binding.memcpyHtoD(this.#id, address, source, NativeStream.idOf(stream, this));
  }

  memcpyDtoH(target: Uint8Array, address: number, stream?: Stream): void {
    checkOpen(this);
    checkAddress(address);
    this.#binding.memcpyDtoH(this.#id, target, address, NativeStream.idOf(stream, this));
  }

  async memcpyHtoDAsync(address: number, source: Uint8Array, stream?: Stream): Promise<void> {
    checkOpen(this);
    checkAddress(address);
    refuseResizable(source);
    await this.#binding.memcpyHtoDAsync(this.#id, address, source, NativeStream.idOf(stream, this));
  }

  async memcpyDtoHAsync(target: Uint8Array, address: number, stream?: Stream): Promise<void> {
    checkOpen(this);
    checkAddress(address);
    refuseResizable(target);
    await this.#binding.memcpyDtoHAsync(this.#id, target, address, NativeStream.idOf(stream, this));
  }

  memcpyDtoD(target: number, source: number, bytes: number, stream?: Stream): void {
    checkOpen(this);
    checkAddress(target, 'target');
    checkAddress(source, 'source');
    checkCount(bytes, 'bytes');
    const on = NativeStream.idOf(stream, this);
    if (bytes > 0) this.#binding.memcpyDtoD(this.#id, target, source, bytes, on);
  }

  memcpyPeer(targetDevice: Device, target: number, source: number, bytes: number, stream?: Stream): void {
    checkOpen(this);
    checkAddress(target, 'target');
    checkAddress(source, 'source');
    checkCount(bytes, 'bytes');
    const peer = this.#peerId(targetDevice);
    const on = NativeStream.idOf(stream, this);
    if (bytes > 0) this.#binding.memcpyPeer(this.#id, peer, target, source, bytes, on);
  }

  memset(address: number, byte: number, bytes: number, stream?: Stream): void {
    checkOpen(this);
    checkAddress(address);
    checkCount(bytes, 'bytes');
    if (!Number.isInteger(byte) || byte < 0 || byte > 255)
      throw new RangeError(`byte: ${String(byte)} is not from 0 to 255`);
    const on = NativeStream.idOf(stream, this);
    if (bytes > 0) this.#binding.memset(this.#id, address, byte, bytes, on);
  }

  hostAlloc(bytes: number): ArrayBuffer {
    checkOpen(this);
    checkBytes(bytes);
    const buffer = this.#binding.hostAlloc(this.#id, bytes);
    this.#pinned.add(buffer);
    return buffer;
  }

  hostFree(buffer: ArrayBuffer): void {
    checkOpen(this);
    this.#binding.hostFree(this.#id, buffer);
  }

  canAccessPeer(peer: Device): boolean {
    checkOpen(this);
    if (peer.backend !== this.backend || peer === this) return false;
    return this.#binding.canAccessPeer(this.#id, this.#peerId(peer));
  }

  enablePeerAccess(peer: Device): void {
    checkOpen(this);
    this.#binding.enablePeerAccess(this.#id, this.#peerId(peer));
  }

  loadModule(image: Uint8Array): KernelModule {
    checkOpen(this);
    return new NativeModule(this.#context, image);
  }

  driverCalls(): DriverCallCounts {
    return this.#closed ? this.#lastCalls : normalizeCounts(this.#binding.driverCalls(this.#id));
  }

  close(): void {
    if (this.#closed) return;
    this.#detachPinned();
    this.#lastCalls = this.driverCalls();
    try {
      this.#binding.closeDevice(this.#id);
      this.#closed = true;
    } catch (error) {
      // Any other error leaves the device closed: what the driver did not take back goes with the process.
      this.#closed = !(error instanceof CapturingError);
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `${describe(this)} (${this.name}, ${formatSize(this.totalMemory)}${this.#closed ? ', closed' : ''})`;
  }

  #detachPinned(): void {
    for (const buffer of this.#pinned.alive()) {
      // Closing frees the memory even if this failed once, and then the buffer must not show it any more.
      for (let attempt = 0; attempt < 2 && buffer.byteLength > 0; attempt++) {
        try {
          this.#binding.hostFree(this.#id, buffer);
        } catch (error) {
          if (error instanceof CapturingError) throw error;
        }
      }
    }
  }

  #peerId(peer: Device): DeviceId {
    checkPeerBackend(this, peer);
    if (!(peer instanceof NativeDevice)) throw new WrongThreadError('the other device is not one of this thread');
    if (peer.#closed) throw new UseAfterFreeError(`${describe(peer)} was closed`);
    return peer.#id;
  }
}

function deviceFeatures({ features }: DeviceProperties): DeviceFeatures {
  return {
    virtualMemory: feature(features.virtualMemory),
    sharing: feature(features.sharing),
    cudaMalloc: feature(features.cudaMalloc),
    copies: { works: true },
    kernels: feature(features.kernels),
  };
}

function feature({ works, reason }: BindingFeature): Feature {
  return works ? { works } : { works, reason };
}

/** The copy runs on another thread, which a resize does not wait for. */
function refuseResizable(view: Uint8Array): void {
  const { resizable, growable } = view.buffer as { resizable?: boolean; growable?: boolean };
  if (resizable === true || growable === true) {
    throw new TypeError('an asynchronous copy takes no view of a resizable buffer; its memory may go away meanwhile');
  }
}

// The safe level: device memory as an object with bounds, a life, and an order of work. Must not know how memory is found.

import type { Device, Stream } from '../device/types.js';
import { DoubleFreeError, PausedError, UnsupportedError, UseAfterFreeError } from '../errors.js';
import { formatSize } from '../units.js';
import type { BufferMemory } from './buffer-memory.js';
import type { ShareableHandle } from './shareable-handle.js';

/** What a buffer needs of its allocator. */
export interface BufferOwner {
  readonly device: Device;
  readonly closed: boolean;
  /** Its memory has been given back to the device for the time being. */
  readonly paused: boolean;
  freeBuffer(buffer: DeviceBuffer, memory: BufferMemory): void;
  recordStream(address: number, stream: Stream): void;
}

/** A part of a copy: bytes, and where it starts in source and target. */
export interface CopyRange {
  /** Default: what the source has from `sourceOffset` on. */
  readonly bytes?: number;
  readonly sourceOffset?: number;
  readonly targetOffset?: number;
}

/**
 * Device memory of `size` bytes, ordered on one stream. Made by `CachingAllocator.allocate`; free it with `free()` or `using`. One that was asked for
 * as `movable` stays where it is while somebody has its address, and while an asynchronous method of it is under way.
 */
export class DeviceBuffer {
  /** Work of the methods below is ordered on it. */
  readonly stream: Stream;
  readonly #owner: BufferOwner;
  readonly #memory: BufferMemory;
  #freed = false;
  #settled: (() => void)[] = [];

  constructor(owner: BufferOwner, memory: BufferMemory, stream: Stream) {
    this.#owner = owner;
    this.#memory = memory;
    this.stream = stream;
  }

  /** Bytes asked for. */
  get size(): number {
    return this.#memory.size;
  }

  /** The device address. Pins a movable buffer until `unpin`. @throws UseAfterFreeError */
  get address(): number {
    this.#assertLive();
    this.#memory.pinned = true;
    return this.#memory.address;
  }

  /** The address for FFI. Pins a movable buffer until `unpin`. @throws UseAfterFreeError */
  get addressBigInt(): bigint {
    return BigInt(this.address);
  }

  /** Whether it was asked for as one that may move. */
  get movable(): boolean {
    return this.#memory.movable;
  }

  /** Whether it stays where it is: always, unless it is movable and nobody has its address. */
  get pinned(): boolean {
    return !this.#memory.moves;
  }

  /** Nobody uses the address that was read before any more, but for work on the buffer's stream: a movable buffer may move again. */
  unpin(): void {
    this.#assertLive();
    this.#memory.pinned = false;
  }

  /** Runs `fn` with the address, which holds until then, or until its promise settles. @throws UseAfterFreeError */
  withAddress<T>(fn: (address: number) => T): T {
    this.#assertLive();
    this.#memory.uses++;
    let result: T;
    try {
      result = fn(this.#memory.address);
    } catch (error) {
      this.#useEnds();
      throw error;
    }
    if (result instanceof Promise) return result.finally(() => this.#useEnds()) as T;
    this.#useEnds();
    return result;
  }

  get freed(): boolean {
    return this.#freed || this.#owner.closed;
  }

  get device(): Device {
    return this.#owner.device;
  }

  /**
   * Copies host bytes to the device. Returns when `source` may be changed. Synchronising.
   * @throws RangeError when it does not fit
   */
  write(source: ArrayBufferView | ArrayBufferLike, offset = 0): void {
    const bytes = bytesOf(source);
    this.#check(offset, bytes.byteLength);
    if (bytes.byteLength > 0) this.device.memcpyHtoD(this.#memory.address + offset, bytes, this.stream);
  }

  /**
   * The same without waiting for the device. `source` is copied first, so it may be changed, resized or transferred as soon as this
   * returns; `device.memcpyHtoDAsync` copies nothing and leaves that care to its caller.
   */
  async writeAsync(source: ArrayBufferView | ArrayBufferLike, offset = 0): Promise<void> {
    const view = bytesOf(source);
    this.#check(offset, view.byteLength);
    if (view.byteLength === 0) return;
    // The copy runs on another thread; memory that others can take away meanwhile would end the process.
    const bytes = view.slice();
    await this.#during(this.device.memcpyHtoDAsync(this.#memory.address + offset, bytes, this.stream));
  }

  /** Copies device bytes to the host. Synchronising. */
  read(offset = 0, length = this.size - offset): Uint8Array {
    this.#check(offset, length);
    const target = new Uint8Array(length);
    if (length > 0) this.device.memcpyDtoH(target, this.#memory.address + offset, this.stream);
    return target;
  }

  /** The same without blocking. */
  async readAsync(offset = 0, length = this.size - offset): Promise<Uint8Array> {
    this.#check(offset, length);
    const target = new Uint8Array(length);
    if (length > 0) await this.#during(this.device.memcpyDtoHAsync(target, this.#memory.address + offset, this.stream));
    return target;
  }

  /** Sets every byte. Ordered on the stream, not waiting. */
  fill(byte: number, offset = 0, length = this.size - offset): void {
    if (!Number.isInteger(byte) || byte < 0 || byte > 255) throw new RangeError(`a byte is 0 to 255, not ${byte}`);
    this.#check(offset, length);
    if (length > 0) this.device.memset(this.#memory.address + offset, byte, length, this.stream);
  }

  /** Fills and settles when the device has done it. */
  async fillAsync(byte: number, offset?: number, length?: number): Promise<void> {
    this.fill(byte, offset, length);
    await this.#during(this.device.streamSynchronizeAsync(this.stream));
  }

  /**
   * Copies to another buffer, of this device or another one. Ordered after the work of both streams so far and before their later work;
   * does not wait, except between devices (synchronising).
   */
  copyTo(target: DeviceBuffer, range: CopyRange = {}): void {
    const sourceOffset = range.sourceOffset ?? 0;
    const targetOffset = range.targetOffset ?? 0;
    const bytes = range.bytes ?? this.size - sourceOffset;
    this.#check(sourceOffset, bytes);
    target.#check(targetOffset, bytes);
    if (bytes === 0) return;
    const from = this.#memory.address + sourceOffset;
    const to = target.#memory.address + targetOffset;
    if (target.device === this.device) {
      waitFor(this.stream, target.stream);
      this.device.memcpyDtoD(to, from, bytes, this.stream);
      waitFor(target.stream, this.stream);
    } else {
      target.stream.synchronize();
      this.device.memcpyPeer(target.device, to, from, bytes, this.stream);
      this.stream.synchronize();
    }
  }

  /** Copies and settles when the device has done it. */
  async copyToAsync(target: DeviceBuffer, range?: CopyRange): Promise<void> {
    this.copyTo(target, range);
    await target.#during(this.#during(this.device.streamSynchronizeAsync(this.stream)));
  }

  /** Another stream uses the memory: it is reused only when that stream's work so far has completed. */
  recordStream(stream: Stream): void {
    this.#assertLive();
    if (this.size > 0) this.#owner.recordStream(this.#memory.address, stream);
  }

  /**
   * What another process imports the memory by (`importHandle`): plain data, valid until the buffer is freed, the same every time. What the buffer's stream
   * has written so far is there. Synchronising.
   * @throws UnsupportedError unless it was allocated as `shareable`
   */
  exportHandle(): ShareableHandle {
    this.#assertLive();
    const { shared } = this.#memory;
    if (shared === null) {
      throw new UnsupportedError(
        'the buffer was not allocated as one to share; use allocate(bytes, { shareable: true })',
      );
    }
    this.stream.synchronize();
    const { backend, uuid } = this.device;
    return { backend, device: uuid, size: this.size, bytes: shared.bytes, ...shared.exportPage() };
  }

  /**
   * Gives the memory back, after asynchronous copies under way. Constant, plus an event for each recorded stream.
   * @throws DoubleFreeError the second time
   */
  free(): void {
    if (this.#freed) {
      throw new DoubleFreeError(this.#memory.address, `the buffer of ${formatSize(this.size)} was freed before`);
    }
    this.#assertLive();
    // After an error of the driver the buffer is as before.
    if (this.#memory.uses === 0) this.#owner.freeBuffer(this, this.#memory);
    this.#freed = true;
  }

  /** As `free`, but does nothing when it was freed before. */
  [Symbol.dispose](): void {
    if (!this.freed) this.free();
  }

  /** Frees and settles when asynchronous copies under way have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this[Symbol.dispose]();
    if (this.#memory.uses > 0) await new Promise<void>((resolve) => this.#settled.push(resolve));
  }

  /** For `console.log`. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    const state = this.freed ? 'freed' : `0x${this.#memory.address.toString(16)}`;
    return `DeviceBuffer { ${formatSize(this.size)}, ${state}, stream ${this.stream.id} }`;
  }

  #assertLive(): void {
    if (this.#freed) throw new UseAfterFreeError(`the buffer of ${formatSize(this.size)} was freed`);
    if (this.#owner.closed) throw new UseAfterFreeError('the allocator of this buffer was closed');
  }

  #check(offset: number, length: number): void {
    this.#assertLive();
    if (this.#owner.paused && this.#memory.shared === null)
      throw new PausedError('the allocator of this buffer is paused; resume() it first');
    const fits = Number.isSafeInteger(offset) && Number.isSafeInteger(length) && offset >= 0 && length >= 0;
    if (!fits || offset + length > this.size) {
      throw new RangeError(`${length} bytes from offset ${offset} on do not lie in a buffer of ${this.size} bytes`);
    }
  }

  async #during(work: Promise<void>): Promise<void> {
    this.#memory.uses++;
    try {
      await work;
    } finally {
      this.#useEnds();
    }
  }

  #useEnds(): void {
    this.#memory.uses--;
    if (this.#memory.uses === 0) this.#settle();
  }

  #settle(): void {
    try {
      if (this.#freed && !this.#owner.closed) this.#owner.freeBuffer(this, this.#memory);
    } catch (error) {
      // It can be freed again; the copy that was waited for tells the error.
      this.#freed = false;
      throw error;
    } finally {
      for (const resolve of this.#settled.splice(0)) resolve();
    }
  }
}

function bytesOf(source: ArrayBufferView | ArrayBufferLike): Uint8Array {
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (source instanceof ArrayBuffer || source instanceof SharedArrayBuffer) return new Uint8Array(source);
  throw new TypeError('expected a typed array, a DataView or an ArrayBuffer');
}

/** Later work of `stream` waits for the work of `other` so far. */
function waitFor(stream: Stream, other: Stream): void {
  if (stream === other) return;
  const event = stream.device.createEvent({ timing: false });
  try {
    event.record(other);
    stream.waitEvent(event);
  } finally {
    event.destroy();
  }
}

// Buffers in the memory of other processes. Nothing of it is counted as this allocator's. Must not know how memory is allocated.

import type { Device, Stream } from '../device/types.js';
import { WrongThreadError } from '../errors.js';
import { SharedRange } from '../pages/shared-range.js';
import { UnreleasedRanges } from '../pages/unreleased-ranges.js';
import { BufferMemory } from './buffer-memory.js';
import { type BufferOwner, DeviceBuffer } from './device-buffer.js';
import { LeakTracker } from './leak-tracker.js';
import { checkShareableHandle, type ShareableHandle, sharingOf } from './shareable-handle.js';

export interface ImportOptions {
  /** Default: the device's default stream. */
  readonly stream?: Stream;
  /**
   * Number of the descriptor in this process, where it was passed on by other means: by `stdio` of `child_process.spawn`, say. It stays open. Default: it is
   * taken from the other process (`pidfd_getfd`), which has to be the same user's.
   */
  readonly descriptor?: number;
}

/** A range, and how many buffers show it. */
interface Imported {
  readonly range: SharedRange;
  buffers: number;
}

export class ImportedMemory implements BufferOwner {
  readonly device: Device;
  readonly paused = false;
  closed = false;
  readonly #byToken = new Map<string, Imported>();
  readonly #tokens = new WeakMap<BufferMemory, string>();
  readonly #unreleased = new UnreleasedRanges();
  readonly #leaks: LeakTracker;

  constructor(device: Device, leakWarnings: boolean) {
    this.device = device;
    this.#leaks = new LeakTracker(leakWarnings, (memory) => this.#free(memory));
  }

  /** Bytes that are mapped. */
  get bytes(): number {
    return [...this.#byToken.values()].reduce((sum, { range }) => sum + range.bytes, 0);
  }

  /** The same handle again shows the same memory at the same address. */
  importHandle(
    handle: ShareableHandle,
    { stream = this.device.defaultStream, descriptor }: ImportOptions,
  ): DeviceBuffer {
    checkShareableHandle(handle, this.device);
    if (stream.device !== this.device) throw new WrongThreadError('the stream belongs to another device');
    const { token, bytes, size } = handle;
    const sharing = sharingOf(this.device);
    const imported = this.#byToken.get(token) ?? {
      range: SharedRange.importPage(this.device, sharing, bytes, descriptor ?? handle),
      buffers: 0,
    };
    imported.buffers++;
    this.#byToken.set(token, imported);
    const memory = new BufferMemory(imported.range.address, size);
    const buffer = new DeviceBuffer(this, memory, stream);
    this.#tokens.set(memory, token);
    this.#leaks.watch(buffer, memory);
    return buffer;
  }

  freeBuffer(buffer: DeviceBuffer, memory: BufferMemory): void {
    this.#free(memory);
    this.#leaks.forget(buffer);
  }

  /** Freeing waits for the whole device. */
  recordStream(): void {}

  /** After a driver error it can be called again for the rest. */
  close(): void {
    this.#end();
    for (const token of this.#byToken.keys()) this.#unmap(token);
    this.#unreleased.retry();
  }

  /** All is gone with the device. */
  forgetAll(): void {
    this.#end();
    this.#byToken.clear();
  }

  #end(): void {
    this.closed = true;
    this.#leaks.close();
  }

  #free(memory: BufferMemory): void {
    const token = this.#tokens.get(memory) as string;
    const imported = this.#byToken.get(token);
    if (imported === undefined) return;
    if (imported.buffers === 1) this.#unmap(token);
    else imported.buffers--;
  }

  /** After an error it is as before. */
  #unmap(token: string): void {
    const { range } = this.#byToken.get(token) as Imported;
    // With the device its mappings have gone.
    const { closed } = this.device;
    if (!closed) {
      this.device.synchronize();
      range.unmap();
    }
    this.#byToken.delete(token);
    if (!closed) this.#unreleased.release(range);
  }
}

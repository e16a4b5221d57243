// Pausing an allocator: all its memory goes back to the device while addresses stay, and comes back behind them later. Keeps the contents meanwhile.
// The idea: vLLM's sleep mode, torch_memory_saver. Must not know how memory is given back.

import type { Device } from '../device/types.js';
import { ConfigError, DeviceOutOfMemoryError } from '../errors.js';
import { SharedRange } from '../pages/shared-range.js';
import { ALLOCATED, type Block, PENDING } from './block.js';
import { LARGE, SMALL } from './block-pool.js';
import type { DeferredFrees } from './deferred-frees.js';
import type { Heap } from './heap.js';
import type { MemorySource } from './memory-source.js';
import type { OtherAllocators } from './other-allocators.js';
import type { ShareableMemory } from './shareable-memory.js';
import { RESERVED_BYTES } from './stats.js';

/** What becomes of the contents: they are kept in host memory, or lost. */
export type PausedContent = 'keep' | 'drop';

/** A typed array of this length can be had everywhere. */
const LONGEST_COPY = 2 ** 30;

interface Saved {
  readonly address: number;
  readonly bytes: Uint8Array;
}

/** While paused. */
interface Paused {
  readonly saved: readonly Saved[];
  /** Bytes that were held of each kind of pool. */
  readonly reserved: ReadonlyMap<typeof SMALL | typeof LARGE, number>;
}

export interface PauseParts {
  readonly memory: MemorySource;
  readonly deferred: DeferredFrees;
  readonly others: OtherAllocators;
  /** Stays, since other processes have it mapped. */
  readonly shareable: ShareableMemory;
}

export class Pause {
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #parts: PauseParts;
  #paused: Paused | null = null;

  constructor(heap: Heap, device: Device, parts: PauseParts) {
    this.#heap = heap;
    this.#device = device;
    this.#parts = parts;
  }

  get active(): boolean {
    return this.#paused !== null;
  }

  /** Bytes of contents in host memory. */
  get keptBytes(): number {
    return (this.#paused?.saved ?? []).reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  /** Returns the bytes given back. Not paused yet. @throws ConfigError */
  begin(content: PausedContent = 'keep'): number {
    if (content !== 'keep' && content !== 'drop') {
      const value = String(content);
      throw new ConfigError(`content is 'keep' or 'drop', not ${value}`, { key: 'content', value });
    }
    const heap = this.#heap;
    const { memory, deferred, shareable } = this.#parts;
    const before = heap.reserved;
    deferred.synchronize();
    memory.flush(0);
    this.#device.synchronize();
    const saved = content === 'keep' && this.#device.features.copies.works ? this.#save() : [];
    memory.suspend();
    const kinds = [SMALL, LARGE] as const;
    const reserved = new Map(kinds.map((kind) => [kind, heap.stats.values(RESERVED_BYTES, kind).current]));
    reserved.set(LARGE, (reserved.get(LARGE) ?? 0) - shareable.bytes);
    for (const [kind, bytes] of reserved) heap.stats.decrease(RESERVED_BYTES, kind, bytes);
    this.#paused = { saved, reserved };
    return before - shareable.bytes;
  }

  /** Returns the bytes taken from the device again. @throws DeviceOutOfMemoryError; it stays paused then */
  end(): number {
    if (this.#paused === null) return 0;
    const { saved, reserved } = this.#paused;
    const { memory } = this.#parts;
    const bytes = [...reserved.values()].reduce((sum, some) => sum + some, 0);
    this.#resume(bytes);
    try {
      for (const { address, bytes: content } of saved) this.#device.memcpyHtoD(address, content);
    } catch (error) {
      memory.suspend();
      throw error;
    }
    for (const [kind, some] of reserved) this.#heap.stats.increase(RESERVED_BYTES, kind, some);
    this.#paused = null;
    return bytes;
  }

  #resume(bytes: number): void {
    const { memory, others } = this.#parts;
    try {
      memory.resume();
    } catch (error) {
      if (!(error instanceof DeviceOutOfMemoryError)) throw error;
      this.#device.offers?.trim(bytes);
      others.ask(bytes);
      memory.resume();
    }
  }

  /** The contents of all live blocks of memory that goes. */
  #save(): Saved[] {
    const saved: Saved[] = [];
    for (const { first, range } of this.#heap.segments) {
      if (range instanceof SharedRange) continue;
      for (let block: Block | null = first; block !== null; block = block.next) {
        if (block.state !== ALLOCATED && block.state !== PENDING) continue;
        for (let at = 0; at < block.size; at += LONGEST_COPY) {
          const bytes = new Uint8Array(Math.min(LONGEST_COPY, block.size - at));
          this.#device.memcpyDtoH(bytes, block.address + at);
          saved.push({ address: block.address + at, bytes });
        }
      }
    }
    return saved;
  }
}

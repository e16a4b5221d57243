// The memory that buffers own: only they may free it, or a buffer could free what somebody else got there later. Must not know how it is freed.

import type { BufferMemory } from './buffer-memory.js';
import { LeakTracker } from './leak-tracker.js';

export class Buffers {
  readonly #byAddress = new Map<number, BufferMemory>();
  readonly #leaks: LeakTracker;
  /** A number of its own, since asking the map costs as much as the rest of a free. */
  count = 0;
  #movable = 0;

  /** @param free gives the memory of a buffer back that was collected without it. */
  constructor(leakWarnings: boolean, free: (memory: BufferMemory) => void) {
    this.#leaks = new LeakTracker(leakWarnings, free);
  }

  /** Whether a buffer owns what is at an address. */
  owns(address: number): boolean {
    return this.#byAddress.has(address);
  }

  /** The memory at an address that may move now; null otherwise. */
  movableAt(address: number): BufferMemory | null {
    const memory = this.#byAddress.get(address);
    return memory?.moves === true ? memory : null;
  }

  /** All that may move now. Linear in buffers, or constant while there is none. */
  movable(): BufferMemory[] {
    return this.#movable === 0 ? [] : [...this.#byAddress.values()].filter(({ moves }) => moves);
  }

  add(buffer: object, memory: BufferMemory): void {
    this.#leaks.watch(buffer, memory);
    this.#byAddress.set(memory.address, memory);
    this.count++;
    if (memory.movable) this.#movable++;
  }

  disown(memory: BufferMemory): void {
    this.#byAddress.delete(memory.address);
    this.count--;
    if (memory.movable) this.#movable--;
  }

  /** The memory is somewhere else now. */
  move(memory: BufferMemory, address: number): void {
    this.#byAddress.delete(memory.address);
    memory.address = address;
    this.#byAddress.set(address, memory);
  }

  /** The buffer is not watched any more. */
  forget(buffer: object): void {
    this.#leaks.forget(buffer);
  }

  close(): void {
    this.#byAddress.clear();
    this.count = 0;
    this.#movable = 0;
    this.#leaks.close();
  }
}

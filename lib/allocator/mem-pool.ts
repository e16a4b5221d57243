// The handle of a private pool. Must not know what is allocated from it.

import { UnsupportedError, UseAfterFreeError, WrongThreadError } from '../errors.js';
import type { PrivatePool } from './block-pool.js';

/** A pool of its own for what is allocated under it (PyTorch's MemPool). */
export class MemPool {
  readonly id: readonly [number, number];
  readonly #allocator: object;
  readonly #pool: PrivatePool;

  /** @internal */
  constructor(allocator: object, pool: PrivatePool) {
    this.#allocator = allocator;
    this.#pool = pool;
    this.id = pool.id;
  }

  get released(): boolean {
    return this.#pool.released;
  }

  /** Gives the pool up: nothing can be allocated from it any more, and `emptyCache` gives its free memory back. Idempotent. */
  release(): void {
    if (this.#pool.active > 0) throw new UnsupportedError('a pool cannot be released inside its withMemPool');
    this.#pool.released = true;
  }

  [Symbol.dispose](): void {
    this.release();
  }

  /** @internal */
  static poolOf(pool: MemPool, allocator: object): PrivatePool {
    if (pool.#allocator !== allocator) throw new WrongThreadError('the pool belongs to another allocator');
    if (pool.#pool.released) throw new UseAfterFreeError('the pool was released');
    return pool.#pool;
  }
}

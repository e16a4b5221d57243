// The free blocks of one pool and stream in best-fit order: by size, then by position. Also its unmapped stretches by position. Must not
// know the policy.

import type { Stream } from '../device/types.js';
import { type Block, comesBefore } from './block.js';
import { BlockForest } from './block-forest.js';
import type { BlockPool, PoolKind } from './block-pool.js';
import { LARGEST_BIN, SizeBins } from './size-bins.js';

export class FreeList {
  readonly pool: BlockPool;
  readonly kind: PoolKind;
  readonly stream: Stream;
  /** Unmapped stretches by position; few. */
  readonly unmapped: Block[] = [];
  readonly #bins = new SizeBins();
  readonly #larger = new BlockForest();

  constructor(pool: BlockPool, stream: Stream) {
    this.pool = pool;
    this.kind = pool.kind;
    this.stream = stream;
  }

  /** The first block in best-fit order of at least so many units. Logarithmic at worst. */
  lowerBound(units: number): Block | null {
    return this.#bins.lowerBound(units) ?? this.#larger.lowerBound(units);
  }

  /** The block after this one in best-fit order. Linear in the blocks of its size up to 2 MiB, logarithmic above. */
  successor(of: Block): Block | null {
    if (of.units > LARGEST_BIN) return this.#larger.successor(of);
    return this.#bins.successor(of) ?? this.#larger.lowerBound(of.units);
  }

  insert(block: Block): void {
    block.ageBase = this.pool.searches;
    if (block.units <= LARGEST_BIN) this.#bins.insert(block);
    else this.#larger.insert(block);
  }

  /** The block is in the list. */
  remove(block: Block): void {
    if (block.units <= LARGEST_BIN) this.#bins.remove(block);
    else this.#larger.remove(block);
  }

  /** Gives a listed block another size and position; it counts as newly listed. */
  resize(block: Block, units: number, start: number): void {
    if (block.units <= LARGEST_BIN && units <= LARGEST_BIN) {
      block.ageBase = this.pool.searches;
      this.#bins.resize(block, units, start);
      return;
    }
    this.remove(block);
    block.units = units;
    block.start = start;
    this.insert(block);
  }

  /** All free blocks in best-fit order. Linear. */
  blocks(): Block[] {
    return [...this.#bins.blocks(), ...this.#larger.blocks()];
  }

  insertUnmapped(block: Block): void {
    const at = this.unmapped.findIndex((other) => comesBefore(block, other));
    if (at === -1) this.unmapped.push(block);
    else this.unmapped.splice(at, 0, block);
  }

  removeUnmapped(block: Block): void {
    this.unmapped.splice(this.unmapped.indexOf(block), 1);
  }
}

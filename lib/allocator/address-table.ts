// From an address in use to its block: open addressing with linear probing and backward-shift deletion, since a Map with keys that are
// doubles costs several times as much. Must not know what a block is for.

import type { Block } from './block.js';

const EMPTY = 0;
const SMALLEST = 1024;

export class AddressTable {
  #mask = SMALLEST - 1;
  #shift = 32 - Math.log2(SMALLEST);
  #keys = new Float64Array(SMALLEST);
  #blocks: (Block | null)[] = new Array<Block | null>(SMALLEST).fill(null);
  #size = 0;
  /** Two thirds full is full. */
  #most = Math.floor((SMALLEST * 2) / 3);

  get size(): number {
    return this.#size;
  }

  /** Where an address stands, for `at` and `deleteAt`; -1 when it is not in the table. */
  indexOf(address: number): number {
    const keys = this.#keys;
    const mask = this.#mask;
    for (let at = this.#home(address); ; at = (at + 1) & mask) {
      const key = keys[at] as number;
      if (key === address) return at;
      if (key === EMPTY) return -1;
    }
  }

  at(index: number): Block {
    return this.#blocks[index] as Block;
  }

  get(address: number): Block | null {
    const index = this.indexOf(address);
    return index === -1 ? null : this.at(index);
  }

  /** The address is not in the table and not 0. */
  set(address: number, block: Block): void {
    if (this.#size++ === this.#most) this.#grow();
    this.#put(address, block);
  }

  deleteAt(index: number): void {
    const keys = this.#keys;
    const blocks = this.#blocks;
    const mask = this.#mask;
    let hole = index;
    for (let at = (hole + 1) & mask; keys[at] !== EMPTY; at = (at + 1) & mask) {
      // An entry may move back into the hole unless its home lies after the hole.
      if (((at - this.#home(keys[at] as number)) & mask) >= ((at - hole) & mask)) {
        keys[hole] = keys[at] as number;
        blocks[hole] = blocks[at] as Block | null;
        hole = at;
      }
    }
    keys[hole] = EMPTY;
    blocks[hole] = null;
    this.#size--;
  }

  /** Fibonacci hashing (Knuth) of the address in units of 512 bytes. */
  #home(address: number): number {
    return Math.imul((address / 512) | 0, 0x9e3779b1) >>> this.#shift;
  }

  #put(address: number, block: Block): void {
    const keys = this.#keys;
    let at = this.#home(address);
    while (keys[at] !== EMPTY) at = (at + 1) & this.#mask;
    keys[at] = address;
    this.#blocks[at] = block;
  }

  #grow(): void {
    const blocks = this.#blocks;
    const length = blocks.length * 2;
    this.#mask = length - 1;
    this.#shift -= 1;
    this.#most = Math.floor((length * 2) / 3);
    this.#keys = new Float64Array(length);
    this.#blocks = new Array<Block | null>(length).fill(null);
    for (const block of blocks) if (block !== null) this.#put(block.address, block);
  }
}

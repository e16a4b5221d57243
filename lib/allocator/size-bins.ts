// Free blocks of up to 2 MiB: one bin for each size, and in it a heap by position, so that a block comes and goes in constant expected time and
// the next size with blocks is found in a bitmap. Must not know why a block is sought.

import { type Block, comesBefore } from './block.js';

/** The largest size that has a bin, in units: 2 MiB. */
export const LARGEST_BIN = 4096;

const BINS = LARGEST_BIN + 1;
const WORDS = (LARGEST_BIN >>> 5) + 1;
const SUMMARY_WORDS = (WORDS >>> 5) + 1;

type Bins = (Block[] | undefined)[];

function emptyBins(): Bins {
  return new Array<Block[] | undefined>(BINS).fill(undefined);
}

// What all that were never inserted into share, since many never are. Never written: every write but the one that takes an empty bin into
// use finds its block here. Of the same kind as those written, so that the reads stay of one kind too.
const NO_BINS = emptyBins();
const NO_WORDS = new Int32Array(WORDS);
const NO_SUMMARY = new Int32Array(SUMMARY_WORDS);

function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits);
}

export class SizeBins {
  /** By size in units. A bin that was used keeps its array. */
  #bins = NO_BINS;
  /** A bit for each bin that has blocks, and a bit for each word of these that is not zero. */
  #words = NO_WORDS;
  #summary = NO_SUMMARY;

  /** The first block in best-fit order of at least so many units. Constant. */
  lowerBound(units: number): Block | null {
    const bin = this.#firstBin(units);
    return bin === -1 ? null : ((this.#bins[bin] as Block[])[0] as Block);
  }

  /** The block after this one in best-fit order. Linear in the blocks of its size. */
  successor(of: Block): Block | null {
    let best: Block | null = null;
    for (const block of this.#bins[of.units] as Block[]) {
      if (comesBefore(of, block) && (best === null || comesBefore(block, best))) best = block;
    }
    return best ?? this.lowerBound(of.units + 1);
  }

  /** Constant on average, logarithmic in the blocks of its size at worst; so is `remove`. */
  insert(block: Block): void {
    const { units } = block;
    let heap = this.#bins[units];
    if (heap === undefined) heap = this.#useBin(units);
    const last = heap.length;
    heap.push(block);
    if (last === 0) {
      block.place = 0;
      this.#mark(units);
    } else {
      rise(heap, block, last);
    }
  }

  remove(block: Block): void {
    const { units, place } = block;
    const heap = this.#bins[units] as Block[];
    const last = heap.pop() as Block;
    if (last !== block) {
      // The last one fills the gap, and moves from there to where it belongs.
      if (!rise(heap, last, place)) sink(heap, last, place);
    } else if (place === 0) {
      this.#clear(units);
    }
  }

  /** Gives a block here another size and position. A block alone in its bin takes the bin's array along. */
  resize(block: Block, units: number, start: number): void {
    const from = block.units;
    const heap = this.#bins[from] as Block[];
    const target = this.#bins[units];
    if (heap.length === 1 && (target === undefined || target.length === 0)) {
      this.#bins[from] = target;
      this.#bins[units] = heap;
      this.#clear(from);
      this.#mark(units);
      block.units = units;
      block.start = start;
    } else {
      this.remove(block);
      block.units = units;
      block.start = start;
      this.insert(block);
    }
  }

  /** All blocks in best-fit order. Linear in them, but for those of one size, which are sorted. */
  blocks(): Block[] {
    const found: Block[] = [];
    for (let bin = this.#firstBin(0); bin !== -1; bin = this.#firstBin(bin + 1)) {
      const sorted = (this.#bins[bin] as Block[]).slice().sort((a, b) => (comesBefore(a, b) ? -1 : 1));
      for (const block of sorted) found.push(block);
    }
    return found;
  }

  /** The array of a bin that has none yet. */
  #useBin(bin: number): Block[] {
    if (this.#bins === NO_BINS) {
      this.#bins = emptyBins();
      this.#words = new Int32Array(WORDS);
      this.#summary = new Int32Array(SUMMARY_WORDS);
    }
    const heap: Block[] = [];
    this.#bins[bin] = heap;
    return heap;
  }

  #firstBin(units: number): number {
    if (units > LARGEST_BIN) return -1;
    let word = units >>> 5;
    let bits = (this.#words[word] as number) & (-1 << (units & 31));
    if (bits === 0) {
      word = this.#nextWord(word + 1);
      if (word === -1) return -1;
      bits = this.#words[word] as number;
    }
    return (word << 5) + lowestBit(bits);
  }

  #nextWord(from: number): number {
    const summary = this.#summary;
    let at = from >>> 5;
    let bits = (summary[at] ?? 0) & (-1 << (from & 31));
    while (bits === 0) {
      at++;
      if (at >= summary.length) return -1;
      bits = summary[at] as number;
    }
    return (at << 5) + lowestBit(bits);
  }

  #mark(bin: number): void {
    const word = bin >>> 5;
    (this.#words[word] as number) |= 1 << (bin & 31);
    (this.#summary[word >>> 5] as number) |= 1 << (word & 31);
  }

  #clear(bin: number): void {
    const word = bin >>> 5;
    const bits = (this.#words[word] as number) & ~(1 << (bin & 31));
    this.#words[word] = bits;
    if (bits === 0) (this.#summary[word >>> 5] as number) &= ~(1 << (word & 31));
  }
}

/** Moves a block from `place` towards the root of a binary heap; says whether it moved. It ends up placed. */
function rise(heap: Block[], block: Block, place: number): boolean {
  let at = place;
  while (at > 0) {
    const above = (at - 1) >>> 1;
    const parent = heap[above] as Block;
    if (comesBefore(parent, block)) break;
    heap[at] = parent;
    parent.place = at;
    at = above;
  }
  heap[at] = block;
  block.place = at;
  return at !== place;
}

/** Moves a block from `place` towards the leaves. It ends up placed. */
function sink(heap: Block[], block: Block, place: number): void {
  let at = place;
  for (;;) {
    let below = 2 * at + 1;
    if (below >= heap.length) break;
    const right = below + 1;
    if (right < heap.length && comesBefore(heap[right] as Block, heap[below] as Block)) below = right;
    const child = heap[below] as Block;
    if (comesBefore(block, child)) break;
    heap[at] = child;
    child.place = at;
    at = below;
  }
  heap[at] = block;
  block.place = at;
}

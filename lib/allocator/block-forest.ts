// Free blocks of more than 2 MiB in best-fit order. A forest: one treap per size class, and a bitmap that finds the next class with blocks, so that
// a search looks at a few blocks and the worst case stays logarithmic. Treaps: Seidel and Aragon 1996; joined and cut as in zip trees
// (Tarjan, Levy, Timmel 2019); size classes as floating-point numbers, as in TLSF (Masmano et al. 2004). Must not know why a block is sought.

import { type Block, comesBefore } from './block.js';

/** Bits of mantissa in a size class: 32 classes from one power of two to the next. */
const MANTISSA_BITS = 5;
const SUBCLASSES = 1 << MANTISSA_BITS;
const LAST_CLASS = 28 * SUBCLASSES - 1;

function emptyRoots(): (Block | null)[] {
  return new Array<Block | null>(LAST_CLASS + 1).fill(null);
}

/** What all forests that were never inserted into share, since many never are. Never written: only `insert` fills an empty class. */
const NO_ROOTS = emptyRoots();

/** Ascending in size. Everything from 1 TiB on shares the last class; the treap orders it. */
function classOf(units: number): number {
  if (units < SUBCLASSES) return units;
  if (units > 0x7fffffff) return LAST_CLASS;
  const exponent = 31 - Math.clz32(units);
  return (
    ((exponent - MANTISSA_BITS + 1) << MANTISSA_BITS) + ((units >>> (exponent - MANTISSA_BITS)) & (SUBCLASSES - 1))
  );
}

/** Best-fit order. */
function precedes(a: Block, b: Block): boolean {
  return a.units === b.units ? comesBefore(a, b) : a.units < b.units;
}

function leftmost(root: Block): Block {
  let block = root;
  while (block.left !== null) block = block.left;
  return block;
}

function visit(root: Block | null, into: Block[]): void {
  if (root === null) return;
  visit(root.left, into);
  into.push(root);
  visit(root.right, into);
}

export class BlockForest {
  #roots = NO_ROOTS;
  /** A bit for each class that has blocks, and a bit for each word of them that is not zero. */
  readonly #words = new Int32Array(28);
  #summary = 0;

  /** The first block in best-fit order of at least so many units. Logarithmic. */
  lowerBound(units: number): Block | null {
    const sizeClass = classOf(units);
    let best: Block | null = null;
    let block = this.#roots[sizeClass] as Block | null;
    while (block !== null) {
      if (block.units >= units) {
        best = block;
        block = block.left;
      } else {
        block = block.right;
      }
    }
    return best ?? this.#firstFrom(sizeClass + 1);
  }

  /** The block after this one in best-fit order. Logarithmic. */
  successor(of: Block): Block | null {
    const sizeClass = classOf(of.units);
    let best: Block | null = null;
    let block = this.#roots[sizeClass] as Block | null;
    while (block !== null) {
      if (precedes(of, block)) {
        best = block;
        block = block.left;
      } else {
        block = block.right;
      }
    }
    return best ?? this.#firstFrom(sizeClass + 1);
  }

  /** Logarithmic. The block's links are null. */
  insert(block: Block): void {
    const sizeClass = classOf(block.units);
    let cut = this.#roots[sizeClass] as Block | null;
    if (cut === null) {
      if (this.#roots === NO_ROOTS) this.#roots = emptyRoots();
      this.#roots[sizeClass] = block;
      this.#mark(sizeClass);
      return;
    }
    let parent: Block | null = null;
    let left = false;
    while (cut !== null && cut.priority > block.priority) {
      parent = cut;
      left = precedes(block, cut);
      cut = left ? cut.left : cut.right;
    }
    this.#link(sizeClass, parent, left, block);
    this.#unzip(cut, block);
  }

  /** Logarithmic. The block is in the list. */
  remove(block: Block): void {
    const sizeClass = classOf(block.units);
    let parent: Block | null = null;
    let left = false;
    for (let at = this.#roots[sizeClass] as Block; at !== block; at = (left ? at.left : at.right) as Block) {
      parent = at;
      left = precedes(block, at);
    }
    let smaller = block.left;
    let larger = block.right;
    block.left = null;
    block.right = null;
    while (smaller !== null && larger !== null) {
      if (smaller.priority > larger.priority) {
        this.#link(sizeClass, parent, left, smaller);
        parent = smaller;
        left = false;
        smaller = smaller.right;
      } else {
        this.#link(sizeClass, parent, left, larger);
        parent = larger;
        left = true;
        larger = larger.left;
      }
    }
    this.#link(sizeClass, parent, left, smaller ?? larger);
    if (this.#roots[sizeClass] === null) this.#clear(sizeClass);
  }

  /** All free blocks in best-fit order. Linear in them. */
  blocks(): Block[] {
    const found: Block[] = [];
    for (let first = this.#firstFrom(0); first !== null; ) {
      const sizeClass = classOf(first.units);
      visit(this.#roots[sizeClass] as Block, found);
      first = this.#firstFrom(sizeClass + 1);
    }
    return found;
  }

  #link(sizeClass: number, parent: Block | null, left: boolean, child: Block | null): void {
    if (parent === null) this.#roots[sizeClass] = child;
    else if (left) parent.left = child;
    else parent.right = child;
  }

  /** Hangs what precedes `block` in the tree `cut` to its left, the rest to its right. */
  #unzip(cut: Block | null, block: Block): void {
    let at = cut;
    let smaller: Block | null = null;
    let larger: Block | null = null;
    while (at !== null) {
      if (precedes(at, block)) {
        if (smaller === null) block.left = at;
        else smaller.right = at;
        smaller = at;
        at = at.right;
      } else {
        if (larger === null) block.right = at;
        else larger.left = at;
        larger = at;
        at = at.left;
      }
    }
    if (smaller !== null) smaller.right = null;
    if (larger !== null) larger.left = null;
  }

  #mark(sizeClass: number): void {
    (this.#words[sizeClass >>> 5] as number) |= 1 << (sizeClass & 31);
    this.#summary |= 1 << (sizeClass >>> 5);
  }

  #clear(sizeClass: number): void {
    const word = sizeClass >>> 5;
    const bits = (this.#words[word] as number) & ~(1 << (sizeClass & 31));
    this.#words[word] = bits;
    if (bits === 0) this.#summary &= ~(1 << word);
  }

  #firstFrom(sizeClass: number): Block | null {
    if (sizeClass > LAST_CLASS) return null;
    let word = sizeClass >>> 5;
    let bits = (this.#words[word] as number) & (-1 << (sizeClass & 31));
    if (bits === 0) {
      const later = this.#summary & (-2 << word);
      if (later === 0) return null;
      word = 31 - Math.clz32(later & -later);
      bits = this.#words[word] as number;
    }
    return leftmost(this.#roots[(word << 5) + 31 - Math.clz32(bits & -bits)] as Block);
  }
}

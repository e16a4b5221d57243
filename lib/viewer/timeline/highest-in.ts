// Where a column of numbers is highest within a stretch, in logarithmic time: maxima of stretches of 2, 4, 8, ... Must not know what the
// numbers are.

/** Stretches shorter than this are looked through. */
const LEAF = 32;

export class HighestIn {
  readonly #values: Float64Array;
  /** Level k: index of the highest of each LEAF * 2^k values. */
  readonly #levels: Int32Array[] = [];

  /** Linear. */
  constructor(values: Float64Array) {
    this.#values = values;
    const first = new Int32Array(Math.ceil(values.length / LEAF));
    for (let i = 0; i < first.length; i++) first[i] = this.#scan(i * LEAF, Math.min(values.length, (i + 1) * LEAF));
    this.#levels.push(first);
    for (let below = first; below.length > 1; ) {
      const level = new Int32Array(Math.ceil(below.length / 2));
      for (let i = 0; i < level.length; i++) {
        const [a, b] = [below[2 * i] as number, below[2 * i + 1] ?? -1];
        level[i] = b === -1 ? a : this.#higher(a, b);
      }
      this.#levels.push(level);
      below = level;
    }
  }

  /** Index of the highest of the values `from` up to before `to`; of equal ones the first. The range must not be empty. */
  at(from: number, to: number): number {
    let low = Math.ceil(from / LEAF);
    let high = Math.floor(to / LEAF);
    if (low >= high) return this.#scan(from, to);
    let best = from < low * LEAF ? this.#scan(from, low * LEAF) : (this.#levels[0]?.[low] as number);
    const tail = high * LEAF;
    // Halves of the tree from both ends; what comes later replaces only when it is higher, so order matters from the right.
    const right: number[] = [];
    for (let level = 0; low < high; level++, low >>= 1, high >>= 1) {
      const row = this.#levels[level] as Int32Array;
      if (low & 1) best = this.#higher(best, row[low++] as number);
      if (high & 1) right.push(row[--high] as number);
    }
    for (let i = right.length - 1; i >= 0; i--) best = this.#higher(best, right[i] as number);
    return tail < to ? this.#higher(best, this.#scan(tail, to)) : best;
  }

  #higher(a: number, b: number): number {
    return (this.#values[b] as number) > (this.#values[a] as number) ? b : a;
  }

  #scan(from: number, to: number): number {
    let best = from;
    for (let i = from + 1; i < to; i++) if ((this.#values[i] as number) > (this.#values[best] as number)) best = i;
    return best;
  }
}

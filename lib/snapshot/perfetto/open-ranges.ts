// Ranges of addresses that are open at a moment, each with a value, none overlapping. Taking a part of one leaves the rest open.

export interface OpenRange<T> {
  readonly start: number;
  readonly end: number;
  readonly value: T;
}

export class OpenRanges<T> {
  /** By address. */
  readonly #ranges: OpenRange<T>[] = [];
  readonly #split: (value: T) => T;

  /** @param split gives what stays open of a range that is closed in part its value. */
  constructor(split: (value: T) => T) {
    this.#split = split;
  }

  /** Closes all. */
  takeAll(): OpenRange<T>[] {
    return this.#ranges.splice(0);
  }

  /** Opens a range. What is open there already is closed and returned. Logarithmic, and linear in the ranges above it. */
  add(start: number, end: number, value: T): OpenRange<T>[] {
    const replaced = this.take(start, end);
    this.#ranges.splice(this.#indexAfter(start), 0, { start, end, value });
    return replaced;
  }

  /** Closes what is open in a range; a range that reaches beyond it is split, and its rest stays open. */
  take(start: number, end: number): OpenRange<T>[] {
    let first = this.#indexAfter(start);
    if (first > 0 && (this.#ranges[first - 1] as OpenRange<T>).end > start) first--;
    let after = first;
    while (after < this.#ranges.length && (this.#ranges[after] as OpenRange<T>).start < end) after++;
    const touched = this.#ranges.slice(first, after);
    const rests = touched.flatMap((range) => [
      ...(range.start < start ? [{ ...range, end: start, value: this.#split(range.value) }] : []),
      ...(range.end > end ? [{ ...range, start: end, value: this.#split(range.value) }] : []),
    ]);
    this.#ranges.splice(first, after - first, ...rests);
    return touched.map((range) => ({
      ...range,
      start: Math.max(range.start, start),
      end: Math.min(range.end, end),
    }));
  }

  /** The parts of a range in which nothing is open. */
  gaps(start: number, end: number): { readonly start: number; readonly end: number }[] {
    const gaps: { start: number; end: number }[] = [];
    let at = start;
    for (const range of this.#ranges) {
      if (range.end <= at || range.start >= end) continue;
      if (range.start > at) gaps.push({ start: at, end: range.start });
      at = range.end;
    }
    if (at < end) gaps.push({ start: at, end });
    return gaps;
  }

  /** Index of the first range that starts above an address. */
  #indexAfter(address: number): number {
    let low = 0;
    let high = this.#ranges.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ranges[middle] as OpenRange<T>).start <= address) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

// Search in ascending columns.

/** Index of the first value that is at least this; the length when there is none. Logarithmic. */
export function firstAtOrAfter(ascending: Float64Array, value: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the first value that is more than this; the length when there is none. Logarithmic. */
export function firstAfter(ascending: Float64Array, value: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The plain values that a Python pickle holds, as far as a snapshot may hold them. A leaf: types and one small class.

/**
 * A Python value. Integers are numbers up to 2^53 and `bigint` beyond; a dict is a `Map` in its order, a list an array, a tuple a
 * `Tuple`, None is null.
 */
export type PyValue = null | boolean | number | bigint | string | Uint8Array | Tuple | PyList | PyDict;
export type PyList = readonly PyValue[];
export type PyDict = ReadonlyMap<PyValue, PyValue>;

/** A Python tuple: a list of fixed length, told apart so that it is written as it was read. */
export class Tuple {
  readonly items: readonly PyValue[];

  constructor(items: readonly PyValue[]) {
    this.items = items;
  }
}

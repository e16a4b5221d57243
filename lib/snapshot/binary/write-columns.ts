// Numbers as bytes that compress well: the lowest bytes of all numbers, then the next ones, so that what is alike lies together; as many bytes
// a number as its column needs. Must not know what the numbers mean. The reader is read-columns.ts.

/** How a column of numbers is written. */
export const INTEGERS = 0;
/** Differences to the number before, their sign in the lowest bit. */
export const DELTAS = 1;
/** The bytes of the doubles: for what is no whole number from 0 to 2^53, negative zero and NaN included. */
export const DOUBLES = 2;
/** The different numbers, ascending, and for each number its position among them. */
export const TABLE = 3;

/** A column of few different numbers becomes a table: of at least this many numbers for each. */
const REPEATS = 3;

export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array;

/** A column of any doubles. Linear (the different ones are sorted). */
export function encodeNumbers(values: Float64Array): Uint8Array[] {
  if (!values.every(isCount)) return [Uint8Array.of(DOUBLES), doubles(values)];
  const column = shorter(values);
  const different = fewDifferent(values);
  if (different === null) return [encodeIntegers(column)];
  const positions = new Map(Array.from(different, (value, position) => [value, position]));
  const codes = shorter(values.map((value) => positions.get(value) as number));
  const table = shorter(different);
  if (codes.digits + table.digits >= column.digits) return [encodeIntegers(column)];
  return [Uint8Array.of(TABLE), uint32(different.length), encodeIntegers(table), encodeIntegers(codes)];
}

/** A column of numbers from 0 to 2^32 - 1: bytes a number, then those. Linear. */
export function encodePositions(values: Numbers): Uint8Array {
  const width = bytesOf(highest(values));
  const bytes = new Uint8Array(1 + width * values.length);
  bytes[0] = width;
  spread(values, width, bytes.subarray(1));
  return bytes;
}

export function uint32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

interface Integers {
  readonly kind: typeof INTEGERS | typeof DELTAS;
  /** What the first one is added to. */
  readonly base: number;
  readonly numbers: Float64Array;
  /** About how many binary digits they have: what they come to compressed. */
  readonly digits: number;
}

/** Whole numbers, or their differences where those are shorter. */
function shorter(values: Float64Array): Integers {
  const first = values[0] ?? 0;
  let least = first;
  for (const value of values) if (value < least) least = value;
  const plain = values.map((value) => value - least);
  const deltas = values.map((value, i) => folded(value - (values[i - 1] ?? first)));
  const asPlain: Integers = { kind: INTEGERS, base: least, numbers: plain, digits: digitsOf(plain) };
  const asDeltas: Integers = { kind: DELTAS, base: first, numbers: deltas, digits: digitsOf(deltas) };
  // A fold of a difference from 2^52 on is no exact double.
  return asDeltas.digits < asPlain.digits && highest(deltas) <= Number.MAX_SAFE_INTEGER ? asDeltas : asPlain;
}

function encodeIntegers({ kind, base, numbers }: Integers): Uint8Array {
  const width = bytesOf(highest(numbers));
  const bytes = new Uint8Array(10 + width * numbers.length);
  bytes[0] = kind;
  new DataView(bytes.buffer).setFloat64(1, base, true);
  bytes[9] = width;
  spread(numbers, width, bytes.subarray(10));
  return bytes;
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0 && !Object.is(value, -0);
}

function folded(delta: number): number {
  return delta < 0 ? -2 * delta - 1 : 2 * delta;
}

/** The different numbers in their order; null where there are too many for a table. */
function fewDifferent(values: Float64Array): Float64Array<ArrayBuffer> | null {
  const different = new Set<number>();
  const most = values.length / REPEATS;
  for (const value of values) {
    different.add(value);
    if (different.size > most) return null;
  }
  return different.size === 0 ? null : Float64Array.from(different).sort();
}

function highest(values: Numbers): number {
  let high = 0;
  for (const value of values) if (value > high) high = value;
  return high;
}

function digitsOf(values: Float64Array): number {
  let digits = 0;
  for (const value of values) digits += Math.log2(value + 1);
  return digits;
}

/** At least one, so that no column is shorter than what it makes in memory by more than a factor. */
function bytesOf(value: number): number {
  let width = 1;
  for (let rest = Math.floor(value / 256); rest > 0; rest = Math.floor(rest / 256)) width++;
  return width;
}

/** The lowest bytes of all numbers, then the next ones, `width` times. */
function spread(values: Numbers, width: number, to: Uint8Array): void {
  const { length } = values;
  for (let byte = 0; byte < width; byte++) {
    const scale = 256 ** byte;
    // The lowest 32 bits of the quotient, by the engine's conversion.
    for (let i = 0; i < length; i++) to[byte * length + i] = ((values[i] as number) / scale) & 255;
  }
}

function doubles(values: Float64Array): Uint8Array {
  const { length } = values;
  const bytes = new Uint8Array(8 * length);
  const one = new DataView(new ArrayBuffer(8));
  for (let i = 0; i < length; i++) {
    one.setFloat64(0, values[i] as number, true);
    for (let byte = 0; byte < 8; byte++) bytes[byte * length + i] = one.getUint8(byte);
  }
  return bytes;
}

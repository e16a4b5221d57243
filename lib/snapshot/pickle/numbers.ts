// Numbers as pickles hold them: little-endian two's complement of any width, decimal text, big-endian doubles. Knows bytes, not opcodes.

/** Wider integers are refused: no snapshot has any, and making them takes longer than reading the file. */
export const MAX_INTEGER_BYTES = 4096;
/** As many digits as Python itself converts from text. */
export const MAX_INTEGER_DIGITS = 4300;

const scratch = new DataView(new ArrayBuffer(8));

/** A big-endian double. */
export function doubleAt(bytes: Uint8Array, at: number): number {
  for (let i = 0; i < 8; i++) scratch.setUint8(i, bytes[at + i] as number);
  return scratch.getFloat64(0);
}

/** A little-endian two's complement integer: a number where it fits (up to 2^53), else a bigint. No bytes are 0. */
export function integerAt(bytes: Uint8Array, at: number, width: number): number | bigint {
  if (width === 0) return 0;
  const negative = (bytes[at + width - 1] as number) >= 128;
  if (width <= 4) return low(bytes, at, width) - (negative ? 256 ** width : 0);
  if (width <= 8) {
    // Microseconds since the epoch take seven bytes: the high four as a signed number, the low four beside it.
    const high = low(bytes, at + 4, width - 4) - (negative ? 256 ** (width - 4) : 0);
    const value = high * 2 ** 32 + low(bytes, at, 4);
    if (high >= -(2 ** 21) && high < 2 ** 21 && value !== -(2 ** 53)) return value;
  }
  let digits = '0x';
  for (let i = width - 1; i >= 0; i--) digits += (bytes[at + i] as number).toString(16).padStart(2, '0');
  return plainInteger(negative ? BigInt(digits) - (1n << BigInt(8 * width)) : BigInt(digits));
}

function low(bytes: Uint8Array, at: number, width: number): number {
  let bits = 0;
  for (let i = width - 1; i >= 0; i--) bits = (bits << 8) | (bytes[at + i] as number);
  return bits >>> 0;
}

/** A decimal integer as text; null where it is none. */
export function parseInteger(text: string): number | bigint | null {
  if (!/^[+-]?[0-9]+$/.test(text)) return null;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value + 0 : plainInteger(BigInt(text.replace('+', '')));
}

/** A float as Python writes it; null where it is none. */
export function parseFloatText(text: string): number | null {
  const named = /^([+-]?)(inf|nan)$/.exec(text);
  if (named !== null) return named[2] === 'nan' ? Number.NaN : Number(`${named[1]}Infinity`);
  return /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$/i.test(text) ? Number(text) : null;
}

/** The number, where it is exact as one. */
export function plainInteger(value: bigint): number | bigint {
  return value >= -9007199254740991n && value <= 9007199254740991n ? Number(value) : value;
}

// Reads the columns that write-columns.ts writes. Nothing is believed: a column that is longer than what is left, or says what it cannot
// mean, is an error that names the byte, before any memory is taken for it. Must not know what the numbers mean.

import { SnapshotFormatError } from '../../errors.js';
import { DELTAS, DOUBLES, INTEGERS, TABLE } from './write-columns.js';

export class ColumnReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at: number;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#at = at;
  }

  /** The next byte to be read. */
  get at(): number {
    return this.#at;
  }

  /** The next bytes. Constant. @throws SnapshotFormatError where they are not there */
  take(length: number): Uint8Array {
    if (!(length <= this.#bytes.length - this.#at))
      throw new SnapshotFormatError(
        `the file ends here, before the ${length} bytes that should follow byte ${this.#at}`,
        this.#bytes.length,
      );
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  uint32(): number {
    this.take(4);
    return this.#view.getUint32(this.#at - 4, true);
  }

  /** Positions below `limit`. Linear. @throws SnapshotFormatError naming the byte */
  positions(length: number, limit: number): Uint32Array<ArrayBuffer> {
    const { from, width } = this.#columnOf(length, 4);
    const bytes = this.#bytes;
    const values = new Uint32Array(length);
    for (let byte = 0; byte < width; byte++) orBytes(values, bytes, from + byte * length, 8 * byte);
    const wrong = firstFrom(values, limit);
    if (wrong !== -1)
      throw new SnapshotFormatError(`${values[wrong]} is no position: there are ${limit}`, from + wrong);
    return values;
  }

  /** Positions of a byte each. Linear. @throws SnapshotFormatError naming the byte */
  shortPositions(length: number, limit: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.positions(length, Math.min(limit, 256)));
  }

  /** Numbers. Linear. @param mayBeMissing whether NaN is one. @throws SnapshotFormatError naming the byte */
  numbers(length: number, mayBeMissing = false): Float64Array<ArrayBuffer> {
    const kind = this.take(1)[0];
    if (kind === DOUBLES) return this.#doubles(length, mayBeMissing);
    if (kind !== TABLE) return this.#integers(length, kind);
    const table = this.#integers(this.uint32(), this.take(1)[0]);
    const from = this.#at;
    const values = this.#integers(length, this.take(1)[0]);
    const wrong = lookUp(values, table);
    if (wrong !== -1)
      throw new SnapshotFormatError(`${values[wrong]} is no position in a table of ${table.length}`, from);
    return values;
  }

  /** @throws SnapshotFormatError unless all was read */
  end(): void {
    if (this.#at < this.#bytes.length)
      throw new SnapshotFormatError('the snapshot ends here, the file goes on', this.#at);
  }

  /** Takes the bytes of a column. */
  #columnOf(length: number, widest: number): { readonly from: number; readonly width: number } {
    const at = this.#at;
    const width = this.take(1)[0] as number;
    if (width === 0 || width > widest)
      throw new SnapshotFormatError(`${width} bytes a number: 1 to ${widest} were expected`, at);
    this.take(width * length);
    return { from: at + 1, width };
  }

  #integers(length: number, kind: number | undefined): Float64Array<ArrayBuffer> {
    if (kind !== INTEGERS && kind !== DELTAS)
      throw new SnapshotFormatError(`${kind} is no way in which numbers are written`, this.#at - 1);
    this.take(8);
    const base = this.#view.getFloat64(this.#at - 8, true);
    if (!Number.isSafeInteger(base)) throw new SnapshotFormatError(`${base} is no whole number`, this.#at - 8);
    const { from, width } = this.#columnOf(length, 7);
    const bytes = this.#bytes;
    const values = new Float64Array(length);
    for (let byte = 0; byte < width; byte++) addBytes(values, bytes, from + byte * length, 256 ** byte);
    if (kind === DELTAS) unfold(values, bytes, from);
    const wrong = addBase(values, base, kind === DELTAS);
    if (wrong !== -1) throw new SnapshotFormatError('a number is none from 0 to 2^53', from + wrong);
    return values;
  }

  #doubles(length: number, mayBeMissing: boolean): Float64Array<ArrayBuffer> {
    const from = this.#at;
    const bytes = this.take(8 * length);
    const values = new Float64Array(length);
    const one = new DataView(new ArrayBuffer(8));
    for (let i = 0; i < length; i++) {
      for (let byte = 0; byte < 8; byte++) one.setUint8(byte, bytes[byte * length + i] as number);
      const value = one.getFloat64(0, true);
      if (!Number.isFinite(value) && !(mayBeMissing && Number.isNaN(value)))
        throw new SnapshotFormatError(`${value} is no number that a snapshot has`, from + i);
      values[i] = value;
    }
    return values;
  }
}

// Loops over millions, in functions of their own: the engine compiles them while the first columns are read, and has them for the others.

function orBytes(values: Uint32Array, bytes: Uint8Array, from: number, shift: number): void {
  const { length } = values;
  for (let i = 0; i < length; i++) values[i] = (values[i] as number) | ((bytes[from + i] as number) << shift);
}

function addBytes(values: Float64Array, bytes: Uint8Array, from: number, scale: number): void {
  const { length } = values;
  for (let i = 0; i < length; i++) values[i] = (values[i] as number) + (bytes[from + i] as number) * scale;
}

/** Signed again: the sign is in the lowest bit. @param from where the lowest bytes are */
function unfold(values: Float64Array, bytes: Uint8Array, from: number): void {
  const { length } = values;
  for (let i = 0; i < length; i++) {
    const value = values[i] as number;
    values[i] = ((bytes[from + i] as number) & 1) === 0 ? value / 2 : -(value + 1) / 2;
  }
}

/** Adds the base, or what is before. @returns the first that is no number of bytes then; -1: none */
function addBase(values: Float64Array, base: number, isSum: boolean): number {
  const { length } = values;
  let before = base;
  for (let i = 0; i < length; i++) {
    const value = before + (values[i] as number);
    if (value < 0 || value > Number.MAX_SAFE_INTEGER) return i;
    values[i] = value;
    if (isSum) before = value;
  }
  return -1;
}

/** Puts what the table has in place of each position. @returns the first that is none; -1: none */
function lookUp(values: Float64Array, table: Float64Array): number {
  const { length } = values;
  const entries = table.length;
  for (let i = 0; i < length; i++) {
    const position = values[i] as number;
    if (position >= entries) return i;
    values[i] = table[position] as number;
  }
  return -1;
}

function firstFrom(values: Uint32Array, limit: number): number {
  const { length } = values;
  for (let i = 0; i < length; i++) if ((values[i] as number) >= limit) return i;
  return -1;
}

// Call stacks, each stored once. A stack is a row of frame numbers; equal stacks have the same number, so that millions of events can
// be grouped by call site without looking at a frame. Must not know what the stacks belong to.

import { type PyValue, Tuple } from './values.js';

/** One call-stack entry. */
export interface Frame {
  readonly name: string;
  readonly filename: string;
  readonly line: number | bigint;
  /** Keys in the order in which they were read; left out: name, filename, line. */
  readonly layout?: readonly string[];
  /** What else was there, and values of the three keys that are of another type. */
  readonly extra?: ReadonlyMap<string, PyValue>;
}

/** The number of the stack without frames. */
export const EMPTY_STACK = 0;

const FIRST_SLOTS = 1024;

/** Rows of numbers from 0 to 2^32 - 1, each stored once. The empty row has number 0. */
export class RowTable {
  /** The numbers of all rows, one row after the other. */
  #cells = new Uint32Array(4 * FIRST_SLOTS);
  /** Where a row starts in the cells, by its number; one more than there are rows. */
  #starts = new Uint32Array(FIRST_SLOTS + 1);
  /** What a row was found by, by its number. */
  #hashes = new Uint32Array(FIRST_SLOTS + 1);
  #count = 1;
  /** Open addressing: number of a row, or 0. */
  #slots = new Int32Array(2 * FIRST_SLOTS);
  /** Rows that came all at once are entered in the slots when the first of others is looked for. */
  #isIndexed = true;

  /**
   * A table of rows of which the caller knows that no two are equal, the empty one being the first. Constant: it keeps the arrays.
   * @param cells the numbers of all rows, one row after the other
   * @param starts where each row starts in the cells, and where the last one ends
   */
  static of(cells: Uint32Array<ArrayBuffer>, starts: Uint32Array<ArrayBuffer>): RowTable {
    const table = new RowTable();
    table.#cells = cells;
    table.#starts = starts;
    table.#count = starts.length - 1;
    table.#isIndexed = false;
    return table;
  }

  /** The numbers of all rows, one row after the other. Not to be changed. Constant. */
  get cells(): Uint32Array {
    return this.#cells.subarray(0, this.#starts[this.#count]);
  }

  /** Rows, the empty one included. */
  get size(): number {
    return this.#count;
  }

  /** Number of the row that consists of the first `length` of these numbers; a new one gets the next. Linear in its length. */
  intern(row: ArrayLike<number>, length: number): number {
    if (length === 0) return 0;
    if (!this.#isIndexed) this.#index();
    const hash = hashOf(row, length);
    const slots = this.#slots;
    const mask = slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const found = slots[slot] as number;
      if (found === 0) return this.#add(row, length, hash, slot);
      if (this.#hashes[found] === hash && this.#equals(found, row, length)) return found;
    }
  }

  /** Length of a row. Constant. */
  lengthOf(row: number): number {
    return (this.#starts[row + 1] as number) - (this.#starts[row] as number);
  }

  /** The number at a position of a row. Constant. */
  at(row: number, position: number): number {
    return this.#cells[(this.#starts[row] as number) + position] as number;
  }

  #equals(row: number, other: ArrayLike<number>, length: number): boolean {
    const cells = this.#cells;
    const start = this.#starts[row] as number;
    if ((this.#starts[row + 1] as number) - start !== length) return false;
    for (let i = 0; i < length; i++) if (cells[start + i] !== other[i]) return false;
    return true;
  }

  #add(row: ArrayLike<number>, length: number, hash: number, slot: number): number {
    const number = this.#count++;
    const start = this.#starts[number] as number;
    if (start + length > this.#cells.length) this.#cells = grown(this.#cells, start + length);
    if (number + 1 >= this.#starts.length) {
      this.#starts = grown(this.#starts, number + 2);
      this.#hashes = grown(this.#hashes, number + 2);
    }
    const cells = this.#cells;
    for (let i = 0; i < length; i++) cells[start + i] = row[i] as number;
    this.#starts[number + 1] = start + length;
    this.#hashes[number] = hash;
    this.#slots[slot] = number;
    if (this.#count * 2 > this.#slots.length) this.#enter(this.#slots.length * 4);
    return number;
  }

  #index(): void {
    this.#isIndexed = true;
    this.#hashes = new Uint32Array(this.#starts.length);
    for (let number = 1; number < this.#count; number++) {
      const [start, end] = [this.#starts[number] as number, this.#starts[number + 1] as number];
      this.#hashes[number] = hashOf(this.#cells.subarray(start, end), end - start);
    }
    let slots = this.#slots.length;
    while (slots < 2 * this.#count) slots *= 2;
    this.#enter(slots);
  }

  /** Enters all rows in new slots. */
  #enter(length: number): void {
    const slots = new Int32Array(length);
    const mask = slots.length - 1;
    for (let number = 1; number < this.#count; number++) {
      let slot = (this.#hashes[number] as number) & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = number;
    }
    this.#slots = slots;
  }
}

/** Mixes every number into all bits. Of the family of MurmurHash3, which is in the public domain; unsigned. */
function hashOf(row: ArrayLike<number>, length: number): number {
  let hash = length;
  for (let i = 0; i < length; i++) {
    hash = Math.imul(hash ^ (row[i] as number), 0x85ebca6b);
    hash ^= hash >>> 15;
  }
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

export class StackTable {
  readonly #frames: Frame[];
  readonly #frameNumbers = new Map<string, number>();
  /** Frames that `internFrame` would find. */
  #named = 0;
  readonly #rows: RowTable;
  readonly #numbers = new Map<readonly Frame[], number>();

  /** An empty table, or one of frames and rows of their numbers, as a whole; they must be different ones. Constant. */
  constructor(frames: Frame[] = [], rows = new RowTable()) {
    this.#frames = frames;
    this.#rows = rows;
  }

  /** Stacks, the empty one included. */
  get size(): number {
    return this.#rows.size;
  }

  /** Different frames. */
  get frameCount(): number {
    return this.#frames.length;
  }

  /** By its number. Constant. */
  frame(number: number): Frame {
    const frame = this.#frames[number];
    if (frame === undefined) throw new RangeError(`there is no frame ${number}`);
    return frame;
  }

  /** Number of a frame; equal ones get the same. Constant (amortised), but makes a text. */
  internFrame(frame: Frame): number {
    for (; this.#named < this.#frames.length; this.#named++)
      this.#frameNumbers.set(frameKey(this.#frames[this.#named] as Frame), this.#named);
    const key = frameKey(frame);
    const known = this.#frameNumbers.get(key);
    if (known !== undefined) return known;
    this.#frameNumbers.set(key, this.#frames.length);
    this.#named++;
    return this.#frames.push(frame) - 1;
  }

  /** Adds a frame of which the caller knows that it is none of those here; returns its number. Constant, without making a text. */
  addFrame(frame: Frame): number {
    return this.#frames.push(frame) - 1;
  }

  /** Number of the stack that consists of the first `length` of these frame numbers, innermost first. Linear in its depth. */
  intern(frames: ArrayLike<number>, length: number): number {
    return this.#rows.intern(frames, length);
  }

  /** Number of a stack given as frames. Constant when the same array was given before. */
  internFrames(frames: readonly Frame[]): number {
    const known = this.#numbers.get(frames);
    if (known !== undefined) return known;
    const number = this.intern(
      frames.map((frame) => this.internFrame(frame)),
      frames.length,
    );
    this.#numbers.set(frames, number);
    return number;
  }

  /** Frames of a stack. Constant. */
  depth(stack: number): number {
    if (!(stack >= 0 && stack < this.#rows.size)) throw new RangeError(`there is no stack ${stack}`);
    return this.#rows.lengthOf(stack);
  }

  /** The frame numbers of all stacks, one stack after the other. Not to be changed. Constant. */
  get cells(): Uint32Array {
    return this.#rows.cells;
  }

  /** The frame number at a position of a stack, 0 being the innermost. Constant. */
  frameNumber(stack: number, position: number): number {
    return this.#rows.at(stack, position);
  }

  /** The frames of a stack, innermost first. Linear in its depth. */
  frames(stack: number): Frame[] {
    const depth = this.depth(stack);
    return Array.from({ length: depth }, (_, i) => this.#frames[this.frameNumber(stack, i)] as Frame);
  }
}

function grown(from: Uint32Array<ArrayBuffer>, least: number): Uint32Array<ArrayBuffer> {
  const to = new Uint32Array(Math.max(least, Math.ceil(from.length * 1.5)));
  to.set(from);
  return to;
}

// Lengths before the texts: two different frames never make the same key.
function frameKey({ name, filename, line, layout, extra }: Frame): string {
  const key = `${name.length}:${name}${filename.length}:${filename}${valueKey(line)}`;
  if (layout === undefined && extra === undefined) return key;
  return `${key}|${JSON.stringify(layout ?? null)}${valueKey(extra === undefined ? null : new Map(extra))}`;
}

function valueKey(value: PyValue): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint') return `${value}n`;
  if (value === null || typeof value !== 'object') return String(value);
  if (value instanceof Tuple) return `(${value.items.map(valueKey).join()})`;
  if (value instanceof Uint8Array) return `b${value.join()};`;
  if (value instanceof Map) return `{${[...value].map(([key, item]) => `${valueKey(key)}:${valueKey(item)}`).join()}}`;
  return `[${(value as readonly PyValue[]).map(valueKey).join()}]`;
}

// The objects of a pickle while it is read, as numbers in typed arrays: millions of dicts and lists without a JavaScript object each. A
// handle (a number) is a reference; what becomes of an object later is in its cell, so that references to it stay valid. Values become
// JavaScript objects when someone asks for them. Must not know opcodes.

import { SnapshotFormatError } from '../../errors.js';
import { type PyDict, type PyList, type PyValue, Tuple } from '../model.js';
import type { PickleStrings } from './strings.js';

/** Kinds of handles, in their two low bits. A NUMBER has no handle; its value stands beside the 0. */
export const NUMBER = 0;
export const STRING = 1;
export const ATOM = 2;
export const CELL = 3;

/**
 * Kinds of cells, in their three low bits. Above them, for a list, dict or tuple the number of its node (0: empty, without one); for
 * the others what the reader of rows called them.
 */
export const LIST = 0;
export const DICT = 1;
export const TUPLE = 2;
export const FRAME = 3;
export const STACK = 4;
export const EVENT = 5;

/** Values nested deeper are refused: no snapshot is, and whoever walks the values may recurse. */
export const MAX_DEPTH = 500;

const MAX_CELLS = 2 ** 28;

/** Gives back what the reader of rows took in: the value that a cell was before. */
export interface Rows {
  value(kind: number, number: number): PyValue;
}

export class PickleArena {
  readonly strings: PickleStrings;
  readonly #rows: Rows | null;
  #cells = new Int32Array(1024);
  #cellCount = 0;
  /** Handles of items; of a dict key, value, key, value. */
  readonly #nodes: number[][] = [[]];
  /** The values of the nodes that someone asked for. */
  readonly #values: (PyValue | undefined)[] = [undefined];
  readonly #atoms: PyValue[] = [];

  constructor(strings: PickleStrings, rows: Rows | null) {
    this.strings = strings;
    this.#rows = rows;
  }

  /** A handle to a new object. @param content kind of the cell; in the bits above it the number of what it is. */
  add(content: number): number {
    const cell = this.#cellCount++;
    if (cell === this.#cells.length) {
      if (cell === MAX_CELLS) throw new SnapshotFormatError(`more than ${MAX_CELLS} lists and dicts`);
      const cells = new Int32Array(cell * 2);
      cells.set(this.#cells);
      this.#cells = cells;
    }
    this.#cells[cell] = content;
    return (cell << 2) | CELL;
  }

  /** What is in the cell of a handle; -1 where the handle is no cell's. */
  content(handle: number): number {
    return (handle & 3) === CELL ? (this.#cells[handle >> 2] as number) : -1;
  }

  /** Copies what the cells of stack entries are called; false when one is not of the kind. */
  numbersOf(kind: number, tags: Int32Array, from: number, to: number, into: Uint32Array): boolean {
    const cells = this.#cells;
    for (let i = from; i < to; i++) {
      const tag = tags[i] as number;
      const content = cells[tag >> 2] as number;
      if ((tag & 3) !== CELL || (content & 7) !== kind) return false;
      into[i - from] = content >> 3;
    }
    return true;
  }

  setContent(handle: number, content: number): void {
    this.#cells[handle >> 2] = content;
  }

  /** A handle to a value that is neither number on the stack nor string nor container. */
  atom(value: PyValue): number {
    return ((this.#atoms.push(value) - 1) << 2) | ATOM;
  }

  /** A handle that means the same as a stack entry. */
  handle(tag: number, number: number): number {
    return tag === NUMBER ? this.atom(number) : tag;
  }

  /** Handles of the items of a list, dict or tuple. */
  items(handle: number): readonly number[] {
    return this.#nodes[this.content(handle) >> 3] as number[];
  }

  /** Adds stack entries to a list, dict or tuple. False when it was used already and may not change any more. */
  push(handle: number, tags: Int32Array, numbers: Float64Array, from: number, to: number): boolean {
    const content = this.content(handle);
    let node = content >> 3;
    if (node === 0) {
      node = this.#newNode();
      this.setContent(handle, (node << 3) | (content & 7));
    }
    if (this.#values[node] !== undefined) return false;
    const items = this.#nodes[node] as number[];
    for (let i = from; i < to; i++) items.push(this.handle(tags[i] as number, numbers[i] as number));
    return true;
  }

  /** The value of a handle. The same object for the same handle. @throws SnapshotFormatError when it contains itself or is too deep */
  value(handle: number, depth = 0): PyValue {
    if ((handle & 3) === STRING) return this.strings.text(handle >> 2);
    if ((handle & 3) === ATOM) return this.#atoms[handle >> 2] as PyValue;
    const content = this.content(handle);
    const kind = content & 7;
    if (kind > TUPLE) return (this.#rows as Rows).value(kind, content >> 3);
    if (depth === MAX_DEPTH)
      throw new SnapshotFormatError(`lists and dicts are nested deeper than ${MAX_DEPTH}, or one contains itself`);
    let node = content >> 3;
    if (node === 0) {
      // From here on it has a value, and may not grow any more.
      node = this.#newNode();
      this.setContent(handle, (node << 3) | kind);
    }
    let value = this.#values[node];
    if (value === undefined) {
      value = this.#make(kind, this.#nodes[node] as number[], depth + 1);
      this.#values[node] = value;
    }
    return value;
  }

  #newNode(): number {
    this.#values.push(undefined);
    return this.#nodes.push([]) - 1;
  }

  #make(kind: number, items: readonly number[], depth: number): PyValue {
    if (kind === DICT) return this.#makeDict(items, depth);
    const list: PyList = items.map((item) => this.value(item, depth));
    return kind === LIST ? list : new Tuple(list);
  }

  #makeDict(items: readonly number[], depth: number): PyDict {
    const dict = new Map<PyValue, PyValue>();
    for (let i = 0; i < items.length; i += 2)
      dict.set(this.value(items[i] as number, depth), this.value(items[i + 1] as number, depth));
    return dict;
  }
}

// Lists, dicts and tuples of a pickle: what goes into them from the stack, and which become rows on the way. Must not know opcodes.

import { ATOM, DICT, EVENT, LIST, NUMBER, type PickleArena, STACK, STRING, TUPLE } from './arena.js';
import type { Halt, PickleCursor } from './cursor.js';
import type { SnapshotRows } from './rows.js';
import type { PickleStack } from './stack.js';

/** Every method takes the stack entries from a depth upwards; it throws a `Halt` where they cannot be taken. Linear in them. */
export class PickleContainers {
  readonly #arena: PickleArena;
  readonly #stack: PickleStack;
  readonly #cursor: PickleCursor;
  readonly #rows: SnapshotRows | null;
  /** The list of frames that was taken in last and not used since: the one that may still grow. */
  #openStack = 0;
  #lastSet = 0;

  constructor(arena: PickleArena, stack: PickleStack, cursor: PickleCursor, rows: SnapshotRows | null) {
    this.#arena = arena;
    this.#stack = stack;
    this.#cursor = cursor;
    this.#rows = rows;
  }

  /** Handle of the dict that got a single item last; there may be more to come. */
  get lastSet(): number {
    return this.#lastSet;
  }

  /** Pushes a container of the entries. */
  collect(kind: number, from: number): void {
    const stack = this.#stack;
    if (kind === DICT) this.#checkKeys(from, stack.depth);
    const handle = this.#arena.add(kind);
    if (stack.depth > from) this.#arena.push(handle, stack.tags, stack.numbers, from, stack.depth);
    stack.depth = from;
    stack.push(handle);
  }

  /** Adds keys and values to the dict below them. */
  setItems(from: number): void {
    const arena = this.#arena;
    const { tags, numbers, depth: to } = this.#stack;
    const dict = this.#below(from, DICT);
    this.#stack.depth = from;
    if (to === from) return;
    this.#checkKeys(from, to);
    if (this.#rows !== null && arena.content(dict) === DICT) {
      const row = this.#rows.takeDict(arena, tags, numbers, from, to);
      if (row !== -1) {
        if (arena.content(dict) !== DICT) throw this.#used();
        // An event has taken what its list of frames is now.
        if ((row & 7) === EVENT) this.#openStack = 0;
        return arena.setContent(dict, row);
      }
    }
    if ((arena.content(dict) & 7) !== DICT || !arena.push(dict, tags, numbers, from, to)) throw this.#used();
  }

  /** Adds one key and its value. */
  setItem(from: number): void {
    const arena = this.#arena;
    const { tags, numbers } = this.#stack;
    const dict = this.#below(from, DICT);
    this.#checkKeys(from, from + 2);
    this.#lastSet = dict;
    this.#stack.depth = from;
    if ((arena.content(dict) & 7) !== DICT || !arena.push(dict, tags, numbers, from, from + 2)) throw this.#used();
  }

  /** Adds items to the list below them. */
  append(from: number): void {
    const arena = this.#arena;
    const { tags, numbers, depth: to } = this.#stack;
    const list = this.#below(from, LIST);
    this.#stack.depth = from;
    if (to === from) return;
    const content = arena.content(list);
    if (this.#rows !== null && content === LIST) {
      const stack = this.#rows.takeList(arena, tags, from, to);
      if (stack !== -1) {
        this.#openStack = list;
        return arena.setContent(list, stack);
      }
    }
    if ((content & 7) === STACK) return this.#extendStack(list, content >> 3, from, to);
    if ((content & 7) !== LIST || !arena.push(list, tags, numbers, from, to)) throw this.#used();
  }

  // Python writes long lists in parts of 1000.
  #extendStack(list: number, stack: number, from: number, to: number): void {
    const extended = this.#rows?.extendList(stack, this.#arena, this.#stack.tags, from, to) ?? -1;
    if (list !== this.#openStack || extended === -1) throw this.#used();
    this.#arena.setContent(list, extended);
  }

  /** Handle of the container below the entries. */
  #below(from: number, kind: number): number {
    const at = from - 1;
    if (at < this.#stack.floor()) throw this.#cursor.misplaced('the stack has too few entries');
    const handle = this.#stack.tags[at] as number;
    const content = this.#arena.content(handle);
    if (content !== -1 && ((content & 7) === kind || (content & 7) > TUPLE)) return handle;
    throw this.#cursor.misplaced(`there is no ${kind === LIST ? 'list' : 'dict'} below the items`);
  }

  #checkKeys(from: number, to: number): void {
    if ((to - from) % 2 !== 0) throw this.#cursor.misplaced('a key without a value');
    const { tags } = this.#stack;
    for (let i = from; i < to; i += 2) {
      const tag = tags[i] as number;
      if (tag === NUMBER || (tag & 3) === STRING || (tag & 3) === ATOM) continue;
      if ((this.#arena.content(tag) & 7) !== TUPLE) throw this.#cursor.misplaced('a list or dict as a key');
    }
  }

  #used(): Halt {
    return this.#cursor.misplaced('the object changes after it was used, which no writer of plain data does');
  }
}

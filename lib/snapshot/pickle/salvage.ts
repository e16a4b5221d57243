// What a cut pickle had completed: closes the containers that were begun, from the innermost outwards, and drops what is only half there.
// Knows how Python writes them (in one go between MARK and SETITEMS or APPENDS, or item by item), not what they mean.

import { CELL, DICT, EVENT, LIST, STRING } from './arena.js';
import type { PickleMachine } from './machine.js';

/** Completes the outermost list or dict with all that is whole; null where there is none. Linear in what was on the stack. */
export function closeBegun(machine: PickleMachine): number | null {
  return new Closing(machine).close();
}

class Closing {
  readonly #machine: PickleMachine;
  readonly #tags: Int32Array;
  readonly #numbers: Float64Array;
  readonly #marks: number[];
  #depth: number;

  constructor(machine: PickleMachine) {
    this.#machine = machine;
    const { tags, numbers, marks, depth } = machine.begun.stack;
    this.#tags = tags;
    this.#numbers = numbers;
    this.#marks = [...marks];
    this.#depth = depth;
  }

  close(): number | null {
    const rootKind = this.#depth > 0 ? this.#kindAt(0) : -1;
    if (rootKind !== DICT && rootKind !== LIST) return null;
    const root = this.#tags[0] as number;
    for (let mark = this.#marks.pop(); mark !== undefined; mark = this.#marks.pop()) {
      if (mark === 1 && rootKind === DICT) break;
      this.#closeGroup(mark);
    }
    if (rootKind === DICT) this.#closePairs(root);
    else if (this.#depth > 1) this.#append(root, this.#depth - 1, this.#depth);
    return root;
  }

  /** Entries above a mark: items of the list below it are kept; a dict, or a tuple in the making, is incomplete and goes. */
  #closeGroup(mark: number): void {
    const enclosing = this.#marks.at(-1) ?? 0;
    const kind = mark - 1 >= enclosing ? this.#kindAt(mark - 1) : -1;
    if (kind === LIST) this.#append(this.#tags[mark - 1] as number, mark, this.#wholeItems(mark));
    this.#depth = kind === DICT ? mark - 1 : mark;
  }

  /** Where the whole items of a list end: behind a list may stand an item that was meant for that one. */
  #wholeItems(mark: number): number {
    let end = this.#depth;
    while (end - 1 > mark && this.#kindAt(end - 2) === LIST && this.#kindAt(end - 1) !== LIST) end--;
    return end;
  }

  /** The outermost dict: keys and values, behind the last value perhaps items that were meant for it. */
  #closePairs(root: number): void {
    for (let at = 1; at + 1 < this.#depth; at += 2) {
      if (((this.#tags[at] as number) & 3) !== STRING) return;
      const isLast = at + 2 >= this.#depth || ((this.#tags[at + 2] as number) & 3) !== STRING;
      if (isLast && this.#kindAt(at + 1) === LIST) this.#closeChain(at + 1);
      if (isLast && !this.#isWhole(at + 1, at + 2 < this.#depth)) return;
      this.#machine.arena.push(root, this.#tags, this.#numbers, at, at + 2);
      if (isLast) return;
    }
  }

  /** Lists that were begun one in another, item by item. */
  #closeChain(at: number): void {
    let end = at;
    while (end + 1 < this.#depth && this.#kindAt(end + 1) === LIST) end++;
    const item = end + 1;
    if (item < this.#depth && this.#isWhole(item, item + 1 < this.#depth))
      this.#append(this.#tags[end] as number, item, item + 1);
    for (let list = end - 1; list >= at; list--) this.#append(this.#tags[list] as number, list + 1, list + 2);
  }

  #isWhole(at: number, covered: boolean): boolean {
    const handle = this.#tags[at] as number;
    if (this.#kindAt(at) !== DICT) return true;
    return !covered && this.#machine.arena.content(handle) !== DICT && this.#machine.begun.lastSet !== handle;
  }

  #append(list: number, from: number, to: number): void {
    // A dict without anything in it was only begun.
    const { arena } = this.#machine;
    const end = to > from && arena.content(this.#tags[to - 1] as number) === DICT ? to - 1 : to;
    if (end > from) arena.push(list, this.#tags, this.#numbers, from, end);
  }

  /** Kind of the cell at a depth; -1 for what is no cell. Events count as dicts. */
  #kindAt(at: number): number {
    const tag = this.#tags[at] as number;
    if ((tag & 3) !== CELL) return -1;
    const kind = this.#machine.arena.content(tag) & 7;
    return kind === EVENT ? -1 : kind;
  }
}

// The stack, the marks and the memo of the machine that a pickle is a program for. Must not know opcodes.

import { NUMBER, type PickleArena } from './arena.js';
import type { PickleCursor } from './cursor.js';

/** Every method throws a `Halt` where the stack is too short. Constant, amortised. */
export class PickleStack {
  /** Handles, or NUMBER where the value is in `numbers`. Replaced when they grow. */
  tags = new Int32Array(1024);
  numbers = new Float64Array(1024);
  depth = 0;
  /** Depths at which MARK was met. */
  readonly marks: number[] = [];
  readonly #arena: PickleArena;
  readonly #cursor: PickleCursor;
  /** Handles by memo number; 0: nothing. */
  #memo = new Int32Array(1024);
  #memoCount = 0;

  constructor(arena: PickleArena, cursor: PickleCursor) {
    this.#arena = arena;
    this.#cursor = cursor;
  }

  push(tag: number): void {
    if (this.depth === this.tags.length) this.#growStack();
    this.tags[this.depth++] = tag;
  }

  pushNumber(value: number): void {
    if (this.depth === this.tags.length) this.#growStack();
    this.numbers[this.depth] = value;
    this.tags[this.depth++] = NUMBER;
  }

  #growStack(): void {
    const tags = new Int32Array(this.depth * 2);
    const numbers = new Float64Array(this.depth * 2);
    tags.set(this.tags);
    numbers.set(this.numbers);
    this.tags = tags;
    this.numbers = numbers;
  }

  /** Where the uppermost entries begin that may be taken: those above the last mark. */
  below(count: number): number {
    const from = this.depth - count;
    if (from < this.floor()) throw this.#cursor.misplaced('the stack has too few entries');
    return from;
  }

  /** Entries below belong to the containers around. */
  floor(): number {
    return this.marks.length === 0 ? 0 : (this.marks[this.marks.length - 1] as number);
  }

  /** Depth at the last mark, which is gone then. */
  popMark(): number {
    const mark = this.marks.pop();
    if (mark === undefined) throw this.#cursor.misplaced('there is no MARK');
    return mark;
  }

  /** A handle of the uppermost entry. */
  top(): number {
    const at = this.below(1);
    const handle = this.#arena.handle(this.tags[at] as number, this.numbers[at] as number);
    this.tags[at] = handle;
    return handle;
  }

  /** Pushes what is in the memo. */
  recall(number: number): void {
    const handle = this.#memo[number];
    if (handle === undefined || handle === 0) throw this.#cursor.misplaced(`nothing was stored as ${number}`);
    this.push(handle);
  }

  /** Puts the uppermost entry into the memo; without a number as the next one. */
  remember(number = this.#memoCount): void {
    const handle = this.top();
    if (!(number >= 0 && number < this.#memo.length)) this.#growMemo(number);
    if (this.#memo[number] === 0) this.#memoCount++;
    this.#memo[number] = handle;
  }

  #growMemo(number: number): void {
    // Each number takes two bytes to store: more of them than bytes is no pickle, but would take all memory.
    if (!(number >= 0 && number <= this.#cursor.bytes.length))
      throw this.#cursor.misplaced(`the memo number ${number} is beyond all reason`);
    const memo = new Int32Array(Math.max(number + 1, Math.ceil(this.#memo.length * 1.5)));
    memo.set(this.#memo);
    this.#memo = memo;
  }
}

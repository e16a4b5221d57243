// Call stacks, each stored once. A stack is a row of frame numbers; equal stacks have the same number, so that millions of events can
// be grouped by call site without looking at a frame. Must not know what the stacks belong to.

import type { PyValue } from './values.js';

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

export class StackTable {
  readonly #frames: Frame[] = [];
  readonly #frameNumbers = new Map<string, number>();
  /** Frame numbers of all stacks, one after the other. */
  #rows = new Uint32Array(4 * FIRST_SLOTS);
  /** Where a stack starts in the rows, by its number; one more than there are stacks. */
  #starts = new Uint32Array(FIRST_SLOTS + 1);
  #count = 1;
  /** Open addressing: number of a stack, or 0. */
  #slots = new Int32Array(2 * FIRST_SLOTS);
  readonly #numbers = new Map<readonly Frame[], number>();

  /** Stacks, the empty one included. */
  get size(): number {
    return this.#count;
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

  /** Number of a frame; equal ones get the same. Constant, but makes a text. */
  internFrame(frame: Frame): number {
    const key = frameKey(frame);
    const known = this.#frameNumbers.get(key);
    if (known !== undefined) return known;
    this.#frameNumbers.set(key, this.#frames.length);
    return this.#frames.push(frame) - 1;
  }

  /** Number of the stack that consists of the first `length` of these frame numbers, innermost first. Linear in its depth. */
  intern(frames: ArrayLike<number>, length: number): number {
    if (length === 0) return EMPTY_STACK;
    let hash = length;
    for (let i = 0; i < length; i++) hash = Math.imul(hash ^ (frames[i] as number), 0x9e3779b1) ^ (hash >>> 15);
    const mask = this.#slots.length - 1;
    for (let slot = (hash ^ (hash >>> 13)) & mask; ; slot = (slot + 1) & mask) {
      const found = this.#slots[slot] as number;
      if (found === 0) return this.#add(frames, length, slot);
      if (this.#equals(found, frames, length)) return found;
    }
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
    this.#check(stack);
    return (this.#starts[stack + 1] as number) - (this.#starts[stack] as number);
  }

  /** The frame number at a position of a stack, 0 being the innermost. Constant. */
  frameNumber(stack: number, position: number): number {
    return this.#rows[(this.#starts[stack] as number) + position] as number;
  }

  /** The frames of a stack, innermost first. Linear in its depth. */
  frames(stack: number): Frame[] {
    const depth = this.depth(stack);
    return Array.from({ length: depth }, (_, i) => this.#frames[this.frameNumber(stack, i)] as Frame);
  }

  #check(stack: number): void {
    if (!(stack >= 0 && stack < this.#count)) throw new RangeError(`there is no stack ${stack}`);
  }

  #equals(stack: number, frames: ArrayLike<number>, length: number): boolean {
    const start = this.#starts[stack] as number;
    if ((this.#starts[stack + 1] as number) - start !== length) return false;
    for (let i = 0; i < length; i++) if (this.#rows[start + i] !== frames[i]) return false;
    return true;
  }

  #add(frames: ArrayLike<number>, length: number, slot: number): number {
    const number = this.#count++;
    const start = this.#starts[number] as number;
    if (start + length > this.#rows.length) this.#rows = grown(this.#rows, start + length);
    if (number + 1 >= this.#starts.length) this.#starts = grown(this.#starts, number + 2);
    for (let i = 0; i < length; i++) this.#rows[start + i] = frames[i] as number;
    this.#starts[number + 1] = start + length;
    this.#slots[slot] = number;
    if (this.#count * 2 > this.#slots.length) this.#rehash();
    return number;
  }

  #rehash(): void {
    const slots = new Int32Array(this.#slots.length * 2);
    const mask = slots.length - 1;
    for (let number = 1; number < this.#count; number++) {
      const start = this.#starts[number] as number;
      const length = (this.#starts[number + 1] as number) - start;
      let hash = length;
      for (let i = 0; i < length; i++)
        hash = Math.imul(hash ^ (this.#rows[start + i] as number), 0x9e3779b1) ^ (hash >>> 15);
      let slot = (hash ^ (hash >>> 13)) & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = number;
    }
    this.#slots = slots;
  }
}

function grown(from: Uint32Array<ArrayBuffer>, least: number): Uint32Array<ArrayBuffer> {
  const to = new Uint32Array(Math.max(least, Math.ceil(from.length * 1.5)));
  to.set(from);
  return to;
}

function frameKey({ name, filename, line, layout, extra }: Frame): string {
  const key = `${filename}\0${name}\0${typeof line === 'bigint' ? `${line}n` : line}`;
  if (layout === undefined && extra === undefined) return key;
  const rest = [...(extra ?? [])].map(([name, value]) => `${name}\0${typeof value}\0${String(value)}`);
  return `${key}\0${layout?.join(',') ?? ''}\0${rest.join('\0')}`;
}

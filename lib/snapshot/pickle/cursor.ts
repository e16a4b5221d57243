// Where a pickle is being read: its bytes, the opcode at work and its operands, and the errors that name that place. Must not know what
// opcodes do.

import { SnapshotFormatError } from '../../errors.js';
import { MAX_INTEGER_DIGITS, parseInteger } from './numbers.js';
import { opcodeName } from './opcodes.js';

/** Why a pickle was not read to its end. */
export interface Stop {
  readonly kind: 'cut' | 'damaged' | 'refused';
  readonly error: SnapshotFormatError;
}

/** Ends the reading; whoever reads turns it into a `Stop`. */
export class Halt extends Error {
  readonly stop: Stop;

  constructor(kind: Stop['kind'], message: string, at: number) {
    super(message);
    this.stop = { kind, error: new SnapshotFormatError(message, at) };
  }
}

/** Every method moves behind what it read, and throws a `Halt` where the file ends before that. */
export class PickleCursor {
  readonly bytes: Uint8Array;
  /** Where the next byte is. */
  at = 0;
  /** Where the opcode began. */
  start = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  /** The next opcode; undefined at the end of the file. */
  opcode(): number | undefined {
    this.start = this.at++;
    return this.bytes[this.start];
  }

  /** Position of the next `count` bytes. */
  take(count: number): number {
    const at = this.at;
    if (count > this.bytes.length - at) throw this.cut();
    this.at = at + count;
    return at;
  }

  /** One byte. */
  byte(): number {
    return this.bytes[this.take(1)] as number;
  }

  /** Two bytes. */
  uint16(): number {
    const at = this.take(2);
    return (this.bytes[at] as number) | ((this.bytes[at + 1] as number) << 8);
  }

  /** Four bytes. */
  uint32(): number {
    const bytes = this.bytes;
    const at = this.take(4);
    const low = (bytes[at] as number) | ((bytes[at + 1] as number) << 8) | ((bytes[at + 2] as number) << 16);
    return (low | ((bytes[at + 3] as number) << 24)) >>> 0;
  }

  /** Inexact beyond 2^53, which is longer than any file. */
  uint64(): number {
    return this.uint32() + this.uint32() * 2 ** 32;
  }

  /** A line without its end. Latin-1, which is how Python reads it. */
  line(): string {
    const end = this.bytes.indexOf(10, this.at);
    const length = end === -1 ? this.bytes.length - this.at + 1 : end - this.at;
    const at = this.take(length);
    this.at++;
    const pieces: string[] = [];
    for (let from = at; from < at + length; from += 4096)
      pieces.push(String.fromCharCode(...this.bytes.subarray(from, Math.min(from + 4096, at + length))));
    return pieces.join('');
  }

  /** A line that is a decimal integer. */
  integerLine(): number | bigint {
    const line = this.line().replace(/L$/, '');
    return this.wellFormed(line.length > MAX_INTEGER_DIGITS ? null : parseInteger(line), 'an integer');
  }

  /** The file ends before the pickle does. */
  cut(): Halt {
    this.start = this.bytes.length;
    return new Halt('cut', 'the file ends here, before its pickle does', this.start);
  }

  damaged(message: string): Halt {
    return new Halt('damaged', message, this.start);
  }

  /** The opcode cannot stand here. */
  misplaced(why: string): Halt {
    return this.damaged(`opcode ${opcodeName(this.bytes[this.start] as number)}: ${why}`);
  }

  /** The opcode is one that no plain data need. @param what it names */
  refused(what: string): Halt {
    const name = opcodeName(this.bytes[this.start] as number);
    return new Halt('refused', `opcode ${name}${what}: only plain data are read, no classes`, this.start);
  }

  /** The value of a line; null is none. */
  wellFormed<T>(value: T | null, what: string): T {
    if (value === null) throw this.misplaced(`its line is not ${what}`);
    return value;
  }
}

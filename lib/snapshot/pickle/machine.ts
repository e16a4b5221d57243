// Runs the opcodes of a pickle that hold plain data: None, booleans, numbers, str, bytes, list, tuple, dict. Everything that names a class
// is refused, so that reading a file never runs code. Source: Python's pickletools, which describes each opcode. Must not know snapshots:
// rows of dicts go to whoever takes them in.

import { SnapshotFormatError } from '../../errors.js';
import type { PyValue } from '../model.js';
import { DICT, LIST, PickleArena, STRING, TUPLE } from './arena.js';
import { PickleContainers } from './containers.js';
import { Halt, PickleCursor, type Stop } from './cursor.js';
import { doubleAt, integerAt, MAX_INTEGER_BYTES, MAX_INTEGER_DIGITS, parseFloatText, parseInteger } from './numbers.js';
import { NEWEST_PROTOCOL, opcodeName } from './opcodes.js';
import type { SnapshotRows } from './rows.js';
import { PickleStack } from './stack.js';
import { BadText, decodeUtf8, PickleStrings } from './strings.js';

export class PickleMachine {
  readonly arena: PickleArena;
  readonly #strings: PickleStrings;
  readonly #cursor: PickleCursor;
  readonly #stack: PickleStack;
  readonly #containers: PickleContainers;

  constructor(bytes: Uint8Array, rows: SnapshotRows | null) {
    this.#strings = new PickleStrings(bytes);
    this.#cursor = new PickleCursor(bytes);
    this.arena = new PickleArena(this.#strings, rows);
    this.#stack = new PickleStack(this.arena, this.#cursor);
    this.#containers = new PickleContainers(this.arena, this.#stack, this.#cursor, rows);
  }

  /** What a cut pickle had begun: what stands on the stack, and the dict that may get another item. */
  get begun(): { stack: PickleStack; lastSet: number } {
    return { stack: this.#stack, lastSet: this.#containers.lastSet };
  }

  /** Handle of the result. Bytes behind it are ignored, as Python does. Linear. @returns why it stopped, when it did not reach the end */
  run(): number | Stop {
    try {
      for (let code = this.#cursor.opcode(); code !== 0x2e; code = this.#cursor.opcode()) this.#step(code);
      const { tags, numbers, depth, marks } = this.#stack;
      if (marks.length > 0 || depth !== 1) throw this.#cursor.misplaced(`${depth} values instead of one`);
      return this.arena.handle(tags[0] as number, numbers[0] as number);
    } catch (error) {
      return stopOf(error, this.#cursor.start);
    }
  }

  // The opcodes that a snapshot consists of, the most frequent of them; a byte beyond the end is undefined and goes to the others.
  #step(code: number | undefined): void {
    const cursor = this.#cursor;
    const stack = this.#stack;
    switch (code) {
      case 0x6a: // LONG_BINGET
        return stack.recall(cursor.uint32());
      case 0x68: // BINGET
        return stack.recall(cursor.byte());
      case 0x94: // MEMOIZE
        return stack.remember();
      case 0x71: // BINPUT
        return stack.remember(cursor.byte());
      case 0x72: // LONG_BINPUT
        return stack.remember(cursor.uint32());
      case 0x4b: // BININT1
        return stack.pushNumber(cursor.byte());
      case 0x4d: // BININT2
        return stack.pushNumber(cursor.uint16());
      case 0x4a: // BININT
        return stack.pushNumber(cursor.uint32() | 0);
      case 0x8a: // LONG1
        return this.#pushInteger(cursor.byte());
      case 0x8c: // SHORT_BINUNICODE
        return this.#pushUtf8(cursor.byte());
      case 0x58: // BINUNICODE
        return this.#pushUtf8(cursor.uint32());
      case 0x28: // MARK
        stack.marks.push(stack.depth);
        return;
      case 0x7d: // EMPTY_DICT
        return stack.push(this.arena.add(DICT));
      case 0x5d: // EMPTY_LIST
        return stack.push(this.arena.add(LIST));
      case 0x75: // SETITEMS
        return this.#containers.setItems(stack.popMark());
      case 0x65: // APPENDS
        return this.#containers.append(stack.popMark());
      default:
        return this.#stepOther(code);
    }
  }

  #stepOther(code: number | undefined): void {
    switch (code) {
      case 0x4e: // NONE
        return this.#stack.push(this.arena.atom(null));
      case 0x88: // NEWTRUE
        return this.#stack.push(this.arena.atom(true));
      case 0x89: // NEWFALSE
        return this.#stack.push(this.arena.atom(false));
      case 0x47: // BINFLOAT
        return this.#stack.pushNumber(doubleAt(this.#cursor.bytes, this.#cursor.take(8)));
      case 0x29: // EMPTY_TUPLE
        return this.#stack.push(this.arena.add(TUPLE));
      case 0x85: // TUPLE1
      case 0x86: // TUPLE2
      case 0x87: // TUPLE3
        return this.#containers.collect(TUPLE, this.#stack.below(code - 0x84));
      case 0x74: // TUPLE
        return this.#containers.collect(TUPLE, this.#stack.popMark());
      case 0x6c: // LIST
        return this.#containers.collect(LIST, this.#stack.popMark());
      case 0x64: // DICT
        return this.#containers.collect(DICT, this.#stack.popMark());
      case 0x61: // APPEND
        return this.#containers.append(this.#stack.below(1));
      case 0x73: // SETITEM
        return this.#containers.setItem(this.#stack.below(2));
      case 0x95: // FRAME: its length says nothing that the opcodes in it do not.
        this.#cursor.take(8);
        return;
      case 0x80: // PROTO
        if (this.#cursor.byte() > NEWEST_PROTOCOL)
          throw this.#cursor.damaged(`pickle protocol ${this.#cursor.bytes[this.#cursor.start + 1]} is not known`);
        return;
      default:
        return this.#stepRare(code);
    }
  }

  #stepRare(code: number | undefined): void {
    switch (code) {
      case 0x8b: // LONG4
        return this.#pushInteger(this.#cursor.uint32());
      case 0x8d: // BINUNICODE8
        return this.#pushUtf8(this.#cursor.uint64());
      case 0x43: // SHORT_BINBYTES
        return this.#pushBytes(this.#cursor.byte());
      case 0x42: // BINBYTES
        return this.#pushBytes(this.#cursor.uint32());
      case 0x8e: // BINBYTES8
        return this.#pushBytes(this.#cursor.uint64());
      case 0x55: // SHORT_BINSTRING: Python 2's str, read as text.
        return this.#pushUtf8(this.#cursor.byte());
      case 0x54: // BINSTRING
        return this.#pushUtf8(this.#cursor.uint32());
      case 0x30: // POP
        return this.#popOrUnmark();
      case 0x31: // POP_MARK
        this.#stack.depth = this.#stack.popMark();
        return;
      case 0x32: // DUP
        return this.#stack.push(this.#stack.top());
      default:
        return this.#stepText(code);
    }
  }

  // Protocol 0: operands are lines of text.
  #stepText(code: number | undefined): void {
    switch (code) {
      case 0x67: // GET
        return this.#stack.recall(Number(this.#cursor.integerLine()));
      case 0x70: // PUT
        return this.#stack.remember(Number(this.#cursor.integerLine()));
      case 0x49: // INT
        return this.#pushIntLine();
      case 0x4c: // LONG
        return this.#pushValue(this.#cursor.integerLine());
      case 0x46: // FLOAT
        return this.#pushValue(this.#cursor.wellFormed(parseFloatText(this.#cursor.line()), 'a float'));
      case 0x56: // UNICODE
        return this.#pushText(unescapeUnicode(this.#cursor.line()));
      case 0x53: // STRING
        return this.#pushText(this.#cursor.wellFormed(unquote(this.#cursor.line()), 'a quoted string in UTF-8'));
      default:
        return this.#refuse(code);
    }
  }

  #refuse(code: number | undefined): never {
    if (code === undefined) throw this.#cursor.cut();
    if (opcodeName(code) === null)
      throw this.#cursor.damaged(`opcode 0x${code.toString(16).padStart(2, '0')} is none of a pickle's`);
    throw this.#cursor.refused(code === 0x63 || code === 0x69 || code === 0x93 ? ` (${this.#className(code)})` : '');
  }

  #className(code: number): string {
    const names = code === 0x93 ? this.#topTexts() : [this.#cursor.line(), this.#cursor.line()];
    // Of a file that someone else wrote: no line breaks, no end of the message out of sight.
    return names.map((name) => name.replace(/[^\x20-\x7e]/g, '?').slice(0, 100)).join('.');
  }

  #topTexts(): string[] {
    const from = this.#stack.below(2);
    return [from, from + 1].map((at) => {
      const tag = this.#stack.tags[at] as number;
      return (tag & 3) === STRING ? this.#strings.text(tag >> 2) : '?';
    });
  }

  #pushValue(value: number | bigint): void {
    if (typeof value === 'number') this.#stack.pushNumber(value);
    else this.#stack.push(this.arena.atom(value));
  }

  #pushInteger(width: number): void {
    const at = this.#cursor.take(width);
    if (width > MAX_INTEGER_BYTES) throw this.#cursor.misplaced(`an integer of ${width} bytes`);
    this.#pushValue(integerAt(this.#cursor.bytes, at, width));
  }

  #pushIntLine(): void {
    const line = this.#cursor.line();
    // How protocols 0 and 1 write booleans.
    if (line === '00' || line === '01') return this.#stack.push(this.arena.atom(line === '01'));
    this.#pushValue(
      this.#cursor.wellFormed(line.length > MAX_INTEGER_DIGITS ? null : parseInteger(line), 'an integer'),
    );
  }

  #pushUtf8(length: number): void {
    const at = this.#cursor.take(length);
    this.#stack.push((this.#strings.internBytes(at, length) << 2) | STRING);
  }

  #pushText(text: string): void {
    this.#stack.push((this.#strings.intern(text) << 2) | STRING);
  }

  #pushBytes(length: number): void {
    const at = this.#cursor.take(length);
    this.#stack.push(this.arena.atom(this.#cursor.bytes.slice(at, at + length)));
  }

  #popOrUnmark(): void {
    if (this.#stack.marks.length > 0 && this.#stack.depth === this.#stack.floor()) this.#stack.marks.pop();
    else this.#stack.depth = this.#stack.below(1);
  }
}

function stopOf(error: unknown, at: number): Stop {
  if (error instanceof Halt) return error.stop;
  if (error instanceof BadText)
    return { kind: 'damaged', error: new SnapshotFormatError('a string is not UTF-8', error.at) };
  if (error instanceof SnapshotFormatError && error.position === null)
    return { kind: 'damaged', error: new SnapshotFormatError(error.message, at) };
  throw error;
}

function unescapeUnicode(line: string): string {
  return line.replace(/\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})/g, (whole, short?: string, long?: string) => {
    const code = Number.parseInt((short ?? long) as string, 16);
    return code > 0x10ffff ? whole : String.fromCodePoint(code);
  });
}

/** A Python string literal in UTF-8; null where it is none. */
function unquote(line: string): string | null {
  const quoted = /^\s*(['"])(.*)\1\s*$/s.exec(line);
  if (quoted === null) return null;
  const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b', f: '\f', v: '\v' };
  const bytes = (quoted[2] as string).replace(
    /\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))/gs,
    (_, hex?: string, octal?: string, char?: string) => {
      if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
      if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8) & 255);
      return escapes[char as string] ?? (char as string);
    },
  );
  const codes = Uint8Array.from(bytes, (char) => char.charCodeAt(0));
  try {
    return decodeUtf8(codes, 0, codes.length);
  } catch {
    return null;
  }
}

/** The value of a pickle, whatever it is. For files that are no snapshots, and for tests. @throws SnapshotFormatError */
export function readPickle(bytes: Uint8Array): PyValue {
  const machine = new PickleMachine(bytes, null);
  const result = machine.run();
  if (typeof result !== 'number') throw result.error;
  return machine.arena.value(result);
}

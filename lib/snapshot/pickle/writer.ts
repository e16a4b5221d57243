// Writes Python pickles of protocol 4: values, and the opcodes that a writer of larger things puts together itself. Bytes come in chunks,
// so that nothing of the size of the file is built. Must not know what the values mean.

import { type PyDict, type PyList, type PyValue, Tuple } from '../values.js';

const MARK = 0x28;
const EMPTY_TUPLE = 0x29;
const STOP = 0x2e;
const BINBYTES = 0x42;
const SHORT_BINBYTES = 0x43;
const BINFLOAT = 0x47;
const BININT = 0x4a;
const BININT1 = 0x4b;
const BININT2 = 0x4d;
const NONE = 0x4e;
const BINUNICODE = 0x58;
const EMPTY_LIST = 0x5d;
const APPENDS = 0x65;
const BINGET = 0x68;
const LONG_BINGET = 0x6a;
const BINPUT = 0x71;
const LONG_BINPUT = 0x72;
const TUPLE = 0x74;
const SETITEMS = 0x75;
const EMPTY_DICT = 0x7d;
const PROTO = 0x80;
const TUPLE1 = 0x85;
const NEWTRUE = 0x88;
const NEWFALSE = 0x89;
const LONG1 = 0x8a;
const LONG4 = 0x8b;
const SHORT_BINUNICODE = 0x8c;

const PROTOCOL = 4;
const CHUNK_BYTES = 256 * 1024;
/** Items between a mark and the opcode that takes them: readers hold them on a stack, some as the arguments of a call. */
const BATCH = 1000;
const MAX_INT32 = 2 ** 31 - 1;
const TWO_TO_32 = 2 ** 32;

/**
 * Where the number of a memo entry comes from. References to numbers below 256 take two bytes instead of five: `key` has the first 64 of
 * these, `common` the others, and `rest` none.
 */
export type MemoClass = 'key' | 'common' | 'rest';

const FIRST_COMMON = 64;
const FIRST_REST = 256;

export class PickleWriter {
  readonly #chunks: Uint8Array[] = [];
  #bytes = new Uint8Array(CHUNK_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #at = 0;
  #nextKey = 0;
  #nextCommon = FIRST_COMMON;
  #nextRest = FIRST_REST;
  readonly #strings = new Map<string, number>();
  readonly #objects = new Map<object, number>();

  constructor() {
    this.#byte(PROTO);
    this.#byte(PROTOCOL);
  }

  /** Ends the pickle; its bytes in order. */
  finish(): Uint8Array[] {
    this.#byte(STOP);
    this.#flush(0);
    return this.#chunks;
  }

  /** Any value. Equal strings and the same list, dict or tuple are written once. Linear in what is new. */
  value(value: PyValue): void {
    if (value === null) this.#byte(NONE);
    else if (typeof value === 'string') this.string(value);
    else if (typeof value === 'number') this.number(value);
    else if (typeof value === 'bigint') this.#big(value);
    else if (typeof value === 'boolean') this.boolean(value);
    else if (value instanceof Uint8Array) this.#binary(value);
    else this.#container(value);
  }

  boolean(value: boolean): void {
    this.#byte(value ? NEWTRUE : NEWFALSE);
  }

  /** An int where the number is a safe integer, else a float. In Python both are equal. */
  number(value: number): void {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) return this.#float(value);
    if (value >= 0 && value < 0x100) {
      this.#need(2);
      this.#bytes[this.#at++] = BININT1;
      this.#bytes[this.#at++] = value;
    } else if (value >= 0 && value < 0x10000) {
      this.#need(3);
      this.#bytes[this.#at++] = BININT2;
      this.#bytes[this.#at++] = value & 0xff;
      this.#bytes[this.#at++] = value >> 8;
    } else if (value >= -MAX_INT32 - 1 && value <= MAX_INT32) {
      this.#need(5);
      this.#bytes[this.#at++] = BININT;
      this.#view.setInt32(this.#at, value, true);
      this.#at += 4;
    } else if (value > 0) this.#long(value);
    else this.#big(BigInt(value));
  }

  /** @param memo which numbers its references may have when it occurs again. */
  string(text: string, memo: MemoClass = 'rest'): void {
    const known = this.#strings.get(text);
    if (known !== undefined) return this.get(known);
    const utf8 = encodeUtf8(text);
    if (utf8.length < 256) {
      this.#need(2);
      this.#bytes[this.#at++] = SHORT_BINUNICODE;
      this.#bytes[this.#at++] = utf8.length;
    } else this.#sized(BINUNICODE, utf8.length);
    this.#raw(utf8);
    const number = this.reserve(memo);
    this.#strings.set(text, number);
    this.#put(number);
  }

  /** A number in the memo for something that is about to be written. */
  reserve(memo: MemoClass): number {
    if (memo === 'key' && this.#nextKey < FIRST_COMMON) return this.#nextKey++;
    if (memo === 'common' && this.#nextCommon < FIRST_REST) return this.#nextCommon++;
    return this.#nextRest++;
  }

  /** What was written under a number of the memo, again. */
  get(number: number): void {
    this.#indexed(BINGET, LONG_BINGET, number);
  }

  /** A list; `write` writes the item of an index. @param number under which it can be got again. */
  list(length: number, write: (index: number) => void, number?: number): void {
    this.#byte(EMPTY_LIST);
    if (number !== undefined) this.#put(number);
    for (let from = 0; from < length; from += BATCH) {
      this.#byte(MARK);
      for (let i = from; i < Math.min(from + BATCH, length); i++) write(i);
      this.#byte(APPENDS);
    }
  }

  /** A dict; `write` writes its keys and values in turn. @param number under which it can be got again. */
  dict(write: () => void, number?: number): void {
    this.#byte(EMPTY_DICT);
    if (number !== undefined) this.#put(number);
    this.#byte(MARK);
    write();
    this.#byte(SETITEMS);
  }

  tuple(items: readonly PyValue[]): void {
    if (items.length === 0) return this.#byte(EMPTY_TUPLE);
    if (items.length > 3) this.#byte(MARK);
    for (const item of items) this.value(item);
    this.#byte(items.length > 3 ? TUPLE : TUPLE1 + items.length - 1);
  }

  #container(value: Tuple | PyList | PyDict): void {
    const known = this.#objects.get(value);
    if (known !== undefined) return this.get(known);
    const number = this.reserve('rest');
    if (value instanceof Tuple) {
      this.tuple(value.items);
      this.#put(number);
      this.#objects.set(value, number);
      return;
    }
    // Before its items, so that a list that contains itself ends.
    this.#objects.set(value, number);
    if (value instanceof Map) this.#entries([...value], number);
    else {
      const items = value as PyList;
      this.list(items.length, (i) => this.value(items[i] as PyValue), number);
    }
  }

  #entries(entries: readonly (readonly [PyValue, PyValue])[], number: number): void {
    this.#byte(EMPTY_DICT);
    this.#put(number);
    for (let from = 0; from < entries.length; from += BATCH) {
      this.#byte(MARK);
      for (const [key, value] of entries.slice(from, from + BATCH)) {
        this.value(key);
        this.value(value);
      }
      this.#byte(SETITEMS);
    }
  }

  #float(value: number): void {
    this.#need(9);
    this.#bytes[this.#at++] = BINFLOAT;
    this.#view.setFloat64(this.#at, value);
    this.#at += 8;
  }

  /** A positive integer beyond 32 bits, without the detour of a bigint: addresses and times are these. */
  #long(value: number): void {
    this.#need(10);
    const start = this.#at;
    this.#bytes[this.#at++] = LONG1;
    this.#at++;
    let low = value % TWO_TO_32;
    let high = (value - low) / TWO_TO_32;
    for (let i = 0; i < 4; i++, low = Math.floor(low / 256)) this.#bytes[this.#at++] = low % 256;
    for (; high > 0; high = Math.floor(high / 256)) this.#bytes[this.#at++] = high % 256;
    if ((this.#bytes[this.#at - 1] as number) >= 128) this.#bytes[this.#at++] = 0;
    this.#bytes[start + 1] = this.#at - start - 2;
  }

  #big(value: bigint): void {
    if (value >= -MAX_INT32 - 1 && value <= MAX_INT32) return this.number(Number(value));
    const bytes: number[] = [];
    let rest = value;
    for (;;) {
      const byte = Number(BigInt.asUintN(8, rest));
      bytes.push(byte);
      rest >>= 8n;
      if ((rest === 0n && byte < 128) || (rest === -1n && byte >= 128)) break;
    }
    if (bytes.length < 256) {
      this.#byte(LONG1);
      this.#byte(bytes.length);
    } else this.#sized(LONG4, bytes.length);
    this.#raw(Uint8Array.from(bytes));
  }

  #binary(value: Uint8Array): void {
    if (value.length < 256) {
      this.#byte(SHORT_BINBYTES);
      this.#byte(value.length);
    } else this.#sized(BINBYTES, value.length);
    this.#raw(value);
  }

  #put(number: number): void {
    this.#indexed(BINPUT, LONG_BINPUT, number);
  }

  #indexed(short: number, long: number, number: number): void {
    this.#need(5);
    if (number < 256) {
      this.#bytes[this.#at++] = short;
      this.#bytes[this.#at++] = number;
    } else this.#sized(long, number);
  }

  /** An opcode with an unsigned 32-bit operand. */
  #sized(opcode: number, operand: number): void {
    this.#need(5);
    this.#bytes[this.#at++] = opcode;
    this.#view.setUint32(this.#at, operand, true);
    this.#at += 4;
  }

  #byte(value: number): void {
    if (this.#at === this.#bytes.length) this.#flush(1);
    this.#bytes[this.#at++] = value;
  }

  #raw(bytes: Uint8Array): void {
    this.#need(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  #need(bytes: number): void {
    if (this.#at + bytes > this.#bytes.length) this.#flush(bytes);
  }

  #flush(bytes: number): void {
    if (this.#at > 0) this.#chunks.push(this.#bytes.subarray(0, this.#at));
    this.#bytes = new Uint8Array(Math.max(bytes, CHUNK_BYTES));
    this.#view = new DataView(this.#bytes.buffer);
    this.#at = 0;
  }
}

const encoder = new TextEncoder();
const HALF_PAIR = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** UTF-8, half a surrogate pair included: Python has such strings where a file name is not UTF-8, and pickles them like this. */
function encodeUtf8(text: string): Uint8Array {
  if (!HALF_PAIR.test(text)) return encoder.encode(text);
  const bytes: number[] = [];
  for (const character of text) {
    const code = character.codePointAt(0) as number;
    if (code < 0xd800 || code > 0xdfff) bytes.push(...encoder.encode(character));
    else bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f));
  }
  return Uint8Array.from(bytes);
}

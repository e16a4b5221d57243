// Pickles for tests, written independently of the package: as Python's pickler does in protocol 4 (or 2 and 5), with everything that can be
// shared in the memo.

import { type PyValue, Tuple } from '../../lib/snapshot/model.js';

/** A value as tests write it: objects are dicts with text keys. */
export type Plain = PyValue | readonly Plain[] | PlainDict;
export interface PlainDict {
  readonly [key: string]: Plain;
}

/** The bytes of a pickle. The same list, dict, tuple object or string is written once and then referred to. */
export function pickleOf(value: Plain, protocol: 2 | 4 | 5 = 4): Uint8Array<ArrayBuffer> {
  const writer = new Pickler(protocol);
  return Uint8Array.from([0x80, protocol, ...writer.write(value), 0x2e]);
}

const BATCH = 1000;

class Pickler {
  readonly #protocol: number;
  readonly #memo = new Map<unknown, number>();

  constructor(protocol: number) {
    this.#protocol = protocol;
  }

  write(value: Plain): number[] {
    if (value === null) return [0x4e];
    if (typeof value === 'boolean') return [value ? 0x88 : 0x89];
    if (typeof value === 'bigint' || Number.isSafeInteger(value)) return integer(BigInt(value as number));
    if (typeof value === 'number') return [0x47, ...bytesOf(8, (view) => view.setFloat64(0, value))];
    const known = this.#memo.get(value);
    if (known !== undefined) return known < 256 ? [0x68, known] : [0x6a, ...uint32(known)];
    if (typeof value === 'string') return this.#memoized(value, this.#text(value));
    if (value instanceof Uint8Array) return this.#memoized(value, [0x42, ...uint32(value.length), ...value]);
    if (value instanceof Tuple) return this.#tuple(value);
    if (Array.isArray(value)) return this.#list(value as readonly Plain[]);
    return this.#dict(value, value instanceof Map ? [...value] : Object.entries(value));
  }

  #memoized(value: unknown, bytes: readonly number[]): number[] {
    const number = this.#memo.size;
    this.#memo.set(value, number);
    if (this.#protocol >= 4) return [...bytes, 0x94];
    return number < 256 ? [...bytes, 0x71, number] : [...bytes, 0x72, ...uint32(number)];
  }

  #text(text: string): number[] {
    const utf8 = [...new TextEncoder().encode(text)];
    return this.#protocol >= 4 && utf8.length < 256
      ? [0x8c, utf8.length, ...utf8]
      : [0x58, ...uint32(utf8.length), ...utf8];
  }

  #tuple(value: Tuple): number[] {
    const items = value.items.map((item) => this.write(item));
    if (items.length === 0) return [0x29];
    const all = items.flat();
    return this.#memoized(value, items.length <= 3 ? [...all, 0x84 + items.length] : [0x28, ...all, 0x74]);
  }

  #list(value: readonly Plain[]): number[] {
    const out = this.#memoized(value, [0x5d]);
    for (let at = 0; at < value.length; at += BATCH) {
      const items = value.slice(at, at + BATCH);
      if (items.length > 1) out.push(0x28);
      for (const item of items) for (const byte of this.write(item)) out.push(byte);
      out.push(items.length > 1 ? 0x65 : 0x61);
    }
    return out;
  }

  #dict(value: unknown, entries: readonly (readonly [Plain, Plain])[]): number[] {
    const out = this.#memoized(value, [0x7d]);
    if (entries.length > 1) out.push(0x28);
    for (const part of entries.flat()) for (const byte of this.write(part)) out.push(byte);
    if (entries.length > 0) out.push(entries.length > 1 ? 0x75 : 0x73);
    return out;
  }
}

function integer(value: bigint): number[] {
  if (value >= 0n && value < 256n) return [0x4b, Number(value)];
  if (value >= 0n && value < 65536n) return [0x4d, Number(value) & 255, Number(value) >> 8];
  if (BigInt.asIntN(32, value) === value) return [0x4a, ...uint32(Number(BigInt.asUintN(32, value)))];
  let width = 5;
  while (BigInt.asIntN(8 * width, value) !== value) width++;
  return [0x8a, width, ...Array.from({ length: width }, (_, i) => Number((value >> BigInt(8 * i)) & 255n))];
}

function uint32(value: number): number[] {
  return bytesOf(4, (view) => view.setUint32(0, value, true));
}

function bytesOf(length: number, fill: (view: DataView) => void): number[] {
  const view = new DataView(new ArrayBuffer(length));
  fill(view);
  return [...new Uint8Array(view.buffer)];
}

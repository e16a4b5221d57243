// Trace text: one allocator operation a line, in and out. Pure: knows neither files nor allocators.
// Columns instead of objects, so that a trace of a million operations stays small and quick to walk.

import { TraceFormatError } from '../errors.js';

/** What an operation does, by the letter that stands for it in the text. */
export const TraceOp = {
  Allocate: 97, // a <id> <bytes> <stream>
  Free: 102, // f <id>
  RecordStream: 114, // r <id> <stream>
  EmptyCache: 101, // e
  HoldEvents: 104, // h
  ReleaseEvents: 117, // u
  CompleteEvents: 115, // s or s <stream>
  MemoryFraction: 70, // F <fraction>
  Configure: 67, // C <settings>
  ResetPeak: 80, // P
  ResetAccumulated: 65, // A
  Checkpoint: 78, // N
  BaseAllocation: 98, // b <id>
  CacheInfo: 99, // c
} as const;

/** One of the values of `TraceOp`: the character code of the operation's letter. */
export type TraceOpCode = (typeof TraceOp)[keyof typeof TraceOp];

/** A parsed trace. Columns are indexed by operation, from 0. */
export interface Trace {
  /** Number of operations. */
  readonly ops: number;
  /** `TraceOp` of each operation. */
  readonly codes: Uint8Array;
  /** The id of `a`, `f`, `r`, `b` as written; 0 for the others. */
  readonly ids: Float64Array;
  /** For `a`: its number among the `a` lines, from 0. For `f`, `r`, `b`: that of the earlier `a` of the id, -1 if none. */
  readonly slots: Int32Array;
  /** Bytes of `a`; the fraction of `F`. */
  readonly values: Float64Array;
  /** The stream of `a`, `r`, `s`; -1 where there is none. */
  readonly streams: Int32Array;
  /** The rest of the line of `C` and `F`, as written, by operation. */
  readonly texts: ReadonlyMap<number, string>;
  /** Comment and blank lines, each with the operation it stands before. */
  readonly comments: readonly TraceComment[];
  /** Number of `a` lines. */
  readonly allocations: number;
}

/** A line that is no operation. */
export interface TraceComment {
  readonly before: number;
  readonly text: string;
}

/** Streams are numbered below this. */
const MAX_STREAM = 2 ** 31 - 1;

const SPACE = 32;
const HASH = 35;
const ZERO = 48;
const NINE = 57;

/** The numbers that follow each letter; what a missing or surplus one is told. */
const USAGE: Readonly<Record<string, string>> = {
  a: 'a <id> <bytes> <stream>',
  f: 'f <id>',
  r: 'r <id> <stream>',
  e: 'e',
  h: 'h',
  u: 'u',
  s: 's or s <stream>',
  F: 'F <fraction>',
  C: 'C <settings>',
  P: 'P',
  A: 'A',
  N: 'N',
  b: 'b <id>',
  c: 'c',
};

/** Parses trace text. Linear. @throws TraceFormatError with the line, from 1. */
export function parseTrace(text: string): Trace {
  return new TraceParser(text).parse();
}

class TraceParser {
  readonly #text: string;
  readonly #codes: Uint8Array;
  readonly #ids: Float64Array;
  readonly #slots: Int32Array;
  readonly #values: Float64Array;
  readonly #streams: Int32Array;
  readonly #texts = new Map<number, string>();
  readonly #comments: TraceComment[] = [];
  readonly #slotOfId = new Map<number, number>();
  #line = 0;
  #at = 0;
  #end = 0;
  #op = 0;

  constructor(text: string) {
    this.#text = text;
    const lines = countLines(text);
    this.#codes = new Uint8Array(lines);
    this.#ids = new Float64Array(lines);
    this.#slots = new Int32Array(lines).fill(-1);
    this.#values = new Float64Array(lines);
    this.#streams = new Int32Array(lines).fill(-1);
  }

  parse(): Trace {
    const text = this.#text;
    for (let next = 0; next < text.length; ) {
      const newline = text.indexOf('\n', next);
      this.#at = next;
      this.#end = newline < 0 ? text.length : newline;
      next = this.#end + 1;
      if (this.#end > this.#at && text.charCodeAt(this.#end - 1) === 13) this.#end--;
      this.#line++;
      this.#parseLine();
    }
    const ops = this.#op;
    return {
      ops,
      codes: this.#codes.subarray(0, ops),
      ids: this.#ids.subarray(0, ops),
      slots: this.#slots.subarray(0, ops),
      values: this.#values.subarray(0, ops),
      streams: this.#streams.subarray(0, ops),
      texts: this.#texts,
      comments: this.#comments,
      allocations: this.#slotOfId.size,
    };
  }

  #parseLine(): void {
    const start = this.#at;
    if (start === this.#end || this.#text.charCodeAt(start) === HASH) {
      this.#comments.push({ before: this.#op, text: this.#text.slice(start, this.#end) });
      return;
    }
    const code = this.#text.charCodeAt(start);
    this.#at = start + 1;
    this.#parseOperands(code);
    if (this.#at !== this.#end) {
      this.#fail(`"${this.#shown()}": too much; it is written ${USAGE[String.fromCharCode(code)]}`);
    }
    this.#codes[this.#op++] = code;
  }

  #parseOperands(code: number): void {
    const op = this.#op;
    switch (code) {
      case TraceOp.Allocate: {
        const id = this.#id();
        if (this.#slotOfId.has(id)) this.#fail(`id ${id} is allocated a second time; an id belongs to one "a" line`);
        this.#values[op] = this.#integer('bytes', Number.MAX_SAFE_INTEGER);
        this.#streams[op] = this.#integer('stream', MAX_STREAM);
        this.#slots[op] = this.#slotOfId.size;
        this.#slotOfId.set(id, this.#slotOfId.size);
        return;
      }
      case TraceOp.Free:
      case TraceOp.BaseAllocation:
        this.#slots[op] = this.#slotOfId.get(this.#id()) ?? -1;
        return;
      case TraceOp.RecordStream:
        this.#slots[op] = this.#slotOfId.get(this.#id()) ?? -1;
        this.#streams[op] = this.#integer('stream', MAX_STREAM);
        return;
      case TraceOp.CompleteEvents:
        if (this.#at !== this.#end) this.#streams[op] = this.#integer('stream', MAX_STREAM);
        return;
      case TraceOp.MemoryFraction:
        this.#values[op] = this.#fraction();
        return;
      case TraceOp.Configure:
        this.#texts.set(op, this.#rest());
        return;
      case TraceOp.EmptyCache:
      case TraceOp.HoldEvents:
      case TraceOp.ReleaseEvents:
      case TraceOp.ResetPeak:
      case TraceOp.ResetAccumulated:
      case TraceOp.Checkpoint:
      case TraceOp.CacheInfo:
        return;
      default:
        this.#fail(`"${this.#shown()}" is no operation; known are ${Object.keys(USAGE).join(' ')}`);
    }
  }

  #id(): number {
    const id = this.#integer('id', Number.MAX_SAFE_INTEGER);
    if (id === 0) this.#fail('ids are positive');
    this.#ids[this.#op] = id;
    return id;
  }

  /** A space and a plain decimal integer. */
  #integer(name: string, max: number): number {
    const text = this.#text;
    const end = this.#end;
    const first = this.#at + 1;
    let value = 0;
    let at = first;
    if (this.#at < end && text.charCodeAt(this.#at) === SPACE) {
      for (; at < end; at++) {
        const digit = text.charCodeAt(at);
        if (digit < ZERO || digit > NINE) break;
        value = value * 10 + (digit - ZERO);
      }
    }
    const ended = at === end || text.charCodeAt(at) === SPACE;
    if (at === first || !ended) this.#fail(`"${this.#shown()}": ${name} is missing or not a plain integer`);
    if (at > first + 1 && text.charCodeAt(first) === ZERO) this.#fail(`"${this.#shown()}": ${name} has a leading zero`);
    if (value > max) this.#fail(`"${this.#shown()}": ${name} is beyond ${max}`);
    this.#at = at;
    return value;
  }

  #fraction(): number {
    const text = this.#rest();
    const value = Number(text);
    if (!/^[0-9]*\.?[0-9]+(e[+-]?[0-9]+)?$/i.test(text) || !Number.isFinite(value)) {
      this.#fail(`"${this.#shown()}": the fraction is missing or not a plain number`);
    }
    this.#texts.set(this.#op, text);
    return value;
  }

  /** A space and everything after it, which may be nothing. */
  #rest(): string {
    if (this.#at === this.#end) return '';
    if (this.#text.charCodeAt(this.#at) !== SPACE)
      this.#fail(`"${this.#shown()}": a space is missing after the letter`);
    const rest = this.#text.slice(this.#at + 1, this.#end);
    this.#at = this.#end;
    return rest;
  }

  /** The line, short and printable: what is no trace at all may hold anything. */
  #shown(): string {
    const start = this.#text.lastIndexOf('\n', this.#at - 1) + 1;
    const line = this.#text.slice(start, Math.min(this.#end, start + 60));
    return line.replace(/[^\x20-\x7e]/g, '?') + (this.#end > start + 60 ? '...' : '');
  }

  #fail(message: string): never {
    throw new TraceFormatError(this.#line, message);
  }
}

function countLines(text: string): number {
  let lines = 1;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}

/** Trace text of a parsed trace: what `parseTrace` read, with line feeds at the ends of lines. Linear. */
export function formatTrace(trace: Trace): string {
  const lines: string[] = [];
  let comment = 0;
  for (let op = 0; op <= trace.ops; op++) {
    for (; trace.comments[comment]?.before === op; comment++) lines.push(trace.comments[comment]?.text ?? '');
    if (op < trace.ops) lines.push(formatOperation(trace, op));
  }
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}

/** The line of one operation. Constant. */
export function formatOperation(trace: Trace, op: number): string {
  const code = trace.codes[op] as TraceOpCode;
  const letter = String.fromCharCode(code);
  const id = trace.ids[op];
  const stream = trace.streams[op] ?? -1;
  switch (code) {
    case TraceOp.Allocate:
      return `${letter} ${id} ${trace.values[op]} ${stream}`;
    case TraceOp.Free:
    case TraceOp.BaseAllocation:
      return `${letter} ${id}`;
    case TraceOp.RecordStream:
      return `${letter} ${id} ${stream}`;
    case TraceOp.CompleteEvents:
      return stream < 0 ? letter : `${letter} ${stream}`;
    case TraceOp.MemoryFraction:
      return `${letter} ${trace.texts.get(op) ?? trace.values[op]}`;
    case TraceOp.Configure: {
      const text = trace.texts.get(op) ?? '';
      return text === '' ? letter : `${letter} ${text}`;
    }
    default:
      return letter;
  }
}

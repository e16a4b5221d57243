// JSON text beyond what JSON.parse does: integers that a number cannot hold, documents that end too early, and the byte of a fault. Must
// not know what the documents mean.

import { SnapshotFormatError } from '../../errors.js';

/** The longest text that a string of this engine holds. */
const MAX_TEXT_BYTES = 2 ** 29 - 24;

/** A parsed document. Integers beyond 2^53 are strings that begin with `mark`; null when there are none. */
export interface JsonText {
  readonly value: unknown;
  readonly mark: string | null;
  /** Byte at which a document that ends too early was cut; null for a whole one. */
  readonly cutAt: number | null;
}

/** Parses. Linear. @param salvage takes what is whole of a document that ends too early. @throws SnapshotFormatError */
export function parseJson(bytes: Uint8Array, salvage: boolean): JsonText {
  if (bytes.length > MAX_TEXT_BYTES)
    throw new SnapshotFormatError(`${bytes.length} bytes of JSON are more than this engine can parse`);
  const text = decode(bytes);
  const marked = markIntegers(text);
  try {
    return { value: JSON.parse(marked.text), mark: marked.mark, cutAt: null };
  } catch (error) {
    // The length of the text says where a parser that was still satisfied came to the end.
    const fault = faultOf(error as Error, text);
    if (fault < text.trimEnd().length) throw new SnapshotFormatError('this is not JSON', byteOf(text, fault));
    const whole = salvage ? wholePart(marked.text) : null;
    if (whole === null) throw new SnapshotFormatError('the file ends here, before its JSON does', bytes.length);
    return { value: JSON.parse(whole), mark: marked.mark, cutAt: bytes.length };
  }
}

function decode(bytes: Uint8Array): string {
  try {
    // A byte order mark at the beginning is dropped.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    // Perhaps cut within a character: then all but that is text.
    return new TextDecoder('utf-8').decode(bytes).replace(/\ufffd$/, '');
  }
}

/** Our own JSON, which writes such integers as text. */
const OURS = /^\s*\{\s*"format"\s*:\s*"cudalloc-snapshot"/;
/** Where a number token is that may not fit: beyond 2^53, or too long to be sure of. */
const LONG_INTEGER = /(?<![\d.])(?:[1-9]\d{16,}|9\d{15})(?![\d.eE])/;
const STRING_OR_INTEGER = /"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\d.])-?(?:[1-9]\d{16,}|9\d{15})(?![\d.eE])/gs;

/** Turns integers beyond 2^53 into strings with a mark that no string of the text begins with. */
function markIntegers(text: string): { text: string; mark: string | null } {
  if (OURS.test(text) || !LONG_INTEGER.test(text)) return { text, mark: null };
  let mark = 'int:';
  while (text.includes(`"${mark}`)) mark = `_${mark}`;
  const replaced = text.replace(STRING_OR_INTEGER, (token) =>
    token.startsWith('"') || Number.isSafeInteger(Number(token)) ? token : `"${mark}${token}"`,
  );
  return { text: replaced, mark };
}

/** Where the parser stopped; the text's length where it wanted more. */
function faultOf(error: Error, text: string): number {
  if (wantsMore(error)) return text.length;
  const position = /position (\d+)/.exec(error.message)?.[1];
  return position === undefined ? searchFault(text) : Number(position);
}

function wantsMore({ message }: Error): boolean {
  return /^Unexpected end|^Unterminated/.test(message);
}

/** The engine does not always say where: the shortest beginning of the text that more text could not mend ends with the fault. */
function searchFault(text: string): number {
  let low = 0;
  let high = text.length;
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if (canGoOn(text.slice(0, middle))) low = middle;
    else high = middle;
  }
  return low;
}

function canGoOn(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    return wantsMore(error as Error);
  }
}

function byteOf(text: string, position: number): number {
  return new TextEncoder().encode(text.slice(0, position)).length;
}

/**
 * The text up to the last whole item, with the brackets closed that are open there. Whole is an item of a list, or a member of the
 * outermost object, that lies in nothing but lists and that object: half a dict is never taken. Null where there is none.
 */
function wholePart(text: string): string | null {
  const open: string[] = [];
  let end = -1;
  let closers = '';
  const keep = (at: number): void => {
    if (open.slice(1).includes('}')) return;
    end = at;
    closers = open.toReversed().join('');
  };
  for (const { 0: token, index } of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|["{}[\],]/gs)) {
    // The string in which the text ends.
    if (token === '"') break;
    if (token === '{' || token === '[') {
      open.push(token === '{' ? '}' : ']');
      if (token === '[') keep(index + 1);
    } else if (token === ',') keep(index);
    else if (token === '}' || token === ']') {
      open.pop();
      keep(index + 1);
    }
  }
  return end === -1 || closers === '' ? null : text.slice(0, end) + closers;
}

// Files of traces: the one place under snapshot/ that touches the file system. Text formats are read and written
// elsewhere; this file knows only names, bytes and compression.

import { readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { TraceFormatError } from '../errors.js';
import { formatTrace, parseTrace, type Trace } from './trace.js';

/** The longest text that a string of this engine holds; far beyond any trace. */
const MAX_TEXT_BYTES = 2 ** 29 - 24;

/**
 * Reads a trace file, plain or gzip (told by its first bytes, not by its name). Linear in the file.
 * @throws TraceFormatError when it is not a trace; the system's error when it cannot be read.
 */
export function readTrace(path: string): Trace {
  const bytes = readFileSync(path);
  return parseTrace(traceText(bytes));
}

/** Writes a trace; a name ending in `.gz` makes it gzip. Linear. */
export function writeTrace(trace: Trace, path: string): void {
  const text = formatTrace(trace);
  writeFileSync(path, path.endsWith('.gz') ? gzipSync(text) : text);
}

function traceText(bytes: Buffer): string {
  const plain = bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzip(bytes) : bytes;
  const first = plain[0];
  // A pickle of protocol 2 and later begins with 0x80, a zip archive with "PK", a JSON document with a bracket.
  if (first === 0x80 || first === 0x7b || first === 0x5b || (first === 0x50 && plain[1] === 0x4b)) {
    throw new TraceFormatError(1, 'this is a snapshot or another document, not a trace of operations (a, f, r, ...)');
  }
  if (plain.length > MAX_TEXT_BYTES) throw new TraceFormatError(1, `${plain.length} bytes are too many for one trace`);
  return plain.toString('utf8');
}

function gunzip(bytes: Buffer): Buffer {
  try {
    return gunzipSync(bytes);
  } catch (error) {
    throw new TraceFormatError(1, `the gzip data are damaged (${(error as Error).message})`);
  }
}

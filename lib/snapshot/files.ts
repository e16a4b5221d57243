// Files of traces and snapshots: the one place under snapshot/ that touches the file system. Text formats are read and written
// elsewhere; this file knows only names, bytes and compression.

import {
  closeSync,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { constants, gunzipSync, gzipSync } from 'node:zlib';
import { SnapshotFormatError, TraceFormatError } from '../errors.js';
import { formatBinarySnapshot } from './binary/write-binary.js';
import { formatJsonSnapshot } from './json/write-json.js';
import type { Snapshot } from './model.js';
import { formatPickleSnapshot } from './pickle/write-pickle.js';
import { parseSnapshot, type ReadOptions } from './read-snapshot.js';
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

/**
 * Reads a snapshot file: a PyTorch pickle of any layout, our JSON or binary form, or PyTorch's layout as JSON, each plain or gzip, told by the
 * first bytes and not by the name. Linear; takes memory of a few times the file.
 * @throws SnapshotFormatError when it is no snapshot, or cut or damaged; the system's error when it cannot be read
 */
export function readSnapshot(path: string, options: ReadOptions = {}): Snapshot {
  const bytes = readBytes(path);
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return parseSnapshot(bytes, options);
  try {
    return parseSnapshot(gunzipSync(bytes), options);
  } catch (error) {
    if (error instanceof SnapshotFormatError) throw error;
    return readDamagedGzip(bytes, error as NodeJS.ErrnoException, options);
  }
}

/** What could be decompressed of gzip data that were cut. Other damage has no part that could be trusted. */
function readDamagedGzip(bytes: Uint8Array, cause: NodeJS.ErrnoException, options: ReadOptions): Snapshot {
  if (cause.code !== 'Z_BUF_ERROR')
    throw new SnapshotFormatError(`the gzip data are damaged (${cause.message})`, null, { cause });
  if (options.salvage !== true)
    throw new SnapshotFormatError(`the gzip data are cut: they end at byte ${bytes.length} of the file`, null, {
      cause,
    });
  const snapshot = parseSnapshot(gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH }), options);
  const note = snapshot.salvaged?.replace('of the file', 'of the decompressed file');
  return { ...snapshot, salvaged: note ?? 'the end of the gzip data is missing: all of the snapshot was read' };
}

/** Node reads at most this much at once. */
const MOST_AT_ONCE = 2 ** 30;

/** The bytes of a file, however long. */
function readBytes(path: string): Uint8Array {
  const file = openSync(path, 'r');
  try {
    const stat = fstatSync(file);
    if (stat.isDirectory()) throw new SnapshotFormatError(`${path} is a directory, not a snapshot file`);
    if (!stat.isFile() || stat.size < MOST_AT_ONCE) return readFileSync(file);
    const bytes = new Uint8Array(stat.size);
    let at = 0;
    for (let read = -1; read !== 0 && at < bytes.length; at += read)
      read = readSync(file, bytes, at, Math.min(MOST_AT_ONCE, bytes.length - at), at);
    return bytes.subarray(0, at);
  } finally {
    closeSync(file);
  }
}

/** What a snapshot is written as. */
export type SnapshotFormat = 'pickle' | 'json' | 'binary';

/** What the names of files end in, by what they are. */
export const SNAPSHOT_ENDINGS: Readonly<Record<SnapshotFormat, string>> = {
  pickle: '.pickle',
  json: '.json',
  binary: '.cudalloc',
};

/** The format that a file's name asks for: `.json` is our JSON, `.cudalloc` our binary form, with or without `.gz`; all else is a pickle. */
export function snapshotFormatOf(path: string): SnapshotFormat {
  const name = path.replace(/\.gz$/i, '').toLowerCase();
  return (['json', 'binary'] as const).find((format) => name.endsWith(SNAPSHOT_ENDINGS[format])) ?? 'pickle';
}

/** A snapshot in one of the formats, in pieces. Linear. */
export function formatSnapshot(snapshot: Snapshot, format: SnapshotFormat): Iterable<string | Uint8Array> {
  if (format === 'json') return formatJsonSnapshot(snapshot);
  return format === 'binary' ? formatBinarySnapshot(snapshot) : formatPickleSnapshot(snapshot);
}

/**
 * Writes a snapshot, as a pickle that PyTorch's tools read, as our JSON or in our binary form; a name ending in `.gz` makes it gzip. The file is there whole or
 * not at all. Linear.
 * @throws the system's error when it cannot be written
 */
export function writeSnapshot(
  snapshot: Snapshot,
  path: string,
  options: { readonly format?: SnapshotFormat } = {},
): void {
  writePieces(formatSnapshot(snapshot, options.format ?? snapshotFormatOf(path)), path);
}

/** Pieces shorter than this are put together before they are compressed or written. */
const LEAST_WRITE = 2 ** 20;

/**
 * Writes a file piece by piece under another name and then renames it, so that a full disk or a killed process leaves no half file and an
 * older one as it was. What is no plain file (a pipe, a device) is written directly. A name ending in `.gz` makes it gzip.
 * @returns bytes written
 */
export function writePieces(pieces: Iterable<string | Uint8Array>, path: string): number {
  const existing = statSync(path, { throwIfNoEntry: false });
  const compress = path.endsWith('.gz');
  if (existing !== undefined && !existing.isFile()) return writeTo(openSync(path, 'w'), pieces, compress);
  // The file itself, not the link to it, is replaced.
  const target = existing === undefined ? path : realpathSync(path);
  const temporary = join(dirname(target), `.${basename(target)}.${process.pid}.tmp`);
  try {
    const bytes = writeTo(openSync(temporary, 'w', existing?.mode), pieces, compress);
    renameSync(temporary, target);
    return bytes;
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** Writes and closes. */
function writeTo(file: number, pieces: Iterable<string | Uint8Array>, compress: boolean): number {
  try {
    let bytes = 0;
    for (const chunk of joined(pieces)) {
      // A gzip file may have several members, so that no more than one of them is in memory.
      bytes += writeAll(file, compress ? gzipSync(chunk) : chunk);
    }
    return bytes;
  } finally {
    closeSync(file);
  }
}

function* joined(pieces: Iterable<string | Uint8Array>): Generator<Buffer, void, undefined> {
  let waiting: Uint8Array[] = [];
  let size = 0;
  for (const piece of pieces) {
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
    waiting.push(bytes);
    size += bytes.length;
    if (size < LEAST_WRITE) continue;
    yield Buffer.concat(waiting);
    waiting = [];
    size = 0;
  }
  if (size > 0) yield Buffer.concat(waiting);
}

function writeAll(file: number, bytes: Uint8Array): number {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
  return bytes.length;
}

function traceText(bytes: Buffer): string {
  const plain = bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzip(bytes) : bytes;
  const first = plain[0];
  // A pickle of protocol 2 and later begins with 0x80, our binary form with 0x93, a zip archive with "PK", a JSON document with a bracket.
  if (first === 0x80 || first === 0x93 || first === 0x7b || first === 0x5b || (first === 0x50 && plain[1] === 0x4b)) {
    throw new TraceFormatError(
      1,
      'this is a snapshot (readSnapshot reads those) or another document, not a trace of operations (a, f, r, ...)',
    );
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

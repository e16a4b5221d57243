// Reads a snapshot whatever its format, told by its first bytes. Pure: the bytes come from someone else, decompressed.

import { SnapshotFormatError } from '../errors.js';
import { beginsBinary, parseBinarySnapshot } from './binary/read-binary.js';
import { parseJsonFile } from './json/read-json.js';
import type { Snapshot } from './model.js';
import { parsePickle } from './pickle/read-pickle.js';

export interface ReadOptions {
  /** Whether a file that was cut or damaged is read as far as it is whole; `Snapshot.salvaged` then says what is missing. */
  readonly salvage?: boolean;
}

/**
 * Reads a snapshot: a PyTorch pickle of any layout and of protocol 0 to 5, our JSON, PyTorch's layout as JSON, or our binary form, of which
 * there is nothing to salvage. Bytes behind the end of a pickle are ignored. A pickle that names a class is refused; nothing in a file is
 * ever run. Linear; memory a few times the file.
 * @throws SnapshotFormatError for what is no snapshot, or is cut or damaged; it names the byte
 */
export function parseSnapshot(bytes: Uint8Array, options: ReadOptions = {}): Snapshot {
  const salvage = options.salvage ?? false;
  if (bytes.length === 0) throw new SnapshotFormatError('the file is empty', 0);
  const first = firstByte(bytes);
  if (first === 0x7b || first === 0x5b) return parseJsonFile(bytes, salvage);
  if (beginsBinary(bytes)) return parseBinarySnapshot(bytes);
  if (!beginsPickle(bytes)) throw new SnapshotFormatError(`this is no memory snapshot, but ${whatItIs(bytes)}`, 0);
  return parsePickle(bytes, salvage);
}

/** The first byte behind a byte order mark and blanks. */
function firstByte(bytes: Uint8Array): number | undefined {
  let at = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  return bytes[at];
}

/**
 * Since protocol 2 pickles begin with their protocol. Older ones of a dict or list begin with MARK, EMPTY_DICT or EMPTY_LIST, and one of
 * an object with GLOBAL; that one is to be refused for what it is.
 */
function beginsPickle(bytes: Uint8Array): boolean {
  const [first] = bytes;
  if (first === 0x63) return /^c[\w.]+\n[\w.]+\n/.test(String.fromCharCode(...bytes.subarray(0, 200)));
  return first === 0x80 || first === 0x28 || first === 0x7d || first === 0x5d;
}

function whatItIs(bytes: Uint8Array): string {
  const text = String.fromCharCode(...bytes.subarray(0, 200));
  if (text.startsWith('PK')) return 'a zip archive, as torch.save writes for tensors';
  if (text.startsWith('\x1f\x8b')) return 'gzip data, which have to be decompressed first';
  if (/^\s*<(!doctype|html|\?xml)/i.test(text)) return 'a web page';
  if (/^[\x20-\x7e\s]*$/.test(text)) return `text that begins with ${JSON.stringify(text.slice(0, 20))}`;
  const begin = Array.from(bytes.subarray(0, 8), (byte) => byte.toString(16).padStart(2, '0'));
  return `data that begin with ${begin.join(' ')}`;
}

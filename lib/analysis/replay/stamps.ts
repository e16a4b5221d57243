// Data checks of a replay: every block carries bytes that only it can have, and they are compared when it is freed. An
// overlap of two blocks, a wrong mapping or a lost page shows as a mismatch. Must not know how blocks are placed.

import type { Device, Stream } from '../../device/types.js';
import type { OwnCalls } from './own-calls.js';

/** Bytes that did not come back as they were written. */
export interface Mismatch {
  /** Operation that compared them; the number of operations for the comparison at the end. */
  readonly op: number;
  readonly id: number;
  /** First differing byte, from the start of the block. */
  readonly offset: number;
  readonly expected: number;
  readonly found: number;
}

const MIB = 1024 ** 2;
const STAMP_BYTES = 64;
/** A stamp stands at every multiple of this within a block, and at its end. */
const STAMP_DISTANCE = 2 * MIB;
/** Whole blocks are written and compared in pieces of this size. */
const CHUNK_BYTES = MIB;
/** Up to this size of device the whole of every block is written, not only its stamps. */
const WHOLE_LIMIT = 2 * 1024 * MIB;
/** Mismatches kept with their details. */
const KEPT_MISMATCHES = 16;

/** Node's comparison, thirteen times as fast as a loop; a browser has none. */
const memcmp = (globalThis as { Buffer?: { compare(a: Uint8Array, b: Uint8Array): number } }).Buffer?.compare;

/** Writes and compares. One blocking copy per stamp, or per MiB of the block on small devices. */
export class Stamps {
  blocksChecked = 0;
  bytesChecked = 0;
  mismatchesTotal = 0;
  readonly mismatches: Mismatch[] = [];
  readonly #device: Device;
  readonly #own: OwnCalls;
  readonly #stream: Stream;
  readonly #noise: Uint8Array | null;
  readonly #expected = new DataView(new ArrayBuffer(CHUNK_BYTES));
  readonly #found = new Uint8Array(CHUNK_BYTES);

  constructor(device: Device, own: OwnCalls) {
    this.#device = device;
    this.#own = own;
    // A stream of its own: waiting for a copy on the trace's streams would complete the events that the trace holds back.
    this.#stream = device.createStream({ nonBlocking: true });
    this.#noise = device.totalMemory <= WHOLE_LIMIT ? makeNoise(2 * CHUNK_BYTES) : null;
  }

  /** Fills a new block. */
  write(id: number, address: number, bytes: number): void {
    this.#eachPiece(bytes, (start, length) => {
      const piece = this.#pattern(id, start, length, bytes);
      this.#own.run('stamp', () => this.#device.memcpyHtoD(address + start, piece, this.#stream));
    });
  }

  /** Compares a block with what `write` put there. */
  verify(op: number, id: number, address: number, bytes: number): void {
    this.blocksChecked++;
    this.#eachPiece(bytes, (start, length) => {
      const found = this.#found.subarray(0, length);
      this.#own.run('compare', () => this.#device.memcpyDtoH(found, address + start, this.#stream));
      this.bytesChecked += length;
      const expected = this.#pattern(id, start, length, bytes);
      const at = firstDifference(expected, found);
      if (at < 0) return;
      this.mismatchesTotal++;
      if (this.mismatches.length < KEPT_MISMATCHES) {
        this.mismatches.push({ op, id, offset: start + at, expected: expected[at] ?? 0, found: found[at] ?? 0 });
      }
    });
  }

  close(): void {
    this.#stream.destroy();
  }

  #eachPiece(bytes: number, visit: (start: number, length: number) => void): void {
    if (this.#noise !== null) {
      for (let at = 0; at < bytes; at += CHUNK_BYTES) visit(at, Math.min(CHUNK_BYTES, bytes - at));
      return;
    }
    let covered = 0;
    for (let at = 0; at < bytes; at += STAMP_DISTANCE) {
      covered = Math.min(at + STAMP_BYTES, bytes);
      visit(at, covered - at);
    }
    const tail = Math.max(covered, bytes - STAMP_BYTES);
    if (tail < bytes) visit(tail, bytes - tail);
  }

  /** The bytes that belong into a piece: noise shifted by block and place, and the stamps over it. */
  #pattern(id: number, start: number, length: number, bytes: number): Uint8Array {
    const view = this.#expected;
    const pattern = new Uint8Array(view.buffer, 0, length);
    if (this.#noise === null) {
      stamp(view, pattern, 0, id, start, length);
      return pattern;
    }
    const shift = ((id * 7919 + start / 4096) * 16) % CHUNK_BYTES;
    pattern.set(this.#noise.subarray(shift, shift + length));
    if (start % STAMP_DISTANCE === 0) stamp(view, pattern, 0, id, start, Math.min(STAMP_BYTES, length));
    const tail = Math.max(start, bytes - STAMP_BYTES);
    const tailLength = Math.min(bytes, start + length) - tail;
    if (tailLength > 0) stamp(view, pattern, tail - start, id, tail, tailLength);
    return pattern;
  }
}

/** The block's id and the place within the block, over and over, 16 bytes a turn. */
function stamp(view: DataView, target: Uint8Array, at: number, id: number, place: number, length: number): void {
  let filled = 0;
  for (; filled + 16 <= length; filled += 16) {
    view.setFloat64(at + filled, id, true);
    view.setFloat64(at + filled + 8, place + filled, true);
  }
  for (; filled < length; filled++) target[at + filled] = (id + 31 * (place + filled)) & 0xff;
}

/** xorshift32 (Marsaglia 2003), always the same. */
function makeNoise(bytes: number): Uint8Array {
  const words = new Uint32Array(bytes / 4);
  let x = 0x9e3779b9;
  for (let i = 0; i < words.length; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    words[i] = x;
  }
  return new Uint8Array(words.buffer);
}

/** Index of the first byte that differs; -1 when none does. Both start at a multiple of four bytes in their buffers. */
function firstDifference(a: Uint8Array, b: Uint8Array): number {
  if (memcmp?.(a, b) === 0) return -1;
  const words = a.length >>> 2;
  const wordsOfA = new Int32Array(a.buffer, a.byteOffset, words);
  const wordsOfB = new Int32Array(b.buffer, b.byteOffset, words);
  let same = 0;
  while (same < words && wordsOfA[same] === wordsOfB[same]) same++;
  for (let at = same * 4; at < a.length; at++) if (a[at] !== b[at]) return at;
  return -1;
}

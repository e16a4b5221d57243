// The demo's workload: cached segments cut up by long-lived blocks, then one large request. Writes and compares real bytes.
// Must not know how anything is printed.

import '../dump-snapshot.js';
import { CachingAllocator } from '../allocator/caching-allocator.js';
import type { PolicyName } from '../allocator/policy.js';
import type { Device } from '../device/types.js';
import { ConfigError, OutOfMemoryError } from '../errors.js';
import { formatSize, MIB } from '../units.js';

/** Sizes in bytes, chosen for a capacity. */
export interface DemoPlan {
  readonly capacity: number;
  /** How many batches are in flight at once. */
  readonly batches: number;
  /** Bytes of a batch in the first pass, which fills the device. */
  readonly longBatch: number;
  /** Bytes of a batch in the second pass. */
  readonly shortBatch: number;
  /** Bytes of what is kept of each batch. */
  readonly result: number;
  /** Bytes of the large request: more than any piece, less than all of them. */
  readonly request: number;
}

/** What one run came to. */
export interface DemoRun {
  readonly policy: PolicyName;
  readonly conf: string;
  readonly error: OutOfMemoryError | null;
  /** The file with the memory as it was when the request ran short; null when it did not. */
  readonly snapshot: string | null;
  readonly reservedBefore: number;
  readonly allocatedBefore: number;
  /** Free pieces between the results, when the large request is made: their number, and the bytes of the largest. */
  readonly pieces: number;
  readonly largestPiece: number;
  readonly bytesCompared: number;
  readonly bytesWrong: number;
  readonly reservedPeak: number;
  /** The memory summary after the large request. */
  readonly summary: string;
  readonly elapsedMs: number;
}

type DemoBuffer = ReturnType<CachingAllocator['allocate']>;

const PAGE = 20 * MIB;
const SMALLEST_CAPACITY = 1024 * MIB;
const LARGEST_BATCH = 512 * MIB;
const LARGEST_REQUEST = 2048 * MIB;
const FEWEST_BATCHES = 16;
const CHUNK = MIB;

/** @throws ConfigError below 1 GiB */
export function planDemo(capacity: number): DemoPlan {
  if (capacity < SMALLEST_CAPACITY) {
    const message = `--capacity: ${formatSize(capacity)} are too small for the demo, which takes at least ${formatSize(SMALLEST_CAPACITY)}`;
    throw new ConfigError(message, { key: 'capacity', value: String(capacity) });
  }
  // One page stays free, so that the batches fit in whole pages as well as in segments of their own.
  const room = capacity - PAGE;
  const longBatch = wholePages(Math.min(LARGEST_BATCH, room / FEWEST_BATCHES));
  const result = Math.max(2 * MIB, wholePages(longBatch / 32));
  return {
    capacity,
    batches: Math.floor(room / longBatch),
    longBatch,
    shortBatch: longBatch - result,
    result,
    request: wholePages(Math.min(LARGEST_REQUEST, capacity / 4)),
  };
}

export interface DemoOptions {
  readonly policy: PolicyName;
  /** Settings string. */
  readonly conf: string;
  /** Where a snapshot is written if memory runs out. */
  readonly snapshot: string;
  readonly onStep: () => void;
}

/** Runs the workload under the given settings. The device is left empty. @throws what prevents the snapshot from being written */
export function runDemo(device: Device, plan: DemoPlan, { policy, conf, snapshot, onStep }: DemoOptions): DemoRun {
  const allocator = new CachingAllocator({ device, policy, conf, dumpOnOutOfMemory: snapshot });
  allocator.recordMemoryHistory({ stacks: true });
  try {
    const run = new DemoRunner(allocator, plan, conf, onStep).run();
    if (run.error !== null && run.snapshot === null) throw run.error.cause;
    return run;
  } finally {
    allocator.close();
  }
}

class DemoRunner {
  readonly #allocator: CachingAllocator;
  readonly #plan: DemoPlan;
  readonly #conf: string;
  readonly #onStep: () => void;
  readonly #pattern = new Uint8Array(CHUNK);
  #bytesCompared = 0;
  #bytesWrong = 0;

  constructor(allocator: CachingAllocator, plan: DemoPlan, conf: string, onStep: () => void) {
    this.#allocator = allocator;
    this.#plan = plan;
    this.#conf = conf;
    this.#onStep = onStep;
  }

  run(): DemoRun {
    const start = performance.now();
    const { batches, longBatch, shortBatch, result, request } = this.#plan;
    const allocator = this.#allocator;
    // First pass: long batches fill the device. Freed, their memory stays cached.
    const long = Array.from({ length: batches }, () => this.#allocate(longBatch));
    for (const batch of long) batch.free();

    // Second pass: shorter batches, of each a small result is kept.
    const second = Array.from({ length: batches }, (_, i) => {
      const batch = this.#allocate(shortBatch);
      const kept = this.#allocate(result);
      this.#fill(kept, i);
      return { batch, kept };
    });
    for (const { batch } of second) batch.free();

    const reservedBefore = allocator.memoryReserved();
    const allocatedBefore = allocator.memoryAllocated();
    const { pieces, largestPiece } = this.#freePieces();
    let error: OutOfMemoryError | null = null;
    let summary = '';
    try {
      const large = this.#allocate(request);
      summary = allocator.memorySummary();
      this.#fill(large, batches);
      this.#compare(large, batches);
      large.free();
    } catch (caught) {
      if (!(caught instanceof OutOfMemoryError)) throw caught;
      error = caught;
      summary = allocator.memorySummary();
    }
    second.forEach(({ kept }, i) => {
      this.#compare(kept, i);
      kept.free();
    });
    return {
      policy: this.#allocator.policy.name,
      conf: this.#conf,
      error,
      snapshot: error?.details.snapshot ?? null,
      reservedBefore,
      allocatedBefore,
      pieces,
      largestPiece,
      bytesCompared: this.#bytesCompared,
      bytesWrong: this.#bytesWrong,
      reservedPeak: allocator.maxMemoryReserved(),
      summary,
      elapsedMs: performance.now() - start,
    };
  }

  #allocate(bytes: number): DemoBuffer {
    this.#onStep();
    return this.#allocator.allocate(bytes);
  }

  #freePieces(): { pieces: number; largestPiece: number } {
    const sizes = this.#allocator
      .memorySnapshot()
      .segments.flatMap(({ blocks }) => blocks.filter(({ state }) => state === 'inactive').map(({ size }) => size));
    return { pieces: sizes.length, largestPiece: Math.max(0, ...sizes) };
  }

  #fill(buffer: DemoBuffer, number: number): void {
    for (let at = 0; at < buffer.size; at += CHUNK) {
      buffer.write(this.#expected(number, at, Math.min(CHUNK, buffer.size - at)), at);
    }
    this.#onStep();
  }

  #compare(buffer: DemoBuffer, number: number): void {
    for (let at = 0; at < buffer.size; at += CHUNK) {
      const length = Math.min(CHUNK, buffer.size - at);
      const found = buffer.read(at, length);
      const expected = this.#expected(number, at, length);
      this.#bytesCompared += length;
      if (Buffer.compare(found, expected) === 0) continue;
      for (let i = 0; i < length; i++) if (found[i] !== expected[i]) this.#bytesWrong++;
    }
    this.#onStep();
  }

  /** Bytes that tell the buffer and the place in it. */
  #expected(number: number, at: number, length: number): Uint8Array {
    const words = new Uint32Array(this.#pattern.buffer, 0, length / 4);
    const seed = number * 0x9e3779b1 + at / 4;
    for (let i = 0; i < words.length; i++) words[i] = seed + i * 0x85ebca6b;
    return this.#pattern.subarray(0, length);
  }
}

function wholePages(bytes: number): number {
  return Math.floor(bytes / (2 * MIB)) * 2 * MIB;
}

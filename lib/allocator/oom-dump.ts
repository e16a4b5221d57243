// A snapshot of every out of memory, as the memory was when the request first ran short: before anything was given back to the device for
// it. The state is kept then, and written when the request has failed for good. Must not know the formats, nor how files are written.

import type { Device } from '../device/types.js';
import { ConfigError, UnsupportedError } from '../errors.js';
import type { Snapshot } from '../snapshot/model.js';
import type { FreeList } from './free-list.js';
import type { Heap } from './heap.js';
import { RECORD_OOM } from './history.js';
import { type HeapState, type LastEvent, snapshotFrom, stateOf } from './state-snapshot.js';

/** Which snapshots are written at an out of memory. */
export interface DumpOnOutOfMemory {
  /** File name as of `dumpSnapshot`; `{n}` in it stands for the number of the dump, from 1. */
  readonly path: string;
  /** Dumps at most. Default 10 with `{n}` in the path; without it 1, so that the first is kept: the later ones are its consequences. */
  readonly max?: number;
}

/** Writes a snapshot to a file, whose name says the format. */
export type SnapshotWriter = (snapshot: Snapshot, path: string) => void;

const NUMBER = '{n}';
const MOST_NUMBERED = 10;

let writeSnapshot: SnapshotWriter | null = null;

/** Gives all allocators the means to write files, which this folder has not. */
export function installSnapshotWriter(writer: SnapshotWriter): void {
  writeSnapshot = writer;
}

/** The memory as a request found it that ran short. */
export interface Shortage {
  readonly state: HeapState;
  /** The out of memory that it may come to, with what was free on the device then. */
  readonly event: LastEvent;
}

export class OutOfMemoryDumps {
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #path: string;
  readonly #max: number;
  readonly #write: SnapshotWriter;
  #written = 0;

  /** @throws ConfigError, or UnsupportedError where there are no files */
  constructor(heap: Heap, device: Device, options: string | DumpOnOutOfMemory) {
    this.#heap = heap;
    this.#device = device;
    const { path, max } = typeof options === 'string' ? { path: options, max: undefined } : options;
    if (typeof path !== 'string' || path === '') refuse('path', path, 'the name of a file');
    this.#path = path;
    this.#max = max ?? (path.includes(NUMBER) ? MOST_NUMBERED : 1);
    if (!(this.#max >= 1) || this.#max !== Math.floor(this.#max)) {
      refuse('max', max, 'a whole number from 1 on, or Infinity');
    }
    if (writeSnapshot === null) throw new UnsupportedError('dumpOnOutOfMemory: there are no files to write to here');
    this.#write = writeSnapshot;
  }

  /** Whether the next out of memory is dumped. */
  get wanted(): boolean {
    return this.#written < this.#max;
  }

  /** The memory at this moment. Linear in blocks. @param free bytes on the device */
  observe(list: FreeList, rounded: number, free: number): Shortage {
    const { clock, history } = this.#heap;
    return {
      state: stateOf(this.#heap, this.#device),
      event: {
        action: RECORD_OOM,
        address: free,
        size: rounded,
        stream: list.stream.id,
        timeUs: Math.trunc(clock.now()),
        frames: history?.captureFrames() ?? null,
      },
    };
  }

  /** The name of the file written. Linear in blocks and in the history. @throws whatever writing throws */
  write({ state, event }: Shortage): string {
    const path = this.#path.replaceAll(NUMBER, String(this.#written + 1));
    this.#write(snapshotFrom(state, event), path);
    this.#written++;
    return path;
  }
}

function refuse(key: string, value: unknown, accepted: string): never {
  throw new ConfigError(`dumpOnOutOfMemory: ${key} is ${String(value)}; accepted is ${accepted}`, {
    key: `dumpOnOutOfMemory.${key}`,
    value: String(value),
  });
}

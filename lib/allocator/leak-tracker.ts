// Notices buffers that the garbage collector took before they were freed: gives their memory back and warns once. A last resort; nothing
// that is correct depends on it. Must not hold the buffers.

import type { Frame } from '../snapshot/model.js';
import { formatSize } from '../units.js';
import { warnProcess } from './process-warning.js';

/** What is left of a buffer when it is gone. */
interface Remains {
  readonly address: number;
  readonly bytes: number;
  readonly frames: readonly Frame[] | null;
}

export class LeakTracker {
  readonly #registry: FinalizationRegistry<Remains>;
  readonly #warnings: boolean;
  #closed = false;

  /** @param free gives the memory back through the stream rules. */
  constructor(warnings: boolean, free: (address: number) => void) {
    this.#warnings = warnings;
    this.#registry = new FinalizationRegistry((remains) => {
      if (this.#closed) return;
      // There is no caller to tell an error; without the warning it would be lost.
      const failure = attempt(() => free(remains.address));
      if (this.#warnings || failure !== null) warn(remains, failure);
    });
  }

  watch(buffer: object, address: number, bytes: number, frames: readonly Frame[] | null): void {
    this.#registry.register(buffer, { address, bytes, frames }, buffer);
  }

  /** The memory of all buffers was given back. */
  close(): void {
    this.#closed = true;
  }

  forget(buffer: object): void {
    this.#registry.unregister(buffer);
  }
}

function attempt(action: () => void): Error | null {
  try {
    action();
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function warn({ address, bytes, frames }: Remains, failure: Error | null): void {
  const outcome =
    failure === null ? 'its memory is reclaimed' : `its memory could not be reclaimed: ${failure.message}`;
  const message = `a buffer of ${formatSize(bytes)} at 0x${address.toString(16)} was collected without free(); ${outcome}`;
  const detail = frames?.map((frame) => `    at ${frame.name} (${frame.filename}:${frame.line})`).join('\n');
  warnProcess(message, {
    type: 'CudallocLeakWarning',
    code: 'CUDALLOC_LEAK',
    ...(detail === undefined ? {} : { detail: `allocated\n${detail}` }),
  });
}

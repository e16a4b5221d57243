// Notices buffers that the garbage collector took before they were freed: gives their memory back and warns once. A last resort; nothing
// that is correct depends on it. Must not hold the buffers.

import { formatSize } from '../units.js';
import type { BufferMemory } from './buffer-memory.js';
import { warnProcess } from './process-warning.js';

export class LeakTracker {
  readonly #registry: FinalizationRegistry<BufferMemory>;
  readonly #warnings: boolean;
  #closed = false;

  /** @param free gives the memory back through the stream rules. */
  constructor(warnings: boolean, free: (memory: BufferMemory) => void) {
    this.#warnings = warnings;
    this.#registry = new FinalizationRegistry((memory) => {
      if (this.#closed) return;
      // There is no caller to tell an error; without the warning it would be lost.
      const failure = attempt(() => free(memory));
      if (this.#warnings || failure !== null) warn(memory, failure);
    });
  }

  watch(buffer: object, memory: BufferMemory): void {
    this.#registry.register(buffer, memory, buffer);
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

function warn({ address, size, frames }: BufferMemory, failure: Error | null): void {
  const outcome =
    failure === null ? 'its memory is reclaimed' : `its memory could not be reclaimed: ${failure.message}`;
  const message = `a buffer of ${formatSize(size)} at 0x${address.toString(16)} was collected without free(); ${outcome}`;
  const detail = frames?.map((frame) => `    at ${frame.name} (${frame.filename}:${frame.line})`).join('\n');
  warnProcess(message, {
    type: 'CudallocLeakWarning',
    code: 'CUDALLOC_LEAK',
    ...(detail === undefined ? {} : { detail: `allocated\n${detail}` }),
  });
}

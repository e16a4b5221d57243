// Who is asked for memory in this thread: the listeners of each device, by name of the device. Must not know other threads.

import type { TrimListener, TrimRequests } from './types.js';

export class TrimListeners implements TrimRequests {
  readonly #listeners = new Set<TrimListener>();

  get none(): boolean {
    return this.#listeners.size === 0;
  }

  listen(listener: TrimListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  ask(bytes: number, asking: TrimListener | null): number {
    let freed = 0;
    for (const listener of this.#listeners) {
      if (listener === asking || freed >= bytes) continue;
      try {
        freed += listener(bytes - freed);
      } catch {
        // It has its own troubles; whoever asks is told how much there is.
      }
    }
    return freed;
  }
}

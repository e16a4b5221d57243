// Those who can make room when everything else has failed (tiers register here). Must not know what they free.

export interface PressureHandler {
  /** Frees what it can at once, about `bytes`, and returns how many bytes it freed; 0 ends its turn. */
  reclaimSync(bytes: number): number;
  /** The same where waiting is allowed. */
  reclaim(bytes: number): Promise<number>;
}

export class PressureHandlers {
  readonly #handlers = new Set<PressureHandler>();
  /** A handler may allocate; it must not be asked again meanwhile. */
  #asking = false;

  add(handler: PressureHandler): () => void {
    this.#handlers.add(handler);
    return () => void this.#handlers.delete(handler);
  }

  get none(): boolean {
    return this.#handlers.size === 0;
  }

  /**
   * Asks one after the other, each until it frees nothing more, and tries again after each answer. `state` describes the memory: a
   * handler whose answer leaves it as it was is not asked again.
   */
  relieve<T>(bytes: number, retry: () => T | null, state: () => string): T | null {
    if (this.#asking) return null;
    this.#asking = true;
    try {
      for (const handler of this.#handlers) {
        for (let before = state(); handler.reclaimSync(bytes) > 0; before = state()) {
          const result = retry();
          if (result !== null) return result;
          if (state() === before) break;
        }
      }
      return null;
    } finally {
      this.#asking = false;
    }
  }

  /** The same for those who can wait; says whether anything was freed. */
  async reclaim(bytes: number): Promise<boolean> {
    for (const handler of this.#handlers) {
      if ((await handler.reclaim(bytes)) > 0) return true;
    }
    return false;
  }
}

// Time for the history. Reading a clock costs as much as an allocation, so within one turn of the event loop a reading serves a few
// operations. Must not know what is timed.

const US_PER_MS = 1000;
/** Operations that one reading serves. */
const OPERATIONS = 4;

interface Scheduler {
  setImmediate?: (callback: () => void) => { unref?: () => void };
}

export class Clock {
  #reading = 0;
  /** Operations that the reading still serves. */
  #serves = 0;
  #expiry = false;

  /** Microseconds since the epoch. */
  now(): number {
    this.#reading = (performance.timeOrigin + performance.now()) * US_PER_MS;
    return this.#reading;
  }

  /** The same, read at most three operations ago and in this turn of the event loop. Never runs backwards. */
  recent(): number {
    if (this.#serves > 0) {
      this.#serves--;
      return this.#reading;
    }
    return this.#read();
  }

  #read(): number {
    const { setImmediate } = globalThis as Scheduler;
    // Without a way to notice the end of the turn every operation reads the clock.
    if (setImmediate !== undefined) {
      this.#serves = OPERATIONS - 1;
      if (!this.#expiry) {
        this.#expiry = true;
        setImmediate(() => {
          this.#expiry = false;
          this.#serves = 0;
        }).unref?.();
      }
    }
    return this.now();
  }
}

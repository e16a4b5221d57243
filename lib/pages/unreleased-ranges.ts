// Ranges that nobody uses any more: given back to the driver, or kept for another try where it refuses. Must not know what they held.

import { DriverError } from '../errors.js';
import type { SharedRange } from './shared-range.js';

export class UnreleasedRanges {
  readonly #kept: SharedRange[] = [];

  /** Bytes that the driver has not taken back. */
  get bytes(): number {
    return this.#kept.reduce((sum, range) => sum + range.heldBytes, 0);
  }

  /** Gives an unmapped range back, or keeps what of it the driver refuses. */
  release(range: SharedRange): void {
    this.#kept.push(range);
    try {
      this.retry();
    } catch (error) {
      if (!(error instanceof DriverError)) throw error;
    }
  }

  /** Tries again to give back what the driver refused to take. @throws DriverError */
  retry(): void {
    for (let range = this.#kept[0]; range !== undefined; range = this.#kept[0]) {
      range.release();
      this.#kept.shift();
    }
  }
}

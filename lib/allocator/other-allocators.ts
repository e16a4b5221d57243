// The other allocators of this process on the same device: one that is short asks them to give back what they do not use, and is asked by them.
// Must not know what an allocator holds.

import type { Device, TrimListener } from '../device/types.js';

export class OtherAllocators {
  readonly #device: Device;
  readonly #give: TrimListener;
  readonly #end: () => void;

  /** @param give gives back about so many bytes and says how many */
  constructor(device: Device, give: TrimListener) {
    this.#device = device;
    this.#give = give;
    this.#end = device.trimRequests.listen(give);
  }

  /**
   * Asks them, and says whether there is more than before, or may be: one that is busy may have given memory back meanwhile without an answer.
   * Those of other threads are waited for, a tenth of a second at most.
   */
  ask(bytes: number): boolean {
    const freed = this.#device.trimRequests.ask(bytes, this.#give);
    return freed > 0 || this.#device.offers?.shared === true;
  }

  /** It is asked no more. */
  end(): void {
    this.#end();
  }
}

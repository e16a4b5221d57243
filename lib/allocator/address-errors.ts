// What is wrong with an address that cannot be freed. Looks at everything, changes nothing.

import { DoubleFreeError, InvalidAddressError } from '../errors.js';
import { ALLOCATED, type Block } from './block.js';
import type { Heap } from './heap.js';

/** For an address at which no allocation starts. Linear in segments and in the blocks of one. */
export function refuseAddress(heap: Heap, address: number): never {
  const shown = typeof address === 'number' ? `0x${address.toString(16)}` : String(address);
  for (const { address: start, size, first } of heap.segments) {
    if (!(address >= start && address < start + size)) continue;
    let block: Block = first;
    while (block.next !== null && block.next.address <= address) block = block.next;
    if (block.state !== ALLOCATED) {
      throw new DoubleFreeError(address, `nothing is allocated at ${shown}; it was freed before, or never allocated`);
    }
    throw new InvalidAddressError(
      address,
      `${shown} lies inside an allocation that starts at 0x${block.address.toString(16)}`,
    );
  }
  throw new InvalidAddressError(address, `${shown} was not given out by this allocator`);
}

/** For an address that only its buffer may free. */
export function refuseOwned(address: number): never {
  throw new InvalidAddressError(address, `0x${address.toString(16)} belongs to a buffer; call the buffer's free()`);
}

// Which pool a stretch of memory belonged to, which the events of segments do not say. Must not know why it is asked.

import type { Config } from '../../allocator/config.js';
import { roundSize, SMALL_BUFFER, SMALL_SIZE } from '../../allocator/rounding.js';
import type { AddressIndex } from './address-index.js';

/**
 * Small segments have one size that large ones never have. Expandable ones grow by whole pages of their pool, and some number of small
 * pages may look like large ones: there a block that ever lived in the stretch decides, if one did.
 */
export function segmentTypeOf(
  index: AddressIndex,
  stretch: { readonly address: number; readonly size: number; readonly isExpandable: boolean },
  config: Config,
): 'small' | 'large' {
  const { address, size, isExpandable } = stretch;
  if (!isExpandable) return size === SMALL_BUFFER ? 'small' : 'large';
  if (size % (config.expandableSegmentsPageSize ?? config.largeSegmentSize) !== 0) return 'small';
  const block = index.anySize(address, address + size);
  return block !== null && roundSize(block, config) <= SMALL_SIZE ? 'small' : 'large';
}

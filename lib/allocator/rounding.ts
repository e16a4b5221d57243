// How sizes are rounded, and how large a segment is taken for them: PyTorch's rules. Pure functions of a size and the settings.

import { MIB } from '../units.js';
import { type Config, ROUNDUP_INTERVALS } from './config.js';

/** Every block is a multiple of this. */
export const MIN_BLOCK_SIZE = 512;
/** Rounded sizes up to this are served from the small pool. */
export const SMALL_SIZE = MIB;
/** Rounded sizes up to this have a pool of their own where pages are shared by size (policy `paged`). */
export const TINY_SIZE = 16 * 1024;
/** Segment, and page, of the small pool. */
export const SMALL_BUFFER = 2 * MIB;
/** From this size on a segment is made for the request alone. */
const MIN_LARGE_ALLOC = 10 * MIB;
/** Such segments are multiples of this. */
const ROUND_LARGE = 2 * MIB;

/** Index of a size's interval; sizes below 1 MiB use the first. */
function intervalOf(size: number): number {
  return Math.min(ROUNDUP_INTERVALS - 1, Math.max(0, Math.floor(Math.log2(size)) - 20));
}

/** The largest power of two that is at most `size`. */
function powerOfTwoFloor(size: number): number {
  const power = 2 ** Math.floor(Math.log2(size));
  // log2 may round up to the next integer just below a power of two.
  return power > size ? power / 2 : power;
}

function divisionsFor(size: number, config: Config): number {
  const at = size < 2 * MIB ? 0 : intervalOf(powerOfTwoFloor(size));
  return config.roundupPower2Divisions[at] as number;
}

/** Bytes of the block that serves a request: a multiple of 512, or of a fraction of a power of two where divisions are set. */
export function roundSize(size: number, config: Config): number {
  if (size < MIN_BLOCK_SIZE) return MIN_BLOCK_SIZE;
  if (config.hasRoundup) {
    const divisions = divisionsFor(size, config);
    if (divisions > 1 && size > MIN_BLOCK_SIZE * divisions) {
      const step = powerOfTwoFloor(size) / divisions;
      return Math.ceil(size / step) * step;
    }
  }
  // The usual case in integers.
  if (size <= 0x7ffffe00) return (size + MIN_BLOCK_SIZE - 1) & -MIN_BLOCK_SIZE;
  return Math.ceil(size / MIN_BLOCK_SIZE) * MIN_BLOCK_SIZE;
}

/** Bytes of the segment that is asked from the device for a rounded size. */
export function segmentSize(size: number, config: Config): number {
  if (size <= SMALL_SIZE) return SMALL_BUFFER;
  if (size < MIN_LARGE_ALLOC && size <= config.largeSegmentSize) return config.largeSegmentSize;
  return Math.ceil(size / ROUND_LARGE) * ROUND_LARGE;
}

// Sizes as people write and read them. Pure text and arithmetic: knows nothing of devices or allocators.

import { ConfigError } from './errors.js';

export const KIB = 1024;
export const MIB = 1024 * KIB;
export const GIB = 1024 * MIB;

const UNITS: ReadonlyMap<string, bigint> = new Map([
  ['', 1n],
  ['b', 1n],
  ['kib', 1n << 10n],
  ['mib', 1n << 20n],
  ['gib', 1n << 30n],
  ['tib', 1n << 40n],
  ['kb', 10n ** 3n],
  ['mb', 10n ** 6n],
  ['gb', 10n ** 9n],
  ['tb', 10n ** 12n],
]);

const SIZE = /^(\d{1,20})(?:\.(\d{1,20}))?\s*([a-z]*)$/i;
const LARGEST = 2n ** 53n;

/**
 * Bytes of a size as people write it: `20971520`, `20MiB`, `1.5 GiB`, `2GB` (KB, MB, GB, TB are decimal; case does not matter).
 * @param key what the error calls the value: an option's name.
 * @throws ConfigError for anything else, for a fraction of a byte, and above 2^53.
 */
export function parseSize(text: string, key = 'size'): number {
  const refuse = (why: string) =>
    new ConfigError(`${key}: ${JSON.stringify(text)} ${why}; write bytes (20971520) or a unit (20MiB, 1.5GiB, 2GB)`, {
      key,
      value: text,
    });
  const [, whole, fraction = '', suffix = ''] = SIZE.exec(text.trim()) ?? [];
  if (whole === undefined) throw refuse('is not a size');
  const unit = UNITS.get(suffix.toLowerCase());
  if (unit === undefined) throw refuse(`has the unknown unit ${JSON.stringify(suffix)}`);

  // In integers, so that 0.1GiB is refused for its fraction of a byte instead of being rounded.
  const scaled = BigInt(whole + fraction) * unit;
  const scale = 10n ** BigInt(fraction.length);
  if (scaled % scale !== 0n) throw refuse('is not a whole number of bytes');
  const bytes = scaled / scale;
  if (bytes > LARGEST) throw refuse('is larger than 2^53 bytes');
  return Number(bytes);
}

/**
 * A size as PyTorch's messages print it: `512 bytes`, `1024.00 KiB`, `20.00 MiB`, `1.50 GiB`. A unit is left only above 1024 of
 * it, GiB is the last; two decimals, ties to the even digit.
 */
export function formatSize(bytes: number): string {
  if (bytes < 0) return `-${formatSize(-bytes)}`;
  if (bytes <= KIB || !Number.isFinite(bytes)) return `${bytes} bytes`;
  if (bytes <= MIB) return `${twoDecimals(bytes, KIB)} KiB`;
  if (bytes <= GIB) return `${twoDecimals(bytes, MIB)} MiB`;
  return `${twoDecimals(bytes, GIB)} GiB`;
}

// toFixed rounds a tie up, printf to the even digit; the remainder of a power of two decides it without rounding errors.
function twoDecimals(bytes: number, unit: number): string {
  const scaled = (bytes % unit) * 100;
  const rest = scaled % unit;
  let hundredths = (scaled - rest) / unit;
  if (rest * 2 > unit || (rest * 2 === unit && hundredths % 2 === 1)) hundredths += 1;
  const whole = Math.floor(bytes / unit) + (hundredths === 100 ? 1 : 0);
  return `${whole}.${String(hundredths % 100).padStart(2, '0')}`;
}

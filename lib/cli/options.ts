// Parsers of option values that several commands share. A refused value becomes commander's usage error.

import { InvalidArgumentError } from 'commander';
import { CudallocError } from '../errors.js';
import { parseSize } from '../units.js';

/** A size of at least one byte: `20971520`, `20MiB`, `1.5GiB`. */
export function sizeOption(text: string): number {
  try {
    const bytes = parseSize(text);
    if (bytes > 0) return bytes;
  } catch (error) {
    if (error instanceof CudallocError) throw new InvalidArgumentError(error.message);
    throw error;
  }
  throw new InvalidArgumentError('it is 0 bytes');
}

/** A whole number from 0. */
export function countOption(text: string): number {
  const value = Number(text);
  if (!/^[0-9]+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new InvalidArgumentError('it is not a whole number from 0');
  }
  return value;
}

/** An event's number, or a word for a moment. */
export function momentOption(text: string): number | 'end' | 'peak' | 'oom' {
  if (text === 'end' || text === 'peak' || text === 'oom') return text;
  if (!/^[0-9]+$/.test(text)) throw new InvalidArgumentError('it is no event number, and none of peak, oom, end');
  return countOption(text);
}

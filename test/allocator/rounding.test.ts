// Rounding of requests and sizes of segments: the boundaries by hand, the rest against a second formulation in whole numbers.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { completeConfig, DEFAULT_CONFIG } from '../../lib/allocator/config.js';
import { parseConfig } from '../../lib/allocator/config-parser.js';
import { roundSize, segmentSize } from '../../lib/allocator/rounding.js';
import { MIB } from '../support/devices.js';

const GIB = 1024 * MIB;

/** The rule in big integers: the largest power of two below, and an interval found by counting. */
function rounded(bytes: number, divisions: readonly number[]): number {
  if (bytes < 512) return 512;
  let power = 1n;
  let exponent = 0;
  while (power * 2n <= BigInt(bytes)) {
    power *= 2n;
    exponent++;
  }
  const division = divisions[Math.min(15, Math.max(0, exponent - 20))] ?? 0;
  const step = division > 1 && bytes > 512 * division ? power / BigInt(division) : 512n;
  return Number(((BigInt(bytes) + step - 1n) / step) * step);
}

describe('roundSize', () => {
  test.each([
    [1, 512],
    [512, 512],
    [513, 1024],
    [MIB - 1, MIB],
    [MIB, MIB],
    [MIB + 1, MIB + 512],
    [0x7ffffe00, 0x7ffffe00],
    [0x7ffffe01, 2 ** 31],
    [2 ** 31 + 1, 2 ** 31 + 512],
    [2 ** 53 - 1, 2 ** 53],
  ])('%i becomes %i', (bytes, expected) => {
    expect(roundSize(bytes, DEFAULT_CONFIG)).toBe(expected);
  });

  test('514 MiB with divisions of 1 are left alone, of 2 become 768 MiB', () => {
    expect(roundSize(514 * MIB, parseConfig('roundup_power2_divisions:[>:1]'))).toBe(514 * MIB);
    expect(roundSize(514 * MIB, parseConfig('roundup_power2_divisions:[>:2]'))).toBe(768 * MIB);
  });

  test('divisions apply only above 512 bytes for each of them', () => {
    const config = parseConfig('roundup_power2_divisions:4');
    expect(roundSize(2048, config)).toBe(2048);
    expect(roundSize(2049, config)).toBe(2560);
    expect(roundSize(1537, config)).toBe(2048);
  });

  const sizes = fc.oneof(
    fc.integer({ min: 1, max: 4 * MIB }),
    fc.maxSafeInteger().map((n) => (Math.abs(n) % (80 * GIB)) + 1),
    fc.tuple(fc.integer({ min: 9, max: 37 }), fc.integer({ min: -1, max: 1 })).map(([bits, step]) => 2 ** bits + step),
  );
  const divisions = fc.array(fc.constantFrom(0, 1, 2, 4, 8, 16), { minLength: 16, maxLength: 16 });

  test('equals the rule in big integers', () => {
    fc.assert(
      fc.property(sizes, divisions, (bytes, roundupPower2Divisions) => {
        const config = completeConfig({ roundupPower2Divisions });
        expect(roundSize(bytes, config)).toBe(rounded(bytes, roundupPower2Divisions));
        expect(roundSize(bytes, DEFAULT_CONFIG)).toBe(rounded(bytes, []));
      }),
      { numRuns: 3000, seed: 1 },
    );
  });
});

describe('segmentSize', () => {
  test.each([
    [512, 2 * MIB],
    [MIB, 2 * MIB],
    [MIB + 512, 20 * MIB],
    [10 * MIB - 512, 20 * MIB],
    [10 * MIB, 10 * MIB],
    [10 * MIB + 512, 12 * MIB],
    [12 * MIB, 12 * MIB],
    [21 * MIB, 22 * MIB],
  ])('of %i bytes is %i', (size, expected) => {
    expect(segmentSize(size, DEFAULT_CONFIG)).toBe(expected);
  });

  test('what does not fit into large_segment_size_mb gets a segment of its own', () => {
    const config = parseConfig('large_segment_size_mb:4');
    expect([3 * MIB, 4 * MIB, 4 * MIB + 512, 9 * MIB].map((size) => segmentSize(size, config) / MIB)).toEqual([
      4, 4, 6, 10,
    ]);
  });
});

// Sizes as people write and read them.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ConfigError } from '../lib/errors.js';
import { formatSize, GIB, KIB, MIB, parseSize } from '../lib/units.js';

describe('parseSize', () => {
  test.each([
    ['0', 0],
    ['20971520', 20971520],
    ['512B', 512],
    ['1KiB', KIB],
    ['20MiB', 20 * MIB],
    ['1.5GiB', 1.5 * GIB],
    ['1.50GiB', 1.5 * GIB],
    [' 80 GiB ', 80 * GIB],
    ['80gib', 80 * GIB],
    ['2TiB', 2048 * GIB],
    ['2kB', 2000],
    ['2MB', 2_000_000],
    ['0.3GB', 300_000_000],
    ['1TB', 10 ** 12],
    ['9007199254740992', 2 ** 53],
  ])('%j is %d bytes', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });

  test.each([
    '',
    ' ',
    '-1',
    '+1',
    '1e9',
    '0x10',
    '1_000',
    '1,5GiB',
    '.5GiB',
    '1.',
    'GiB',
    '1 2MiB',
    '1GiBs',
    '3XiB',
    '20M',
    '1G',
    'NaN',
    'Infinity',
    '0.5',
    '0.1GiB',
    '1.0001KiB',
    '9007199254740993',
    '8193TiB',
    '9'.repeat(40),
    '1\u00a0000',
    '١٢',
  ])('%j is refused', (text) => {
    const refusal = () => parseSize(text, '--capacity');
    expect(refusal).toThrow(ConfigError);
    expect(refusal).toThrow(/^--capacity: .*20MiB/);
  });

  test('the error carries the option and the text as written', () => {
    try {
      parseSize(' 7 parsecs', 'capacity');
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({
        code: 'ERR_CUDALLOC_CONFIG',
        key: 'capacity',
        value: ' 7 parsecs',
        position: null,
      });
    }
  });

  test('every whole number of bytes is read back exactly', () => {
    fc.assert(fc.property(fc.nat(2 ** 53 - 1), (bytes) => parseSize(String(bytes)) === bytes));
  });
});

describe('formatSize', () => {
  test.each([
    [0, '0 bytes'],
    [1, '1 bytes'],
    [1024, '1024 bytes'],
    [1025, '1.00 KiB'],
    [1048576, '1024.00 KiB'],
    [1048577, '1.00 MiB'],
    [20 * MIB, '20.00 MiB'],
    [GIB, '1024.00 MiB'],
    [GIB + 1, '1.00 GiB'],
    [80 * GIB, '80.00 GiB'],
    [2 ** 50, '1048576.00 GiB'],
    [-20 * MIB, '-20.00 MiB'],
  ])('%d prints as %j', (bytes, text) => {
    expect(formatSize(bytes)).toBe(text);
  });

  test('ties go to the even digit, as in printf', () => {
    expect(formatSize(48.125 * MIB)).toBe('48.12 MiB');
    expect(formatSize(48.375 * MIB)).toBe('48.38 MiB');
    expect(formatSize(1.125 * GIB)).toBe('1.12 GiB');
    expect(formatSize(1.875 * GIB)).toBe('1.88 GiB');
    expect(formatSize(4.625 * KIB)).toBe('4.62 KiB');
    expect(formatSize(48.125 * MIB + 1)).toBe('48.13 MiB');
    expect(formatSize(48.375 * MIB - 1)).toBe('48.37 MiB');
  });

  test('the printed number is the nearest of two decimals', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1025, max: 2 ** 53 - 1 }), (bytes) => {
        const [number, unit] = formatSize(bytes).split(' ') as [string, 'KiB' | 'MiB' | 'GiB'];
        const unitBytes = BigInt({ KiB: KIB, MiB: MIB, GiB: GIB }[unit]);
        const hundredths = BigInt(number.replace('.', ''));
        const error = hundredths * unitBytes - BigInt(bytes) * 100n;
        return 2n * (error < 0n ? -error : error) <= unitBytes;
      }),
    );
  });
});

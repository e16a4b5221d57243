import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatValue } from '../../../lib/snapshot/json/values.js';
import { PickleWriter } from '../../../lib/snapshot/pickle/writer.js';
import { type PyValue, Tuple } from '../../../lib/snapshot/values.js';
import { temporaryFolder } from '../../support/child.js';
import { ODD_VALUES } from '../../support/odd-snapshot.js';
import { hasPython, python } from '../../support/python.js';

function pickled(value: PyValue): Buffer {
  const writer = new PickleWriter();
  writer.value(value);
  return Buffer.concat(writer.finish());
}

const hex = (value: PyValue): string => pickled(value).subarray(2, -1).toString('hex');

describe('bytes', () => {
  it('begins with protocol 4 and ends with a stop', () => {
    expect(pickled(null).toString('hex')).toBe('80044e2e');
  });

  it.each([
    [0, '4b00'],
    [255, '4bff'],
    [256, '4d0001'],
    [65535, '4dffff'],
    [65536, '4a00000100'],
    [-1, '4affffffff'],
    [2 ** 31 - 1, '4affffff7f'],
    [-(2 ** 31), '4a00000080'],
    [2 ** 31, '8a050000008000'],
    [2 ** 32, '8a050000000001'],
    [2 ** 39, '8a06000000008000'],
    [2 ** 53 - 1, '8a07ffffffffffff1f'],
    [-(2 ** 31) - 1, '8a05ffffff7fff'],
    [2n ** 63n - 1n, '8a08ffffffffffffff7f'],
    [2n ** 64n - 1n, '8a09ffffffffffffffff00'],
    [-(2n ** 63n), '8a080000000000000080'],
    [7n, '4b07'],
    [1.5, '473ff8000000000000'],
    [3.0, '4b03'],
    [-0, '478000000000000000'],
    [2 ** 60, '4743b0000000000000'],
  ])('%s is written as %s', (value, bytes) => {
    expect(hex(value)).toBe(bytes);
  });

  it('writes a string once, and so a list', () => {
    const list = ['name', 'name'];
    expect(hex(list)).toBe(`5d7200010000288c04${Buffer.from('name').toString('hex')}72010100006a0101000065`);
    expect(hex([list, list]).match(/6e616d65/g)).toHaveLength(1);
  });

  it('gives keys numbers of one byte, as long as there are any', () => {
    const writer = new PickleWriter();
    const keys = Array.from({ length: 70 }, (_, i) => `k${i}`);
    for (let round = 0; round < 2; round++) writer.list(keys.length, (i) => writer.string(keys[i]!, 'key'));
    const again = Buffer.concat(writer.finish()).toString('hex').split('5d')[2]!;
    expect(again).toBe(
      `28${Array.from({ length: 64 }, (_, i) => `68${i.toString(16).padStart(2, '0')}`).join('')}` +
        `${Array.from({ length: 6 }, (_, i) => `6a0${i}010000`).join('')}652e`,
    );
  });

  it('ends a list that contains itself', () => {
    const list: PyValue[] = [];
    list.push(list);
    expect(hex(list)).toBe('5d7200010000286a0001000065');
  });

  it('keeps chunks small, and longer strings whole', () => {
    const writer = new PickleWriter();
    writer.list(200_000, (i) => writer.number(2 ** 40 + i));
    writer.string('x'.repeat(1_000_000));
    const chunks = writer.finish();
    expect(chunks.length).toBeGreaterThan(5);
    expect(Math.max(...chunks.map(({ length }) => length))).toBeLessThan(1_000_100);
  });
});

/** Prints the value of a pickle as `formatValue` does. */
const DESCRIBE = `
import json, math, pickle, sys
def describe(v):
    if v is None or isinstance(v, (bool, str)): return v
    if isinstance(v, int): return v if abs(v) < 2**53 else {'int': str(v)}
    if isinstance(v, float):
        if v != v: return {'float': 'nan'}
        if math.isinf(v): return {'float': 'inf' if v > 0 else '-inf'}
        if v == 0 and math.copysign(1, v) < 0: return {'float': '-0'}
        return v
    if isinstance(v, bytes): return {'bytes': v.hex()}
    if isinstance(v, tuple): return {'tuple': [describe(x) for x in v]}
    if isinstance(v, dict): return {'dict': [[describe(a), describe(b)] for a, b in v.items()]}
    return [describe(x) for x in v]
print(json.dumps(describe(pickle.load(open(sys.argv[1], 'rb')))))
`;

function asPythonReads(value: PyValue): unknown {
  const file = join(temporaryFolder(), 'value.pickle');
  writeFileSync(file, pickled(value));
  return JSON.parse(python(DESCRIBE, [file]));
}

describe.skipIf(!hasPython)("Python's unpickler", () => {
  it('reads every kind of value', () => {
    expect(asPythonReads(ODD_VALUES)).toEqual(JSON.parse(formatValue(ODD_VALUES)));
  });

  it('reads lists and dicts of more than a thousand items', () => {
    const value = [
      Array.from({ length: 2501 }, (_, i) => i),
      new Map(Array.from({ length: 2501 }, (_, i): [string, number] => [`${i}`, i])),
    ];
    expect(asPythonReads(value)).toEqual(JSON.parse(formatValue(value)));
  });

  it('reads random values', () => {
    const seed = Number(process.env.CUDALLOC_SEED ?? Date.now() % 2 ** 31);
    const { tree } = fc.letrec<{ tree: PyValue; leaf: PyValue }>((tie) => ({
      leaf: fc.oneof(
        fc.constantFrom(null, true, false),
        fc.maxSafeInteger(),
        fc.double(),
        fc.bigInt().map((n) => (n >= -(2n ** 53n) && n <= 2n ** 53n ? n * 2n ** 60n + 2n ** 55n : n)),
        fc.string({ unit: 'grapheme' }),
        fc.uint8Array(),
      ),
      tree: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        tie('leaf'),
        fc.array(tie('tree')),
        fc.array(tie('tree')).map((items) => new Tuple(items)),
        fc.array(fc.tuple(fc.string(), tie('tree'))).map((entries) => new Map<PyValue, PyValue>(entries)),
      ),
    }));
    const values = fc.sample(tree, { seed, numRuns: 400 });
    expect(asPythonReads(values), `CUDALLOC_SEED=${seed}`).toEqual(JSON.parse(formatValue(values)));
  });
});

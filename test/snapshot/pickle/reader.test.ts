import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SnapshotFormatError } from '../../../lib/errors.js';
import { type PyValue, Tuple } from '../../../lib/snapshot/model.js';
import { readPickle } from '../../../lib/snapshot/pickle/machine.js';
import { decodeUtf8 } from '../../../lib/snapshot/pickle/strings.js';
import { pickleOf } from '../../support/pickle-bytes.js';
import { hasPython, python } from '../../support/python.js';

/** Bytes from a text in which `\xNN` stands for a byte, as Python shows them. */
const raw = (text: string): Uint8Array =>
  Uint8Array.from(
    text.replace(/\\x(..)/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    (char) => char.charCodeAt(0),
  );

const dict = (...entries: [PyValue, PyValue][]): PyValue => new Map(entries);

function failure(bytes: Uint8Array): SnapshotFormatError {
  try {
    readPickle(bytes);
  } catch (error) {
    if (error instanceof SnapshotFormatError) return error;
    throw error;
  }
  throw new Error('it was read');
}

describe('every opcode of plain data', () => {
  const cases: [string, string, PyValue][] = [
    ['None', '\\x80\\x02N.', null],
    ['true and false', '\\x80\\x02\\x88\\x89\\x86.', new Tuple([true, false])],
    ['booleans of protocol 0', '(I00\nI01\nt.', new Tuple([false, true])],
    ['an integer of protocol 0', 'I-12\n.', -12],
    ['a long of protocol 0', 'L12345678901234567890L\n.', 12345678901234567890n],
    ['BININT1', 'K\\xff.', 255],
    ['BININT2', 'M\\x01\\xff.', 65281],
    ['BININT, negative', 'J\\xfe\\xff\\xff\\xff.', -2],
    ['LONG1 of no bytes', '\\x8a\\x00.', 0],
    ['LONG1 of one byte, negative', '\\x8a\\x01\\x80.', -128],
    ['LONG1 of four bytes', '\\x8a\\x04\\xff\\xff\\xff\\x7f.', 2 ** 31 - 1],
    ['LONG1 of five bytes, an address', '\\x8a\\x06\\x00\\x00\\x00\\x00\\xff\\x7f.', 0x7fff00000000],
    ['LONG1 of six bytes, -(2^40)', '\\x8a\\x06\\x00\\x00\\x00\\x00\\x00\\xff.', -(2 ** 40)],
    ['LONG1, 2^53 - 1', '\\x8a\\x07\\xff\\xff\\xff\\xff\\xff\\xff\\x1f.', 2 ** 53 - 1],
    ['LONG1, 2^53', '\\x8a\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\x20.', 2n ** 53n],
    ['LONG1, -(2^53) + 1', '\\x8a\\x07\\x01\\x00\\x00\\x00\\x00\\x00\\xe0.', -(2 ** 53) + 1],
    ['LONG1, -(2^53)', '\\x8a\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\xe0.', -(2n ** 53n)],
    ['LONG1 of eight bytes, small', '\\x8a\\x08\\x05\\x00\\x00\\x00\\x00\\x00\\x00\\x00.', 5],
    ['LONG1 of eight bytes, -1', '\\x8a\\x08\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff.', -1],
    ['LONG1 of nine bytes, 2^64 - 1', '\\x8a\\x09\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00.', 2n ** 64n - 1n],
    ['LONG4', '\\x8b\\x02\\x00\\x00\\x00\\x00\\x01.', 256],
    ['BINFLOAT', 'G\\x3f\\xf8\\x00\\x00\\x00\\x00\\x00\\x00.', 1.5],
    [
      'floats of protocol 0',
      '(F1.5\nF-inf\nFnan\nF1e+20\nt.',
      new Tuple([1.5, Number.NEGATIVE_INFINITY, Number.NaN, 1e20]),
    ],
    ['SHORT_BINUNICODE', '\\x8c\\x03a\\xc3\\xa9.', 'aé'],
    ['BINUNICODE', 'X\\x02\\x00\\x00\\x00ab.', 'ab'],
    ['BINUNICODE8', '\\x8d\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00ab.', 'ab'],
    ['UNICODE', 'Va\\u00e9\\u005c\\U0001f600\\xe9\n.', 'aé\\😀é'],
    ['strings of Python 2', "(S'it\\'s\\n\\101'\nU\\x01bT\\x01\\x00\\x00\\x00ct.", new Tuple(["it's\nA", 'b', 'c'])],
    [
      'bytes',
      '(C\\x01\\x00B\\x01\\x00\\x00\\x00\\x01\\x8e\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02t.',
      new Tuple([Uint8Array.of(0), Uint8Array.of(1), Uint8Array.of(2)]),
    ],
    [
      'tuples',
      '(\\x29K\\x01\\x85K\\x01K\\x02\\x86K\\x01K\\x02K\\x03\\x87t.',
      new Tuple([new Tuple([]), new Tuple([1]), new Tuple([1, 2]), new Tuple([1, 2, 3])]),
    ],
    ['lists', '](K\\x01K\\x02eK\\x03a.', [1, 2, 3]],
    ['a list of protocol 0', '(lp0\nI1\naI2\na.', [1, 2]],
    ['a list of what stands on the stack', '(I1\nI2\nl.', [1, 2]],
    ['dicts', '}(\\x8c\\x01aK\\x01\\x8c\\x01bK\\x02u\\x8c\\x01cK\\x03s.', dict(['a', 1], ['b', 2], ['c', 3])],
    ['a dict of protocol 0', '(dp0\nVa\np1\nI1\nsg1\nI2\ns.', dict(['a', 2])],
    ['a dict of what stands on the stack', '(Va\nI1\nd.', dict(['a', 1])],
    ['keys of other types', '}(NK\\x01K\\x01K\\x02K\\x01\\x85K\\x03u.', dict([null, 1], [1, 2], [new Tuple([1]), 3])],
    [
      'a key that comes twice: the last value, the first place',
      '}(\\x8c\\x01aK\\x01\\x8c\\x01bK\\x02\\x8c\\x01aK\\x03u.',
      dict(['a', 3], ['b', 2]),
    ],
    ['the memo of protocol 0', '(Va\np7\ng7\nt.', new Tuple(['a', 'a'])],
    [
      'BINPUT, LONG_BINPUT',
      '(\\x8c\\x01aq\\x05h\\x05r\\x00\\x02\\x00\\x00j\\x00\\x02\\x00\\x00t.',
      new Tuple(['a', 'a', 'a']),
    ],
    ['MEMOIZE', '(\\x8c\\x01a\\x94]\\x94h\\x00h\\x01t.', new Tuple(['a', [], 'a', []])],
    ['a number in the memo', '(K\\x07q\\x00h\\x00t.', new Tuple([7, 7])],
    ['POP, DUP, POP_MARK', '(K\\x010K\\x022(K\\x09K\\x081t.', new Tuple([2, 2])],
    ['POP of a mark', 'K\\x01(0.', 1],
    ['FRAME', '\\x80\\x04\\x95\\x03\\x00\\x00\\x00\\x00\\x00\\x00\\x00K\\x01.', 1],
    ['bytes behind the end, which are ignored', 'K\\x01.garbage', 1],
  ];

  it.each(cases)('%s', (_, text, value) => {
    expect(readPickle(raw(text))).toEqual(value);
  });

  it.each(cases)('%s: cut anywhere, it is cut there', (_, text) => {
    const bytes = raw(text.replace('garbage', ''));
    for (let length = 0; length < bytes.length; length++) {
      const { position, message } = failure(bytes.subarray(0, length));
      expect([position, message]).toEqual([length, `byte ${length}: the file ends here, before its pickle does`]);
    }
  });

  it('keeps shared objects shared', () => {
    const shared = [1];
    const list = readPickle(pickleOf([shared, shared])) as PyValue[];
    expect(list[0]).toBe(list[1]);
  });

  it('tells empty lists apart that are different objects', () => {
    const list = readPickle(raw(']\\x94]\\x94\\x86h\\x01\\x86.')) as Tuple;
    expect(list).toEqual(new Tuple([new Tuple([[], []]), []]));
  });
});

describe('what is no plain data is refused', () => {
  it.each([
    ['GLOBAL', '\\x80\\x02ctorch\nTensor\n.', 2, 'opcode GLOBAL (torch.Tensor)'],
    ['GLOBAL within data', '\\x80\\x02](K\\x01cos\nsystem\ne.', 6, 'opcode GLOBAL (os.system)'],
    ['STACK_GLOBAL', '\\x80\\x04\\x8c\\x02os\\x8c\\x06system\\x93.', 14, 'opcode STACK_GLOBAL (os.system)'],
    ['INST', '(ios\nsystem\n.', 1, 'opcode INST (os.system)'],
    ['a name that would break the line', 'ca\\x07b\n\\x1b[2J\n.', 0, 'opcode GLOBAL (a?b.?[2J)'],
    ['OBJ', '(No.', 2, 'opcode OBJ'],
    ['NEWOBJ', 'N)\\x81.', 2, 'opcode NEWOBJ'],
    ['NEWOBJ_EX', 'N)}\\x92.', 3, 'opcode NEWOBJ_EX'],
    ['REDUCE', 'N)R.', 2, 'opcode REDUCE'],
    ['BUILD', 'N}b.', 2, 'opcode BUILD'],
    ['EXT1', '\\x82\\x01.', 0, 'opcode EXT1'],
    ['EXT2', '\\x83\\x01\\x00.', 0, 'opcode EXT2'],
    ['EXT4', '\\x84\\x01\\x00\\x00\\x00.', 0, 'opcode EXT4'],
    ['PERSID', 'Pid\n.', 0, 'opcode PERSID'],
    ['BINPERSID', 'NQ.', 1, 'opcode BINPERSID'],
    ['a set', '\\x8f.', 0, 'opcode EMPTY_SET'],
    ['items of a set', 'N(\\x90.', 2, 'opcode ADDITEMS'],
    ['a frozenset', '(\\x91.', 1, 'opcode FROZENSET'],
    ['a bytearray', '\\x96\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00.', 0, 'opcode BYTEARRAY8'],
    ['a buffer of another file', '\\x97.', 0, 'opcode NEXT_BUFFER'],
    ['a read-only buffer', 'N\\x98.', 1, 'opcode READONLY_BUFFER'],
  ])('%s', (_, text, position, what) => {
    const error = failure(raw(text));
    expect([error.position, error.message]).toEqual([
      position,
      `byte ${position}: ${what}: only plain data are read, no classes`,
    ]);
  });
});

describe('damaged pickles', () => {
  it.each([
    ['an unknown opcode', 'K\\x01\\xff.', 2, "opcode 0xff is none of a pickle's"],
    ['a later protocol', '\\x80\\x06N.', 0, 'pickle protocol 6 is not known'],
    ['nothing at the end', '.', 0, 'opcode STOP: 0 values instead of one'],
    ['two values at the end', 'NN.', 2, 'opcode STOP: 2 values instead of one'],
    ['a mark at the end', 'N(.', 2, 'opcode STOP: 1 values instead of one'],
    ['no mark', ']K\\x01e.', 3, 'opcode APPENDS: there is no MARK'],
    ['no list', 'N(K\\x01e.', 4, 'opcode APPENDS: there is no list below the items'],
    ['no dict', '](NNu.', 4, 'opcode SETITEMS: there is no dict below the items'],
    ['a dict for a list', '}Na.', 2, 'opcode APPEND: there is no list below the items'],
    ['nothing below', '(NNu.', 3, 'opcode SETITEMS: the stack has too few entries'],
    ['something beyond the mark', '](NNa.', 4, null],
    ['a short stack', 'N\\x86.', 1, 'opcode TUPLE2: the stack has too few entries'],
    ['a tuple beyond the mark', 'N(N\\x86.', 3, 'opcode TUPLE2: the stack has too few entries'],
    ['an empty memo', 'h\\x05.', 0, 'opcode BINGET: nothing was stored as 5'],
    ['a memo number that is none', 'gx\n.', 0, 'opcode GET: its line is not an integer'],
    ['a memo number below 0', 'Np-1\n.', 1, 'opcode PUT: the memo number -1 is beyond all reason'],
    ['nothing to memoize', '\\x94.', 0, 'opcode MEMOIZE: the stack has too few entries'],
    ['a key without a value', '}(Nu.', 3, 'opcode SETITEMS: a key without a value'],
    ['a list as a key', '}(]Nu.', 4, 'opcode SETITEMS: a list or dict as a key'],
    ['a dict as a key', '}}Ns.', 3, 'opcode SETITEM: a list or dict as a key'],
    ['no integer', 'I1x\n.', 0, 'opcode INT: its line is not an integer'],
    ['no float', 'F1.2.3\n.', 0, 'opcode FLOAT: its line is not a float'],
    ['no string', "S'a\n.", 0, 'opcode STRING: its line is not a quoted string in UTF-8'],
    ['bad UTF-8', '\\x8c\\x02a\\x80.', 3, 'a string is not UTF-8'],
    ['UTF-8 that ends early', '\\x8c\\x02a\\xc3.', 3, 'a string is not UTF-8'],
    ['a character in too many bytes', '\\x8c\\x02\\xc0\\x80.', 2, 'a string is not UTF-8'],
  ])('%s', (_, text, position, why) => {
    if (why === null) {
      // The item is not on the list's own side of the mark.
      expect(failure(raw(text)).position).toBe(position);
      return;
    }
    const error = failure(raw(text));
    expect([error.position, error.message]).toEqual([position, `byte ${position}: ${why}`]);
  });

  it('a length beyond the end of the file is a cut, and takes no memory', () => {
    for (const text of [
      'X\\xff\\xff\\xff\\xff',
      '\\x8d\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff',
      'B\\xff\\xff\\xff\\xff',
      '\\x8e\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01',
      '\\x8b\\xff\\xff\\xff\\xff',
    ]) {
      const bytes = raw(`${text}short`);
      expect(failure(bytes).message).toBe(`byte ${bytes.length}: the file ends here, before its pickle does`);
    }
  });

  it('a memo number beyond the file takes no memory', () => {
    expect(failure(raw('Nr\\xff\\xff\\xff\\x7f.')).message).toMatch(/memo number 2147483647 is beyond all reason/);
    expect(failure(raw('Np99999999999999999999999\n.')).message).toMatch(/beyond all reason/);
  });

  it('integers that nobody recorded are refused instead of taking minutes', () => {
    const wide = new Uint8Array(2 ** 21 + 6).fill(1);
    wide.set([0x8b, 0, 0, 0x20, 0]);
    expect(failure(wide).message).toBe('byte 0: opcode LONG4: an integer of 2097152 bytes');
    expect(failure(raw(`L${'9'.repeat(100_000)}\n.`)).message).toBe('byte 0: opcode LONG: its line is not an integer');
  });

  it('nesting is bounded, in every kind of container', () => {
    for (const [open, close] of [
      [']', 'a'],
      ['}N', 's'],
      ['(', 't'],
      ['(', 'l'],
    ] as const) {
      const nested = (depth: number) => raw(`${open.repeat(depth)}N${close.repeat(depth)}.`);
      expect(() => readPickle(nested(400))).not.toThrow();
      expect(failure(nested(200_000)).message).toMatch(/nested deeper than 500/);
    }
  });

  it('a list that contains itself is refused', () => {
    expect(failure(raw(']q\\x00h\\x00a.')).message).toMatch(/contains itself/);
  });
});

describe('text', () => {
  it('decodes what an encoder encoded, whatever the length', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), fc.integer({ min: 1, max: 400 }), (piece, times) => {
        const text = piece.repeat(times);
        const bytes = new TextEncoder().encode(`ab${text}cd`);
        expect(decodeUtf8(bytes, 2, bytes.length - 4)).toBe(text);
      }),
    );
  });

  it('half a surrogate pair is kept, as Python writes it', () => {
    expect(readPickle(raw('\\x8c\\x03\\xed\\xa0\\x80.'))).toBe('\ud800');
  });

  it('thousands of different strings, lists and memo numbers', () => {
    const list = Array.from({ length: 5000 }, (_, i) => [`text ${i}`, i, [`text ${i % 700}`]]);
    expect(readPickle(pickleOf([list, list], 2))).toEqual([list, list]);
    expect(readPickle(pickleOf([list, list], 4))).toEqual([list, list]);
  });
});

/** Random values as Python source beside what they are here. Bytes only where protocols 0 to 2 have a form for them. */
const values: fc.Arbitrary<PyValue> = fc.letrec<{ value: PyValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<PyValue>(null, true, false),
    fc.integer(),
    fc.maxSafeInteger(),
    fc
      .bigInt({ min: -(2n ** 300n), max: 2n ** 300n })
      .map((n) => (BigInt.asIntN(54, n) === n && n !== -(2n ** 53n) ? Number(n) : n)),
    fc.double({ noNaN: true }).filter((x) => !Object.is(x, -0)),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.array(tie('value'), { maxLength: 5 }).map((items) => new Tuple(items)),
    fc
      .uniqueArray(fc.tuple(fc.string(), tie('value')), { maxLength: 5, selector: ([key]) => key })
      .map((entries) => new Map(entries)),
  ),
})).value;

function source(value: PyValue): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'string') return `u(${JSON.stringify(Buffer.from(value, 'utf16le').toString('hex'))})`;
  if (typeof value === 'number' && !Number.isSafeInteger(value))
    return `float('${String(value).replace('Infinity', 'inf')}')`;
  if (typeof value !== 'object') return `(${value})`;
  if (value instanceof Tuple) return `(${value.items.map((item) => `${source(item)},`).join('')})`;
  if (value instanceof Map) return `{${[...value].map(([key, item]) => `${source(key)}:${source(item)}`).join()}}`;
  return `[${(value as PyValue[]).map(source).join()}]`;
}

it.skipIf(!hasPython)(
  'reads what Python writes, in every protocol and with either of its picklers (needs python3)',
  () => {
    const seed = Date.now() & 0x7fffffff;
    const samples = fc.sample(values, { seed, numRuns: 300 });
    const program = `
import io, pickle, sys
u = lambda text: bytes.fromhex(text).decode('utf-16-le', 'surrogatepass')
for line in sys.stdin:
    value = eval(line)
    for protocol in range(6):
        print(pickle.dumps(value, protocol).hex())
        file = io.BytesIO()
        pickle._Pickler(file, protocol).dump(value)
        print(file.getvalue().hex())
`;
    const lines = python(program, [], samples.map(source).join('\n')).trim().split('\n');
    expect(lines.length).toBe(samples.length * 12);
    lines.forEach((line, i) => {
      const read = readPickle(Uint8Array.from(Buffer.from(line, 'hex')));
      expect(
        read,
        `seed ${seed}, protocol ${Math.floor((i % 12) / 2)}: ${source(samples[Math.floor(i / 12)]!)}`,
      ).toEqual(samples[Math.floor(i / 12)]);
    });
  },
);

it('nothing but a SnapshotFormatError comes out of damaged bytes', () => {
  const value = [{ a: [1, 2.5, 'text', null], b: new Tuple([2n ** 70n, true]) }, 'text', Uint8Array.of(1, 2, 3)];
  const pickles = [pickleOf(value, 2), pickleOf(value, 4)];
  fc.assert(
    fc.property(
      fc.constantFrom(...pickles),
      fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 4 }),
      (bytes, changes) => {
        const damaged = bytes.slice();
        for (const [at, byte] of changes) damaged[at % damaged.length] = byte;
        try {
          readPickle(damaged);
        } catch (error) {
          expect(error).toBeInstanceOf(SnapshotFormatError);
        }
      },
    ),
    { numRuns: 20_000 },
  );
});

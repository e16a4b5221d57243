import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TraceFormatError } from '../../lib/errors.js';
import { readTrace, writeTrace } from '../../lib/snapshot/files.js';
import { formatTrace, parseTrace, TraceOp } from '../../lib/snapshot/trace.js';
import { goldenCases } from '../support/golden-cases.js';
import { REPOSITORY } from '../support/shared-data.js';

describe('parsing', () => {
  it('reads every operation', () => {
    const text = 'a 7 1024 0\nr 7 3\nf 7\ne\nh\nu\ns\ns 4\nF 0.50\nC a:1,b:[2:3]\nP\nA\nN\nb 7\nc\n';
    const trace = parseTrace(text);
    expect(trace.ops).toBe(15);
    expect(String.fromCharCode(...trace.codes)).toBe('arfehussFCPANbc');
    expect([...trace.ids.subarray(0, 3)]).toEqual([7, 7, 7]);
    expect([...trace.streams.subarray(0, 8)]).toEqual([0, 3, -1, -1, -1, -1, -1, 4]);
    expect(trace.values[0]).toBe(1024);
    expect(trace.values[8]).toBe(0.5);
    expect(trace.texts.get(9)).toBe('a:1,b:[2:3]');
    expect(formatTrace(trace)).toBe(text);
  });

  it('numbers allocations in order and finds them by any id', () => {
    const trace = parseTrace('a 9007199254740991 1 0\na 5 2 0\nf 5\nf 9007199254740991\nf 6\n');
    expect([...trace.slots]).toEqual([0, 1, 1, 0, -1]);
    expect(trace.allocations).toBe(2);
  });

  it('an id before its allocation is not that allocation', () => {
    expect([...parseTrace('f 1\na 1 8 0\nf 1\n').slots]).toEqual([-1, 0, 0]);
  });

  it('keeps comments and blank lines where they were, and does not count them', () => {
    const text = '# head\n\na 1 8 0\n# between\nf 1\n# end\n';
    const trace = parseTrace(text);
    expect(trace.ops).toBe(2);
    expect(formatTrace(trace)).toBe(text);
  });

  it('takes a missing last line feed, and carriage returns', () => {
    expect(formatTrace(parseTrace('a 1 8 0\r\nf 1'))).toBe('a 1 8 0\nf 1\n');
  });

  it('takes an empty trace', () => {
    expect(parseTrace('').ops).toBe(0);
    expect(formatTrace(parseTrace(''))).toBe('');
  });

  it.each([
    ['x 1', /"x 1" is no operation/],
    ['aa 1 2 3', /id is missing/],
    ['a', /id is missing/],
    ['a 1', /bytes is missing/],
    ['a 1 2', /stream is missing/],
    ['a 1 2 3 4', /too much/],
    ['a 1 2 3 ', /too much/],
    ['a  1 2 3', /id is missing/],
    [' a 1 2 3', /no operation/],
    ['a 0 2 3', /positive/],
    ['a -1 2 3', /id is missing or not a plain integer/],
    ['a 1 -2 3', /bytes is missing or not a plain integer/],
    ['a 1 2.5 3', /bytes is missing or not a plain integer/],
    ['a 1 1e3 3', /bytes is missing or not a plain integer/],
    ['a 1 0x10 3', /bytes is missing or not a plain integer/],
    ['a 1 9007199254740992 0', /bytes is beyond/],
    ['a 1 99999999999999999999999999 0', /bytes is beyond/],
    ['a 1 2 2147483648', /stream is beyond/],
    ['a 01 2 3', /leading zero/],
    ['a\t1\t2\t3', /id is missing/],
    ['f', /id is missing/],
    ['f 1 2', /too much/],
    ['f one', /not a plain integer/],
    ['r 1', /stream is missing/],
    ['e 1', /too much/],
    ['s x', /not a plain integer/],
    ['F', /fraction/],
    ['F -0.5', /fraction/],
    ['F NaN', /fraction/],
    ['F 0.5 0.5', /fraction/],
    ['F 1e999', /fraction/],
    ['Cx', /space is missing/],
    ['N 1', /too much/],
    ['b', /id is missing/],
    ['{"segments": []}', /no operation/],
    ['\u0080\u0002}q', /no operation/],
  ])('refuses %j with its line', (line, message) => {
    const parse = () => parseTrace(`# comment\na 100 512 0\n${line}\nf 100\n`);
    expect(parse).toThrow(TraceFormatError);
    expect(parse).toThrow(message);
    expect(parse).toThrow(expect.objectContaining({ line: 3, code: 'ERR_CUDALLOC_TRACE_FORMAT' }));
  });

  it('refuses a second allocation of an id', () => {
    expect(() => parseTrace('a 1 8 0\nf 1\na 1 8 0\n')).toThrow(/^line 3: id 1 is allocated a second time/);
  });

  it('shows neither control characters nor endless lines in its messages', () => {
    const message = (() => {
      try {
        parseTrace(`\u001b[31m${'x'.repeat(100_000)}`);
        return '';
      } catch (error) {
        return (error as Error).message;
      }
    })();
    expect(message).toMatch(/^[\x20-\x7e]{20,300}$/);
  });

  it('gives back any text it accepts', () => {
    const id = fc.integer({ min: 1, max: 40 });
    const stream = fc.integer({ min: 0, max: 2 ** 31 - 1 });
    const line = fc.oneof(
      fc.tuple(id, fc.maxSafeNat(), stream).map((numbers) => `a ${numbers.join(' ')}`),
      fc.tuple(id, stream).map((numbers) => `r ${numbers.join(' ')}`),
      id.map((n) => `f ${n}`),
      id.map((n) => `b ${n}`),
      stream.map((n) => `s ${n}`),
      fc.float({ min: 0, max: 1, noNaN: true }).map((n) => `F ${Math.abs(n)}`),
      fc.stringMatching(/^[a-z0-9:,[\]>. _]{1,20}$/).map((text) => `C ${text}`),
      fc.constantFrom('e', 'h', 'u', 's', 'P', 'A', 'N', 'c', '', '# a comment'),
    );
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        const seen = new Set<string>();
        const unique = lines.filter(
          (text) => !text.startsWith('a ') || (!seen.has(idOf(text)) && seen.add(idOf(text))),
        );
        const text = unique.map((one) => `${one}\n`).join('');
        expect(formatTrace(parseTrace(text))).toBe(text);
      }),
      { numRuns: 300 },
    );
  });
});

function idOf(line: string): string {
  return line.split(' ')[1] as string;
}

describe('files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cudalloc-trace-'));
  const plain = join(folder, 'trace.txt');
  const packed = join(folder, 'packed.gz');
  const text = '# three\na 1 8 0\nr 1 2\nf 1\n';

  beforeAll(() => writeFileSync(plain, text));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('writes plain text, or gzip by its name, and reads both', () => {
    writeTrace(readTrace(plain), packed);
    expect(gunzipSync(readFileSync(packed)).toString()).toBe(text);
    writeTrace(readTrace(packed), plain);
    expect(readFileSync(plain, 'utf8')).toBe(text);
  });

  it('tells gzip by its content', () => {
    const misnamed = join(folder, 'misnamed.txt');
    writeFileSync(misnamed, gzipSync(text));
    expect(readTrace(misnamed).ops).toBe(3);
  });

  it('names a damaged gzip file', () => {
    const damaged = join(folder, 'damaged.gz');
    writeFileSync(damaged, gzipSync(text).subarray(0, 20));
    expect(() => readTrace(damaged)).toThrow(TraceFormatError);
    expect(() => readTrace(damaged)).toThrow(/gzip data are damaged/);
  });

  it.each([
    ['a pickle', Buffer.from([0x80, 2, 0x7d])],
    ['a zip archive', Buffer.from('PK\u0003\u0004')],
    ['JSON', Buffer.from('{"segments":[]}')],
    ['a packed pickle', gzipSync(Buffer.from([0x80, 5, 0x95]))],
  ])('says that %s is not a trace', (_, bytes) => {
    const other = join(folder, 'other');
    writeFileSync(other, bytes);
    expect(() => readTrace(other)).toThrow(/not a trace/);
  });

  it('passes on that a file is missing', () => {
    expect(() => readTrace(join(folder, 'nowhere'))).toThrow(expect.objectContaining({ code: 'ENOENT' }));
  });
});

describe('golden traces', () => {
  const cases = goldenCases(join(REPOSITORY, 'test/golden/data'));
  const paths = [...new Set(cases.map(({ tracePath }) => tracePath))];

  it(`gives back the text of all ${paths.length}`, () => {
    expect(paths.length).toBeGreaterThan(150);
    for (const path of paths) {
      const bytes = readFileSync(path);
      const trace = readTrace(path);
      expect(formatTrace(trace)).toBe((path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString());
      expect(trace.codes.every((code) => Object.values<number>(TraceOp).includes(code))).toBe(true);
    }
  });
});

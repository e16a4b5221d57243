import { describe, expect, it } from 'vitest';
import { formatJsonSnapshot } from '../../../lib/snapshot/json/write-json.js';
import { Tuple } from '../../../lib/snapshot/model.js';
import { parseSnapshot } from '../../../lib/snapshot/read-snapshot.js';
import { type Plain, type PlainDict, pickleOf } from '../../support/pickle-bytes.js';
import { cutEverywhere, failure, small, written } from '../../support/small-snapshot.js';

describe('JSON', () => {
  /** As json.dumps writes it. */
  function json(value: Plain): string {
    if (typeof value === 'bigint') return String(value);
    if (value instanceof Tuple) return json(value.items);
    if (Array.isArray(value)) return `[${(value as Plain[]).map(json).join(', ')}]`;
    if (typeof value !== 'object' || value === null) return JSON.stringify(value);
    const entries = Object.entries(value as PlainDict).map(([key, item]) => `${JSON.stringify(key)}: ${json(item)}`);
    return `{${entries.join(', ')}}`;
  }
  const text = json(small());
  const bytesOf = (source: string): Uint8Array => Uint8Array.from(Buffer.from(source));

  it("in PyTorch's layout is the same as the pickle", () => {
    expect(text).toContain('18446744073709551615');
    const expected = written(parseSnapshot(pickleOf(small())));
    expect(written(parseSnapshot(bytesOf(text)))).toEqual(expected);
    expect(written(parseSnapshot(bytesOf(`\ufeff \n\t${text}\n`)))).toEqual(expected);
  });

  it('a bare list of segments', () => {
    expect(parseSnapshot(bytesOf(json(small().segments as Plain))).segments.length).toBe(3);
  });

  it('integers beyond 2^53 lose no digit, and texts with digits stay as they are', () => {
    const notes = {
      large: 9007199254740993n,
      negative: -123456789012345678901n,
      fits: 9007199254740991,
      text: 'int:9007199254740993',
      digits: 'an id 123456789012345678901 in "quotes"',
      float: 0.12345678901234566,
    };
    const snapshot = parseSnapshot(bytesOf(json({ segments: [], notes })));
    expect(snapshot.extra!.get('notes')).toEqual(new Map(Object.entries(notes)));
    expect(parseSnapshot(bytesOf('{"segments": [], "x": [1e400, 12345678901234567000.5]}')).extra!.get('x')).toEqual([
      Number.POSITIVE_INFINITY,
      12345678901234567000,
    ]);
  });

  it('cut at any byte, and what is salvaged of it', () => {
    const sizes = cutEverywhere(bytesOf(text));
    sizes.forEach((size, i) => {
      expect(size).toBeGreaterThanOrEqual(sizes[i - 1] ?? 0);
    });
    expect([sizes[0], sizes.at(-1)]).toEqual([0, 9]);
  });

  it('our own', () => {
    const snapshot = parseSnapshot(pickleOf(small()));
    const own = [...formatJsonSnapshot(snapshot)].join('');
    expect(written(parseSnapshot(bytesOf(own)))).toEqual(written(snapshot));
    expect(failure(() => parseSnapshot(bytesOf(own.slice(0, 500)))).position).toBe(500);
    failure(() => parseSnapshot(bytesOf(own.slice(0, 40)), { salvage: true }));
  });

  it('nesting is bounded', () => {
    const deep = `{"segments": [], "x": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    expect(failure(() => parseSnapshot(bytesOf(deep))).message).toMatch(/nested deeper than 500/);
  });
});

// Python values as JSON, exactly: what JSON has no form for is an object with one key that says what it is. Must not know snapshots.

import { SnapshotFormatError } from '../../errors.js';
import { type PyDict, type PyList, type PyValue, Tuple } from '../values.js';
import { arrayAt, fail, objectAt, type Path, stringAt } from './fields.js';

/** Nesting beyond this is no snapshot's, and would overflow the stack. */
const MAX_DEPTH = 1000;

/**
 * The JSON text of a value. Null, booleans, numbers, strings and lists are themselves; the others are `{"int": "18446744073709551615"}`,
 * `{"float": "nan"}` (`inf`, `-inf`, `-0`), `{"tuple": [...]}`, `{"dict": [[key, value], ...]}`, `{"bytes": "00ff"}`. Linear.
 * @throws SnapshotFormatError for a value that contains itself
 */
export function formatValue(value: PyValue): string {
  return format(value, 0);
}

function format(value: PyValue, depth: number): string {
  if (depth > MAX_DEPTH)
    throw new SnapshotFormatError(`a value is nested more than ${MAX_DEPTH} deep, or contains itself`);
  const inside = (item: PyValue): string => format(item, depth + 1);
  if (typeof value === 'bigint') return `{"int":"${value}"}`;
  if (typeof value === 'number') return formatNumber(value);
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (value instanceof Uint8Array) return `{"bytes":"${hexadecimal(value)}"}`;
  if (value instanceof Tuple) return `{"tuple":[${value.items.map(inside).join(',')}]}`;
  if (value instanceof Map) {
    const entries = [...(value as PyDict)].map(([key, item]) => `[${inside(key)},${inside(item)}]`);
    return `{"dict":[${entries.join(',')}]}`;
  }
  return `[${(value as PyList).map(inside).join(',')}]`;
}

/** The value of parsed JSON. @throws SnapshotFormatError naming the place */
export function parseValue(json: unknown, path: Path): PyValue {
  if (json === null || typeof json === 'boolean' || typeof json === 'number' || typeof json === 'string') return json;
  if (path.length > MAX_DEPTH) fail(path.slice(0, 5), 'a deeply nested value', `at most ${MAX_DEPTH} levels`);
  if (Array.isArray(json)) return parseList(json, path);
  const entries = Object.entries(objectAt(json, path));
  const [kind, content] = entries[0] ?? ['', null];
  if (entries.length !== 1) fail(path, `an object with ${entries.length} keys`, 'one key that says what it is');
  const inside = [...path, kind];
  switch (kind) {
    case 'int':
      return parseInteger(content, inside);
    case 'float':
      return parseSpecial(content, inside);
    case 'bytes':
      return parseBytes(content, inside);
    case 'tuple':
      return new Tuple(parseList(arrayAt(content, inside), inside));
    case 'dict':
      return parseDict(arrayAt(content, inside), inside);
  }
  return fail(path, `an object with the key ${JSON.stringify(kind)}`, 'int, float, bytes, tuple or dict');
}

function formatNumber(value: number): string {
  if (Number.isFinite(value) && !Object.is(value, -0)) return String(value);
  const name = Number.isNaN(value) ? 'nan' : value === 0 ? '-0' : value > 0 ? 'inf' : '-inf';
  return `{"float":"${name}"}`;
}

const FLOATS: ReadonlyMap<unknown, number> = new Map([
  ['nan', Number.NaN],
  ['inf', Number.POSITIVE_INFINITY],
  ['-inf', Number.NEGATIVE_INFINITY],
  ['-0', -0],
]);

function parseSpecial(content: unknown, path: Path): number {
  return FLOATS.get(content) ?? fail(path, content, [...FLOATS.keys()].join(', '));
}

/** Longer texts are no integers that anybody recorded, and take long to read. */
const MAX_DIGITS = 10_000;

function parseInteger(content: unknown, path: Path): bigint {
  const text = stringAt(content, path);
  if (!/^-?[0-9]+$/.test(text) || text.length > MAX_DIGITS) fail(path, content, 'a whole number as text');
  return BigInt(text);
}

function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function parseBytes(content: unknown, path: Path): Uint8Array {
  const text = stringAt(content, path);
  if (!/^([0-9a-f]{2})*$/.test(text)) fail(path, content, 'bytes as hexadecimal digits');
  return Uint8Array.from({ length: text.length / 2 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16));
}

function parseList(items: readonly unknown[], path: Path): PyValue[] {
  return items.map((item, i) => parseValue(item, [...path, i]));
}

function parseDict(entries: readonly unknown[], path: Path): PyDict {
  return new Map(
    entries.map((entry, i) => {
      const pair = arrayAt(entry, [...path, i]);
      if (pair.length !== 2) fail([...path, i], entry, 'a key and a value');
      return [parseValue(pair[0], [...path, i, 0]), parseValue(pair[1], [...path, i, 1])];
    }),
  );
}

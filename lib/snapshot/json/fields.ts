// Checks of parsed JSON: a value of the wrong kind becomes an error that names its place, never a TypeError later. Knows no field's meaning.

import { SnapshotFormatError } from '../../errors.js';

/** Where a value is: keys and positions from the outside. */
export type Path = readonly (string | number)[];

/** @throws SnapshotFormatError always: `segments[3].stream is "x"; expected a number`. */
export function fail(path: Path, value: unknown, expected: string): never {
  throw new SnapshotFormatError(`${formatPath(path)} is ${describe(value)}; expected ${expected}`);
}

export function objectAt(value: unknown, path: Path): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) fail(path, value, 'an object');
  return value as Readonly<Record<string, unknown>>;
}

export function arrayAt(value: unknown, path: Path): readonly unknown[] {
  return Array.isArray(value) ? value : fail(path, value, 'a list');
}

export function stringAt(value: unknown, path: Path): string {
  return typeof value === 'string' ? value : fail(path, value, 'a text');
}

export function booleanAt(value: unknown, path: Path): boolean {
  return typeof value === 'boolean' ? value : fail(path, value, 'true or false');
}

export function numberAt(value: unknown, path: Path): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : fail(path, value, 'a number');
}

/** A whole number from 0 to below `limit`: a position in something that has `limit` items. */
export function positionAt(value: unknown, limit: number, path: Path): number {
  if (Number.isInteger(value) && (value as number) >= 0 && (value as number) < limit) return value as number;
  return fail(
    path,
    value,
    limit === 0 ? 'nothing, as there is nothing to name' : `a whole number from 0 to ${limit - 1}`,
  );
}

export function oneOfAt<T extends string>(value: unknown, choices: readonly T[], path: Path): T {
  return choices.find((choice) => choice === value) ?? fail(path, value, choices.join(' or '));
}

export function stringsAt(value: unknown, path: Path): string[] {
  return arrayAt(value, path).map((item, i) => stringAt(item, [...path, i]));
}

/** Checks every item of a long list. `isGood` is asked first, so that no path is made for what is right. */
export function columnAt(
  value: unknown,
  length: number,
  isGood: (item: unknown) => boolean,
  path: Path,
  expected: string,
): readonly number[] {
  const items = arrayAt(value, path);
  if (items.length !== length) fail(path, `a list of ${items.length}`, `one of ${length}, as \`length\` says`);
  for (let i = 0; i < length; i++) if (!isGood(items[i])) fail([...path, i], items[i], expected);
  return items as readonly number[];
}

function formatPath(path: Path): string {
  const [first = 'the document', ...rest] = path;
  return rest.reduce<string>(
    (text, step) => text + (typeof step === 'number' ? `[${step}]` : `.${step}`),
    String(first),
  );
}

const SHOWN = 40;

function describe(value: unknown): string {
  if (value === undefined) return 'missing';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'string' && /^an? /.test(value)) return value;
  const text = JSON.stringify(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
}

// Reads the events of a device from our own JSON: columns, checked item by item. Must not know the rest of the document.

import { ACTIONS, DeviceTrace, EVENT_LAYOUT, type ExtraColumn, type PyValue } from '../model.js';
import { arrayAt, columnAt, fail, objectAt, type Path, positionAt, stringsAt } from './fields.js';
import { parseValue } from './values.js';

const MAX_ACTIONS = 256;
const MAX_LAYOUTS = 2 ** 16;
const MAX_EVENTS = 2 ** 31;

/** @param stackNumbers number of a stack in the table, by its number in the document. @throws SnapshotFormatError */
export function parseJsonTrace(json: unknown, stackNumbers: readonly number[], path: Path): DeviceTrace {
  const fields = objectAt(json, path);
  const length = positionAt(fields.length, MAX_EVENTS, [...path, 'length']);
  const actionNames = actionNamesAt(fields.action_names, [...path, 'action_names']);
  const layouts = layoutsAt(fields.layouts, [...path, 'layouts']);
  const numbers = (key: string): Float64Array =>
    Float64Array.from(columnAt(fields[key], length, Number.isFinite, [...path, key], 'a number'));
  const positions = (value: unknown, key: string, limit: number): readonly number[] =>
    columnAt(value, length, (item) => isPosition(item, limit), [...path, key], `a whole number below ${limit}`);
  const times = columnAt(
    fields.times_us,
    length,
    (item) => item === null || Number.isFinite(item),
    [...path, 'times_us'],
    'a number or null',
  );
  return new DeviceTrace({
    length,
    actions: Uint8Array.from(positions(fields.actions, 'actions', actionNames.length)),
    actionNames,
    addresses: numbers('addresses'),
    sizes: numbers('sizes'),
    streams: numbers('streams'),
    times: Float64Array.from(times, (time: number | null) => time ?? Number.NaN),
    stacks: Uint32Array.from(
      positions(fields.stacks, 'stacks', stackNumbers.length),
      (stack) => stackNumbers[stack] as number,
    ),
    extras: new Map(
      Object.entries(objectAt(fields.extras, [...path, 'extras'])).map(([key, column]) => [
        key,
        extraColumnAt(column, length, [...path, 'extras', key]),
      ]),
    ),
    odd: fields.odd === undefined ? new Map() : oddAt(fields.odd, length, [...path, 'odd']),
    layouts,
    layoutOf:
      fields.layout_of === undefined
        ? null
        : Uint16Array.from(positions(fields.layout_of, 'layout_of', layouts.length)),
  });
}

function isPosition(item: unknown, limit: number): boolean {
  return Number.isInteger(item) && (item as number) >= 0 && (item as number) < limit;
}

/** Readers know the first by their position. */
export function actionNamesAt(json: unknown, path: Path): readonly string[] {
  const names = stringsAt(json, path);
  for (const [i, name] of ACTIONS.entries()) if (names[i] !== name) fail([...path, i], names[i], JSON.stringify(name));
  if (names.length > MAX_ACTIONS) fail(path, `a list of ${names.length}`, `at most ${MAX_ACTIONS}`);
  return names;
}

export function layoutsAt(json: unknown, path: Path): readonly (readonly string[])[] {
  if (json === undefined) return [EVENT_LAYOUT];
  const rows = arrayAt(json, path).map((row, i) => stringsAt(row, [...path, i]));
  if (rows.length === 0 || rows.length > MAX_LAYOUTS) fail(path, json, `1 to ${MAX_LAYOUTS} rows of keys`);
  return rows;
}

function extraColumnAt(json: unknown, length: number, path: Path): ExtraColumn {
  const fields = objectAt(json, path);
  const values = arrayAt(fields.values, [...path, 'values']).map((value, i) =>
    parseValue(value, [...path, 'values', i]),
  );
  const codes = columnAt(
    fields.codes,
    length,
    (item) => isPosition(item, values.length),
    [...path, 'codes'],
    `a whole number below ${values.length}`,
  );
  return { codes: Uint32Array.from(codes), values };
}

function oddAt(json: unknown, length: number, path: Path): ReadonlyMap<number, ReadonlyMap<string, PyValue>> {
  const odd = new Map<number, ReadonlyMap<string, PyValue>>();
  for (const [i, row] of arrayAt(json, path).entries()) {
    const [event, values] = arrayAt(row, [...path, i]);
    const fields = Object.entries(objectAt(values, [...path, i, 1]));
    odd.set(
      positionAt(event, length, [...path, i, 0]),
      new Map(fields.map(([key, value]) => [key, parseValue(value, [...path, i, 1, key])])),
    );
  }
  return odd;
}

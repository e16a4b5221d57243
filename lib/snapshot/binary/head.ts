// The head of the binary form: what comes once or seldom (names, settings, unknown keys, values that no column holds), as a small JSON
// document. Everything is checked when it is read. Must not know bytes, columns or objects of the model that come in numbers.

import { arrayAt, booleanAt, fail, objectAt, type Path, positionAt, stringAt, stringsAt } from '../json/fields.js';
import { actionNamesAt, layoutsAt } from '../json/trace.js';
import { formatValue, parseValue } from '../json/values.js';
import { type DeviceTrace, EVENT_LAYOUT, type PyValue } from '../model.js';

/** What the file begins with: no pickle, JSON or text does, and a transfer as text changes it. */
export const MAGIC = Uint8Array.from([0x93, ...new TextEncoder().encode('cudalloc\r\n\x1a')]);
export const BINARY_VERSION = 1;

/** Things of which there are many, in columns. */
export const TABLES = ['frames', 'stacks', 'segments', 'blocks', 'history'] as const;
export type Table = (typeof TABLES)[number];

/** The number columns of a table, in the order in which they are written. */
export const SEGMENT_NUMBERS = [
  'device',
  'address',
  'totalSize',
  'allocatedSize',
  'activeSize',
  'requestedSize',
  'stream',
] as const;
export const BLOCK_NUMBERS = ['address', 'size', 'requestedSize'] as const;
export const HISTORY_NUMBERS = ['address', 'realSize'] as const;

/** The choices of columns of positions, in the order in which they are counted. */
export const SEGMENT_TYPES = ['small', 'large'] as const;
export const BLOCK_STATES = ['active_allocated', 'active_pending_free', 'inactive'] as const;

export type Extra = ReadonlyMap<string, PyValue>;

/** What is said of a trace beside its columns. */
export interface TraceHead extends Pick<DeviceTrace, 'length' | 'actionNames' | 'layouts' | 'odd'> {
  /** Whether there is a column of positions in `layouts`. */
  readonly hasLayoutOf: boolean;
  /** Values of the other keys; the columns have the codes. */
  readonly extras: readonly (readonly [key: string, values: readonly PyValue[]])[];
}

export interface Head {
  readonly traceOverflowed: boolean | null;
  readonly salvaged: string | undefined;
  /** Position in `layouts` plus one; 0: none. */
  readonly layout: number;
  readonly extra: Extra | undefined;
  readonly counts: Readonly<Record<Table, number>>;
  readonly layouts: readonly (readonly string[])[];
  readonly strings: readonly string[];
  /** Unknown keys, by table and row. */
  readonly extras: Readonly<Record<Table, ReadonlyMap<number, Extra>>>;
  /** Line numbers that no column holds (beyond 2^53), by frame. */
  readonly lines: ReadonlyMap<number, number | bigint>;
  readonly traces: readonly TraceHead[];
}

/** Linear. @throws SnapshotFormatError for a value that contains itself */
export function formatHead(head: Head): string {
  const { salvaged, extra, extras, traces } = head;
  return object({
    trace_overflowed: JSON.stringify(head.traceOverflowed),
    ...(salvaged !== undefined && { salvaged: JSON.stringify(salvaged) }),
    layout: String(head.layout),
    ...(extra !== undefined && { extra: formatValue(extra) }),
    counts: JSON.stringify(head.counts),
    layouts: JSON.stringify(head.layouts),
    strings: JSON.stringify(head.strings),
    extras: object(Object.fromEntries(TABLES.map((table) => [table, pairs(extras[table], formatValue)]))),
    lines: pairs(head.lines, formatValue),
    device_traces: `[${traces.map(formatTrace).join(',')}]`,
  });
}

function formatTrace({ length, actionNames, layouts, hasLayoutOf, extras, odd }: TraceHead): string {
  return object({
    length: String(length),
    action_names: JSON.stringify(actionNames),
    // Left out where no event was read from a file: those have the keys of today's PyTorch.
    ...((layouts.length > 1 || layouts[0] !== EVENT_LAYOUT) && { layouts: JSON.stringify(layouts) }),
    layout_of: String(hasLayoutOf),
    extras: `[${extras.map(([key, values]) => `[${JSON.stringify(key)},${formatValue(values)}]`).join(',')}]`,
    odd: pairs(odd, formatValue),
  });
}

function object(members: Readonly<Record<string, string>>): string {
  return `{${Object.entries(members)
    .map(([key, json]) => `"${key}":${json}`)
    .join(',')}}`;
}

function pairs<T>(map: ReadonlyMap<number, T>, format: (value: T) => string): string {
  return `[${Array.from(map, ([row, value]) => `[${row},${format(value)}]`).join(',')}]`;
}

const MOST = 2 ** 32;

/** Linear. @throws SnapshotFormatError naming the field that is wrong */
export function parseHead(json: unknown): Head {
  const root = objectAt(json, []);
  const counts = tablesOf((table) => positionAt(objectAt(root.counts, ['counts'])[table], MOST, ['counts', table]));
  const layouts = arrayAt(root.layouts, ['layouts']).map((row, i) => stringsAt(row, ['layouts', i]));
  const { trace_overflowed: overflowed, salvaged, extra } = root;
  return {
    traceOverflowed: overflowed === null ? null : booleanAt(overflowed, ['trace_overflowed']),
    salvaged: salvaged === undefined ? undefined : stringAt(salvaged, ['salvaged']),
    layout: positionAt(root.layout, layouts.length + 1, ['layout']),
    extra: extra === undefined ? undefined : extraAt(extra, ['extra']),
    counts,
    layouts,
    strings: stringsAt(root.strings, ['strings']),
    extras: tablesOf((table) =>
      pairsAt(objectAt(root.extras, ['extras'])[table], counts[table], ['extras', table], extraAt),
    ),
    lines: pairsAt(root.lines, counts.frames, ['lines'], lineAt),
    traces: arrayAt(root.device_traces, ['device_traces']).map((trace, i) => parseTrace(trace, ['device_traces', i])),
  };
}

function parseTrace(json: unknown, path: Path): TraceHead {
  const fields = objectAt(json, path);
  const length = positionAt(fields.length, MOST, [...path, 'length']);
  return {
    length,
    actionNames: actionNamesAt(fields.action_names, [...path, 'action_names']),
    layouts: layoutsAt(fields.layouts, [...path, 'layouts']),
    hasLayoutOf: booleanAt(fields.layout_of, [...path, 'layout_of']),
    extras: arrayAt(fields.extras, [...path, 'extras']).map((item, i) => {
      const here = [...path, 'extras', i];
      const [key, values] = arrayAt(item, here);
      return [stringAt(key, here), arrayAt(values, here).map((value, code) => parseValue(value, [...here, code]))];
    }),
    odd: pairsAt(fields.odd, length, [...path, 'odd'], extraAt),
  };
}

function tablesOf<T>(of: (table: Table) => T): Readonly<Record<Table, T>> {
  return Object.fromEntries(TABLES.map((table) => [table, of(table)])) as Record<Table, T>;
}

function pairsAt<T>(
  json: unknown,
  rows: number,
  path: Path,
  valueAt: (json: unknown, path: Path) => T,
): ReadonlyMap<number, T> {
  return new Map(
    arrayAt(json, path).map((item, i) => {
      const [row, value] = arrayAt(item, [...path, i]);
      return [positionAt(row, rows, [...path, i, 0]), valueAt(value, [...path, i, 1])];
    }),
  );
}

function extraAt(json: unknown, path: Path): Extra {
  const value = parseValue(json, path);
  if (!(value instanceof Map) || ![...value.keys()].every((key) => typeof key === 'string'))
    return fail(path, json, 'a dict with text keys');
  return value as Extra;
}

function lineAt(json: unknown, path: Path): number | bigint {
  const value = parseValue(json, path);
  return typeof value === 'number' || typeof value === 'bigint' ? value : fail(path, json, 'a number');
}

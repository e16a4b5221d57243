// When a replay's report equals a golden file: everything the golden file says is the same, apart from what it leaves out
// (`trace_complete`) and from what its meta.json declares to depend on an order that is not specified.

import type { ReplayReport } from '../../lib/analysis/replay/format.js';
import type { GoldenExpected, GoldenMeta } from './golden-cases.js';

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type JsonObject = { [key: string]: Json };
type TraceEvent = ReplayReport['trace'][number];

const LEFT_OUT: ReadonlySet<string> = new Set(['alloc', 'free_requested', 'free_completed']);
const ANY_TRACE_ORDER = 'trace order within one op';
const LOOSE_STAT = /^(checkpoint )?stats\.(inactive_split|inactive_split_bytes)$/;
const HISTORY_NUMBERS = ['peak', 'allocated', 'freed'];

/** The first difference as `path: expected ..., got ...`, or null when the two are equal. */
export function compareReplay(expected: GoldenExpected, actual: ReplayReport, meta: GoldenMeta): string | null {
  const parts = meta.order_sensitive ? (meta.order_sensitive_parts ?? []) : [];
  const wanted = normalize(expected, expected.trace_complete, parts);
  const got = normalize(actual, expected.trace_complete, parts);
  for (const key of Object.keys(wanted)) {
    const difference = firstDifference(wanted[key], got[key], key);
    if (difference !== null) return difference;
  }
  return null;
}

function normalize(report: GoldenExpected | ReplayReport, complete: boolean, parts: readonly string[]): JsonObject {
  const { trace_complete: _, ...rest } = JSON.parse(JSON.stringify(report)) as GoldenExpected;
  let trace = complete ? [...rest.trace] : rest.trace.filter(([, action]) => !LEFT_OUT.has(action));
  const result = { ...rest } as unknown as JsonObject;
  for (const part of parts) {
    if (part === ANY_TRACE_ORDER) {
      trace = sortedWithinOperations(trace);
      continue;
    }
    const [, checkpoint, stat] = LOOSE_STAT.exec(part) ?? [];
    if (stat === undefined) throw new Error(`meta.json names an unknown order-sensitive part: ${part}`);
    if (checkpoint === undefined) dropHistoryNumbers(result.stats, stat);
    else for (const entry of rest.checkpoints as unknown as JsonObject[]) dropHistoryNumbers(entry.stats, stat);
  }
  result.trace = trace as unknown as Json;
  return result;
}

function sortedWithinOperations(trace: TraceEvent[]): TraceEvent[] {
  return trace
    .map((event) => ({ event, text: JSON.stringify(event) }))
    .sort((a, b) => a.event[0] - b.event[0] || (a.text < b.text ? -1 : Number(a.text > b.text)))
    .map(({ event }) => event);
}

function dropHistoryNumbers(stats: Json | undefined, stat: string): void {
  for (const pool of Object.values((stats as JsonObject)[stat] as JsonObject)) {
    for (const name of HISTORY_NUMBERS) delete (pool as JsonObject)[name];
  }
}

function firstDifference(wanted: Json | undefined, got: Json | undefined, path: string): string | null {
  if (isContainer(wanted) && isContainer(got) && Array.isArray(wanted) === Array.isArray(got)) {
    const keys = Object.keys({ ...wanted, ...got });
    for (const key of keys) {
      const at = Array.isArray(wanted) ? `${path}[${key}]` : `${path}.${key}`;
      const difference = firstDifference((wanted as JsonObject)[key], (got as JsonObject)[key], at);
      if (difference !== null) return difference;
    }
    return null;
  }
  return wanted === got ? null : `${path}: expected ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`;
}

function isContainer(value: Json | undefined): value is readonly Json[] | JsonObject {
  return typeof value === 'object' && value !== null;
}

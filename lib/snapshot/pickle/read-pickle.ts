// A pickled snapshot to the model: runs the pickle with events and frames going straight into columns, then reads the rest. Must not know
// files.

import { SnapshotFormatError } from '../../errors.js';
import { checkKeys, makeSnapshot, salvageNote } from '../layout/read-document.js';
import { pushEvent } from '../layout/read-events.js';
import { FrameReader } from '../layout/read-frames.js';
import { type DeviceTrace, DeviceTraceBuilder, type PyList, type PyValue, type Snapshot } from '../model.js';
import { CELL, DICT, EVENT, LIST, type PickleArena } from './arena.js';
import type { Stop } from './cursor.js';
import { PickleMachine } from './machine.js';
import { SnapshotRows } from './rows.js';
import { closeBegun } from './salvage.js';

/**
 * Reads a pickle of protocol 0 to 5. Bytes behind its end are ignored, as Python does. Linear.
 * @throws SnapshotFormatError
 */
export function parsePickle(bytes: Uint8Array, salvage: boolean): Snapshot {
  const rows = new SnapshotRows(new FrameReader());
  const machine = new PickleMachine(bytes, rows);
  const result = machine.run();
  if (typeof result === 'number') return readRoot(machine.arena, rows, result);
  const root = salvage && result.kind !== 'refused' ? closeBegun(machine) : null;
  if (root === null) throw result.error;
  return salvaged(machine.arena, rows, root, result);
}

function salvaged(arena: PickleArena, rows: SnapshotRows, root: number, stop: Stop): Snapshot {
  if (!isDict(arena, root) || arena.items(root).length === 0) {
    if (!isList(arena, root) || arena.items(root).length === 0) throw stop.error;
  }
  const snapshot = readRoot(arena, rows, root);
  return { ...snapshot, salvaged: salvageNote(stop.kind, stop.error.position, stop.error.message, snapshot) };
}

function readRoot(arena: PickleArena, rows: SnapshotRows, root: number): Snapshot {
  const { frames } = rows;
  if (isList(arena, root)) {
    const segments = arena.value(root) as PyList;
    if (!segments.every((item) => item instanceof Map && item.has('blocks')))
      throw new SnapshotFormatError('this pickle is not a memory snapshot: a list, but not of segments');
    return makeSnapshot({ layout: [], values: new Map([['segments', segments]]), traces: null, frames });
  }
  if (!isDict(arena, root))
    throw new SnapshotFormatError(`this pickle is not a memory snapshot: ${nameOf(arena.value(root))}`);
  const entries = new Map<PyValue, number>();
  const items = arena.items(root);
  for (let i = 0; i < items.length; i += 2) entries.set(arena.value(items[i] as number), items[i + 1] as number);
  const keys = [...entries.keys()];
  const kindOf = (key: string) => {
    const handle = entries.get(key);
    return handle === undefined ? null : isList(arena, handle) ? 'list' : 'other';
  };
  checkKeys(keys, kindOf, 'pickle');
  const traces = entries.get('device_traces');
  const values = new Map<string, PyValue>();
  for (const [key, handle] of entries) if (key !== 'device_traces') values.set(key as string, arena.value(handle));
  return makeSnapshot({
    layout: keys as string[],
    values,
    traces: traces === undefined ? null : arena.items(traces).map((list) => traceOf(arena, rows, list)),
    frames,
  });
}

function isList(arena: PickleArena, handle: number): boolean {
  return (handle & 3) === CELL && (arena.content(handle) & 7) === LIST;
}

function isDict(arena: PickleArena, handle: number): boolean {
  return (handle & 3) === CELL && (arena.content(handle) & 7) === DICT;
}

/** The trace of a device. Where its events were taken in one after the other, their columns. */
function traceOf(arena: PickleArena, rows: SnapshotRows, handle: number): DeviceTrace {
  if (!isList(arena, handle)) throw new SnapshotFormatError('device_traces is not a list of lists of events');
  const items = arena.items(handle);
  const first = arena.content(items[0] ?? 0) >> 3;
  if (items.length > 0 && items.every((item, i) => arena.content(item) === (((first + i) << 3) | EVENT))) {
    const { events } = rows;
    return items.length === events.length ? events : events.slice(first, first + items.length);
  }
  const builder = new DeviceTraceBuilder(items.length);
  for (const item of items) pushEvent(builder, arena.value(item), rows.frames);
  return builder.build();
}

/** What a value is, in Python's words. */
function nameOf(value: PyValue): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return 'a bool';
  if (typeof value === 'string') return 'a str';
  if (typeof value !== 'object') return 'a number';
  if (value instanceof Map) return 'a dict with other keys';
  return value instanceof Uint8Array ? 'bytes' : Array.isArray(value) ? 'a list of other things' : 'a tuple';
}

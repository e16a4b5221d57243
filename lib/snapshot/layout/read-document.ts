// The outermost part of a snapshot, a dict or the bare list of segments of the oldest PyTorch, to the model. Must not know which format
// it comes from.

import { SnapshotFormatError } from '../../errors.js';
import { type DeviceTrace, type PyList, type PyValue, SNAPSHOT_LAYOUT, type Snapshot } from '../model.js';
import { type FrameReader, sameKeys } from './read-frames.js';
import { readSegments } from './read-segments.js';

/** A file's contents. */
export interface Document {
  /** Keys in their order; none for a bare list of segments. */
  readonly layout: readonly string[];
  /** Values of the keys other than `device_traces`. */
  readonly values: ReadonlyMap<string, PyValue>;
  /** Null where the file has none. */
  readonly traces: readonly DeviceTrace[] | null;
  readonly frames: FrameReader;
}

/** @throws SnapshotFormatError where a segment or block is wrong */
export function makeSnapshot({ layout, values, traces, frames }: Document): Snapshot {
  const segments = readSegments((values.get('segments') ?? []) as PyList, frames);
  const extra = new Map([...values].filter(([key]) => key !== 'segments'));
  return {
    segments,
    deviceTraces: traces ?? [],
    stacks: frames.stacks,
    traceOverflowed: overflowed(values),
    ...(sameKeys(layout, SNAPSHOT_LAYOUT) ? {} : { layout }),
    ...(extra.size === 0 ? {} : { extra }),
  };
}

/** One line that says how much of a file could be read. @param message what is wrong with a damaged file */
export function salvageNote(
  kind: 'cut' | 'damaged' | 'refused',
  at: number | null,
  message: string,
  snapshot: Snapshot,
): string {
  const events = snapshot.deviceTraces.reduce((sum, trace) => sum + trace.length, 0);
  const read = `${events} events and ${snapshot.segments.length} segments were read`;
  return kind === 'cut' ? `cut at byte ${at} of the file: ${read}` : `damaged, ${message}: ${read}`;
}

/** @throws SnapshotFormatError when the keys are not those of a snapshot */
export function checkKeys(keys: readonly PyValue[], kindOf: (key: string) => string | null, format: string): void {
  const wanted = ['segments', 'device_traces'];
  const lists = wanted.filter((key) => kindOf(key) === 'list');
  const wrong = wanted.filter((key) => kindOf(key) !== null && kindOf(key) !== 'list');
  if (lists.length > 0 && wrong.length === 0 && keys.every((key) => typeof key === 'string')) return;
  const named = wrong.map((key) => `${key} is no list`);
  const shown = keys.slice(0, 5).map((key) => (typeof key === 'string' ? JSON.stringify(key.slice(0, 40)) : '?'));
  const more = keys.length > 5 ? ', ...' : '';
  const why =
    named.length > 0
      ? named.join(', ')
      : `a dict with ${keys.length === 0 ? 'no keys' : `the keys ${shown.join(', ')}${more}`}`;
  throw new SnapshotFormatError(`this ${format} is not a memory snapshot: ${why}`);
}

// Newest PyTorch says it among the settings.
function overflowed(values: ReadonlyMap<string, PyValue>): boolean | null {
  const settings = values.get('allocator_settings');
  const said =
    (settings instanceof Map ? settings.get('trace_alloc_overflowed') : undefined) ??
    values.get('trace_alloc_overflowed');
  return typeof said === 'boolean' ? said : null;
}

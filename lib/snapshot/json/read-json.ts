// JSON snapshots to the model: our own, told by its `format`, and PyTorch's snapshot as json.dumps writes it. Must not know files.

import { SnapshotFormatError } from '../../errors.js';
import { checkKeys, makeSnapshot, salvageNote } from '../layout/read-document.js';
import { pushEvent } from '../layout/read-events.js';
import { FrameReader } from '../layout/read-frames.js';
import { type DeviceTrace, DeviceTraceBuilder, type PyList, type PyValue, type Snapshot, Tuple } from '../model.js';
import { parseJsonSnapshot } from './snapshot.js';
import { type JsonText, parseJson } from './text.js';

/** Deeper values are refused: no snapshot has any, and whoever walks them may recurse. */
const MAX_DEPTH = 500;

/** Reads either kind of JSON. Linear. @throws SnapshotFormatError */
export function parseJsonFile(bytes: Uint8Array, salvage: boolean): Snapshot {
  const text = parseJson(bytes, salvage);
  const { cutAt } = text;
  if (cutAt === null) return readDocument(text);
  try {
    const snapshot = readDocument(text);
    return { ...snapshot, salvaged: salvageNote('cut', cutAt, '', snapshot) };
  } catch (cause) {
    throw new SnapshotFormatError('the file ends here, and what is whole of it is no snapshot', cutAt, { cause });
  }
}

function readDocument({ value, mark }: JsonText): Snapshot {
  if (typeof value === 'object' && value !== null && 'format' in value && value.format === 'cudalloc-snapshot')
    return parseJsonSnapshot(value);
  return new JsonReader(mark).read(value);
}

class JsonReader {
  readonly #mark: string | null;
  readonly #frames = new FrameReader(false);

  constructor(mark: string | null) {
    this.#mark = mark;
  }

  read(value: unknown): Snapshot {
    if (Array.isArray(value)) return this.#readList(value);
    if (typeof value !== 'object' || value === null)
      throw new SnapshotFormatError('this JSON is not a memory snapshot: no object');
    const entries = new Map(Object.entries(value));
    const keys = [...entries.keys()];
    const kindOf = (key: string) => (entries.has(key) ? (Array.isArray(entries.get(key)) ? 'list' : 'other') : null);
    checkKeys(keys, kindOf, 'JSON');
    const traces = entries.get('device_traces') as readonly unknown[] | undefined;
    entries.delete('device_traces');
    return makeSnapshot({
      layout: keys,
      values: new Map([...entries].map(([key, item]): [string, PyValue] => [key, this.#value(item, key, 1)])),
      traces: traces?.map((trace) => this.#trace(trace)) ?? null,
      frames: this.#frames,
    });
  }

  #readList(list: readonly unknown[]): Snapshot {
    const segments = this.#value(list, '', 0) as PyList;
    if (!segments.every((item) => item instanceof Map && item.has('blocks')))
      throw new SnapshotFormatError('this JSON is not a memory snapshot: a list, but not of segments');
    return makeSnapshot({ layout: [], values: new Map([['segments', segments]]), traces: null, frames: this.#frames });
  }

  // Event by event, so that a million of them are never there as dicts at once.
  #trace(list: unknown): DeviceTrace {
    if (!Array.isArray(list)) throw new SnapshotFormatError('device_traces is not a list of lists of events');
    const builder = new DeviceTraceBuilder(list.length);
    for (const item of list) pushEvent(builder, this.#value(item, '', 2), this.#frames);
    return builder.build();
  }

  #value(json: unknown, key: string, depth: number): PyValue {
    if (typeof json === 'string') return this.#text(json);
    if (json === null || typeof json === 'boolean' || typeof json === 'number') return json;
    if (depth === MAX_DEPTH) throw new SnapshotFormatError(`lists and objects are nested deeper than ${MAX_DEPTH}`);
    if (Array.isArray(json)) {
      const list = json.map((item) => this.#value(item, '', depth + 1));
      // JSON has no tuples; this one is a pair in every snapshot.
      return key === 'segment_pool_id' ? new Tuple(list) : list;
    }
    const entries = Object.entries(json as Readonly<Record<string, unknown>>);
    return new Map(entries.map(([name, item]) => [name, this.#value(item, name, depth + 1)]));
  }

  #text(text: string): PyValue {
    return this.#mark !== null && text.startsWith(this.#mark) ? BigInt(text.slice(this.#mark.length)) : text;
  }
}

// Reads our own JSON. Everything is checked before it is used, as people edit such files: a wrong value is an error that names its field.
// Must not know text or files: the document comes through JSON.parse.

import { SnapshotFormatError } from '../../errors.js';
import {
  type AsRead,
  type BlockHistory,
  type Frame,
  type PyValue,
  type Snapshot,
  type SnapshotBlock,
  type SnapshotSegment,
  StackTable,
} from '../model.js';
import {
  arrayAt,
  booleanAt,
  fail,
  numberAt,
  objectAt,
  oneOfAt,
  type Path,
  positionAt,
  stringAt,
  stringsAt,
} from './fields.js';
import { parseJsonTrace } from './trace.js';
import { parseValue } from './values.js';
import { JSON_FORMAT, JSON_VERSION } from './write-json.js';

/**
 * The snapshot of a document that `formatJsonSnapshot` wrote. Linear.
 * @throws SnapshotFormatError for another version, and where a field is missing or wrong; it names the field
 */
export function parseJsonSnapshot(document: object): Snapshot {
  const root = objectAt(document, []);
  if (root.format !== JSON_FORMAT) fail(['format'], root.format, JSON.stringify(JSON_FORMAT));
  if (root.version !== JSON_VERSION) {
    throw new SnapshotFormatError(
      `the snapshot has version ${JSON.stringify(root.version)} of our JSON; this release reads version ${JSON_VERSION}`,
    );
  }
  return new JsonReader(root).snapshot();
}

const STATES = ['active_allocated', 'active_pending_free', 'inactive'] as const;

class JsonReader {
  readonly #root: Readonly<Record<string, unknown>>;
  readonly #layouts: readonly (readonly string[])[];
  readonly #stacks = new StackTable();
  /** Number in the table by number in the document, which may repeat a stack. */
  readonly #stackNumbers: readonly number[];

  constructor(root: Readonly<Record<string, unknown>>) {
    this.#root = root;
    this.#layouts = arrayAt(root.layouts, ['layouts']).map((row, i) => stringsAt(row, ['layouts', i]));
    this.#stackNumbers = this.#readStacks();
  }

  snapshot(): Snapshot {
    const { segments, device_traces: traces, trace_overflowed: overflowed, salvaged } = this.#root;
    return {
      segments: arrayAt(segments, ['segments']).map((segment, i) => this.#segment(segment, ['segments', i])),
      deviceTraces: arrayAt(traces, ['device_traces']).map((trace, i) =>
        parseJsonTrace(trace, this.#stackNumbers, ['device_traces', i]),
      ),
      stacks: this.#stacks,
      traceOverflowed: overflowed === null ? null : booleanAt(overflowed, ['trace_overflowed']),
      ...(salvaged !== undefined && { salvaged: stringAt(salvaged, ['salvaged']) }),
      ...this.#asRead(this.#root, []),
    };
  }

  #readStacks(): number[] {
    const frames = arrayAt(this.#root.frames, ['frames']).map((frame, i) =>
      this.#stacks.internFrame(this.#frame(frame, ['frames', i])),
    );
    return arrayAt(this.#root.stacks, ['stacks']).map((row, i) => {
      const path = ['stacks', i];
      const numbers = arrayAt(row, path).map((frame, j) => frames[positionAt(frame, frames.length, [...path, j])]);
      return this.#stacks.intern(numbers as number[], numbers.length);
    });
  }

  #frame(json: unknown, path: Path): Frame {
    const fields = objectAt(json, path);
    const line = parseValue(fields.line, [...path, 'line']);
    return {
      name: stringAt(fields.name, [...path, 'name']),
      filename: stringAt(fields.filename, [...path, 'filename']),
      line: typeof line === 'number' || typeof line === 'bigint' ? line : fail([...path, 'line'], line, 'a number'),
      ...this.#asRead(fields, path),
    };
  }

  #segment(json: unknown, path: Path): SnapshotSegment {
    const fields = objectAt(json, path);
    const number = (key: string): number => numberAt(fields[key], [...path, key]);
    return {
      device: number('device'),
      address: number('address'),
      totalSize: number('total_size'),
      allocatedSize: number('allocated_size'),
      activeSize: number('active_size'),
      requestedSize: number('requested_size'),
      stream: number('stream'),
      segmentType: oneOfAt(fields.segment_type, ['small', 'large'], [...path, 'segment_type']),
      segmentPoolId: pairAt(fields.segment_pool_id, [...path, 'segment_pool_id']),
      isExpandable: booleanAt(fields.is_expandable, [...path, 'is_expandable']),
      stack: this.#stack(fields, path),
      blocks: arrayAt(fields.blocks, [...path, 'blocks']).map((block, i) => this.#block(block, [...path, 'blocks', i])),
      ...(fields.place !== undefined && { place: pairAt(fields.place, [...path, 'place']) }),
      ...this.#asRead(fields, path),
    };
  }

  #block(json: unknown, path: Path): SnapshotBlock {
    const fields = objectAt(json, path);
    const number = (key: string): number => numberAt(fields[key], [...path, key]);
    const { history } = fields;
    return {
      address: number('address'),
      size: number('size'),
      requestedSize: number('requested_size'),
      state: oneOfAt(fields.state, STATES, [...path, 'state']),
      stack: this.#stack(fields, path),
      ...(history !== undefined && {
        history: arrayAt(history, [...path, 'history']).map((entry, i) =>
          this.#history(entry, [...path, 'history', i]),
        ),
      }),
      ...this.#asRead(fields, path),
    };
  }

  #history(json: unknown, path: Path): BlockHistory {
    const fields = objectAt(json, path);
    return {
      address: numberAt(fields.addr, [...path, 'addr']),
      realSize: numberAt(fields.real_size, [...path, 'real_size']),
      stack: this.#stack(fields, path),
      ...this.#asRead(fields, path),
    };
  }

  #stack(fields: Readonly<Record<string, unknown>>, path: Path): number {
    const numbers = this.#stackNumbers;
    return numbers[positionAt(fields.stack, numbers.length, [...path, 'stack'])] as number;
  }

  #asRead({ layout, extra }: Readonly<Record<string, unknown>>, path: Path): AsRead {
    const layouts = this.#layouts;
    const keys = layout === undefined ? 0 : positionAt(layout, layouts.length, [...path, 'layout']);
    return {
      ...(layout !== undefined && { layout: layouts[keys] as readonly string[] }),
      ...(extra !== undefined && { extra: parseExtra(extra, [...path, 'extra']) }),
    };
  }
}

function parseExtra(json: unknown, path: Path): ReadonlyMap<string, PyValue> {
  return new Map(Object.entries(objectAt(json, path)).map(([key, value]) => [key, parseValue(value, [...path, key])]));
}

function pairAt(json: unknown, path: Path): readonly [number, number] {
  const items = arrayAt(json, path);
  if (items.length !== 2) fail(path, json, 'two numbers');
  return [numberAt(items[0], [...path, 0]), numberAt(items[1], [...path, 1])];
}

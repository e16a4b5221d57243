// Reads the binary form into the model: columns become columns, and objects are made of frames, segments and blocks only. Everything is
// checked; a wrong byte is an error that names it. Must not know files or compression.

import { SnapshotFormatError } from '../../errors.js';
import {
  type AsRead,
  type BlockHistory,
  DeviceTrace,
  type Frame,
  RowTable,
  type Snapshot,
  type SnapshotBlock,
  type SnapshotSegment,
  StackTable,
} from '../model.js';
import {
  BINARY_VERSION,
  BLOCK_NUMBERS,
  BLOCK_STATES,
  type Head,
  HISTORY_NUMBERS,
  MAGIC,
  parseHead,
  SEGMENT_NUMBERS,
  SEGMENT_TYPES,
  type Table,
  type TraceHead,
} from './head.js';
import { ColumnReader } from './read-columns.js';

const MOST = 2 ** 32;

/** Whether bytes are the binary form, or the beginning of it. Constant. */
export function beginsBinary(bytes: Uint8Array): boolean {
  return bytes.length > 0 && MAGIC.every((byte, i) => i >= bytes.length || byte === bytes[i]);
}

/**
 * The snapshot of bytes that `formatBinarySnapshot` wrote. Linear, without an object per event; memory of about the columns. There is no
 * reading of a part: columns follow each other.
 * @throws SnapshotFormatError for another version, and for what is cut or damaged; it names the byte
 */
export function parseBinarySnapshot(bytes: Uint8Array): Snapshot {
  const columns = new ColumnReader(bytes, 0);
  columns.take(MAGIC.length);
  const version = columns.uint32();
  if (version !== BINARY_VERSION)
    throw new SnapshotFormatError(
      `the snapshot has version ${version} of our binary form; this release reads version ${BINARY_VERSION}`,
      MAGIC.length,
    );
  const text = columns.take(columns.uint32());
  const snapshot = new BinaryReader(readHead(text, columns.at - text.length), columns).snapshot();
  columns.end();
  return snapshot;
}

function readHead(text: Uint8Array, at: number): Head {
  try {
    return parseHead(JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(text)));
  } catch (cause) {
    throw new SnapshotFormatError(`the head is damaged (${(cause as Error).message})`, at, { cause });
  }
}

class BinaryReader {
  readonly #head: Head;
  readonly #columns: ColumnReader;

  constructor(head: Head, columns: ColumnReader) {
    this.#head = head;
    this.#columns = columns;
  }

  /** In the order in which it was written. */
  snapshot(): Snapshot {
    const { traceOverflowed, salvaged, layout, extra, layouts, traces } = this.#head;
    const stacks = this.#stacks(this.#frames());
    return {
      segments: this.#segments(),
      deviceTraces: traces.map((trace) => this.#trace(trace)),
      stacks,
      traceOverflowed,
      ...(salvaged !== undefined && { salvaged }),
      ...asRead(layouts[layout - 1], extra),
    };
  }

  #frames(): Frame[] {
    const { counts, strings, lines } = this.#head;
    const names = this.#columns.positions(counts.frames, strings.length);
    const filenames = this.#columns.positions(counts.frames, strings.length);
    const numbers = this.#columns.numbers(counts.frames);
    const read = this.#asRead('frames');
    return Array.from(names, (name, i) => ({
      name: strings[name] as string,
      filename: strings[filenames[i] as number] as string,
      line: lines.get(i) ?? (numbers[i] as number),
      ...read(i),
    }));
  }

  #stacks(frames: Frame[]): StackTable {
    const { at } = this.#columns;
    const starts = startsOf(this.#columns.positions(this.#head.counts.stacks, MOST));
    const cells = starts.at(-1) as number;
    // Readers rely on the first one.
    if (starts[1] !== 0) throw new SnapshotFormatError('the first stack is not the empty one', at);
    if (cells >= MOST) throw new SnapshotFormatError(`the stacks have ${cells} frames`, at);
    return new StackTable(frames, RowTable.of(this.#columns.positions(cells, frames.length), new Uint32Array(starts)));
  }

  #segments(): SnapshotSegment[] {
    const { counts } = this.#head;
    const numbers = SEGMENT_NUMBERS.map((key) => [key, this.#columns.numbers(counts.segments)] as const);
    const pools = this.#pairs(false);
    const places = this.#pairs(true);
    const types = this.#columns.positions(counts.segments, SEGMENT_TYPES.length);
    const expandable = this.#columns.positions(counts.segments, 2);
    const stacks = this.#columns.positions(counts.segments, counts.stacks);
    const starts = this.#startsOf('blocks', this.#columns.positions(counts.segments, MOST));
    const read = this.#asRead('segments');
    const blocks = this.#blocks();
    return Array.from({ length: counts.segments }, (_, i) => {
      const place = places(i);
      return {
        ...row(numbers, i),
        segmentType: SEGMENT_TYPES[types[i] as number] as SnapshotSegment['segmentType'],
        segmentPoolId: pools(i),
        isExpandable: expandable[i] === 1,
        stack: stacks[i] as number,
        blocks: blocks.slice(starts[i], starts[i + 1]),
        ...(!Number.isNaN(place[0]) && { place }),
        ...read(i),
      };
    });
  }

  #blocks(): SnapshotBlock[] {
    const { counts } = this.#head;
    const numbers = BLOCK_NUMBERS.map((key) => [key, this.#columns.numbers(counts.blocks)] as const);
    const states = this.#columns.positions(counts.blocks, BLOCK_STATES.length);
    const stacks = this.#columns.positions(counts.blocks, counts.stacks);
    const entries = this.#columns.positions(counts.blocks, MOST);
    const starts = this.#startsOf(
      'history',
      entries.map((count) => Math.max(0, count - 1)),
    );
    const read = this.#asRead('blocks');
    const history = this.#history();
    return Array.from({ length: counts.blocks }, (_, i) => ({
      ...row(numbers, i),
      state: BLOCK_STATES[states[i] as number] as SnapshotBlock['state'],
      stack: stacks[i] as number,
      ...(entries[i] !== 0 && { history: history.slice(starts[i], starts[i + 1]) }),
      ...read(i),
    }));
  }

  #history(): BlockHistory[] {
    const { counts } = this.#head;
    const numbers = HISTORY_NUMBERS.map((key) => [key, this.#columns.numbers(counts.history)] as const);
    const stacks = this.#columns.positions(counts.history, counts.stacks);
    const read = this.#asRead('history');
    return Array.from(stacks, (stack, i) => ({ ...row(numbers, i), stack, ...read(i) }));
  }

  #trace({ length, actionNames, layouts, hasLayoutOf, extras, odd }: TraceHead): DeviceTrace {
    const columns = this.#columns;
    return new DeviceTrace({
      length,
      actionNames,
      actions: columns.shortPositions(length, actionNames.length),
      addresses: columns.numbers(length),
      sizes: columns.numbers(length),
      streams: columns.numbers(length),
      times: columns.numbers(length, true),
      stacks: columns.positions(length, this.#head.counts.stacks),
      layouts,
      layoutOf: hasLayoutOf ? new Uint16Array(columns.positions(length, layouts.length)) : null,
      extras: new Map(
        extras.map(([key, values]) => [key, { codes: columns.positions(length, values.length), values }]),
      ),
      odd,
    });
  }

  /** Two columns of the segments, read as pairs. */
  #pairs(mayBeMissing: boolean): (i: number) => readonly [number, number] {
    const { segments } = this.#head.counts;
    const first = this.#columns.numbers(segments, mayBeMissing);
    const second = this.#columns.numbers(segments, mayBeMissing);
    return (i) => [first[i] as number, second[i] as number];
  }

  /** Where the rows of a table start that belong to each row of another. */
  #startsOf(table: Table, counts: Uint32Array): Float64Array {
    const starts = startsOf(counts);
    const expected = this.#head.counts[table];
    if (starts.at(-1) !== expected)
      throw new SnapshotFormatError(
        `${starts.at(-1)} ${table} belong somewhere, ${expected} are there`,
        this.#columns.at,
      );
    return starts;
  }

  #asRead(table: Table): (row: number) => AsRead {
    const { layouts, counts, extras } = this.#head;
    const numbers = this.#columns.positions(counts[table], layouts.length + 1);
    return (row) => asRead(layouts[(numbers[row] as number) - 1], extras[table].get(row));
  }
}

function asRead(layout: AsRead['layout'] | undefined, extra: AsRead['extra'] | undefined): AsRead {
  return { ...(layout !== undefined && { layout }), ...(extra !== undefined && { extra }) };
}

/** The numbers of a row, by their keys. */
function row<K extends string>(columns: readonly (readonly [K, Float64Array])[], i: number): Record<K, number> {
  return Object.fromEntries(columns.map(([key, column]) => [key, column[i]])) as Record<K, number>;
}

/** Sums of the counts before each, and of all. Doubles: the counts of a damaged file may be any. */
function startsOf(counts: Uint32Array): Float64Array {
  const starts = new Float64Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) starts[i + 1] = (starts[i] as number) + (counts[i] as number);
  return starts;
}

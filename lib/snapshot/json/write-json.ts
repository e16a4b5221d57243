// A snapshot as our own JSON, in pieces: stacks and frames once, events in columns, every value exact. The layout is described in
// docs/snapshots.md; its reader is json-snapshot.ts. Must not know files.

import {
  type AsRead,
  type BlockHistory,
  type DeviceTrace,
  EVENT_LAYOUT,
  type ExtraColumn,
  type Frame,
  type PyValue,
  type Snapshot,
  type SnapshotBlock,
  type SnapshotSegment,
  type StackTable,
} from '../model.js';
import { formatValue } from './values.js';

/** What the document calls itself, and the version of its layout that is written and read here. */
export const JSON_FORMAT = 'cudalloc-snapshot';
export const JSON_VERSION = 1;

/** Items of a list or column put together in one piece. */
const BATCH = 1024;

/** The document in pieces, to be written one after the other. Linear. */
export function* formatJsonSnapshot(snapshot: Snapshot): Generator<string, void, undefined> {
  const layouts = new Layouts();
  const { segments, deviceTraces, stacks, traceOverflowed, salvaged } = snapshot;
  yield `{"format":"${JSON_FORMAT}","version":${JSON_VERSION},\n"trace_overflowed":${traceOverflowed}`;
  if (salvaged !== undefined) yield `,\n"salvaged":${JSON.stringify(salvaged)}`;
  yield asRead(snapshot, layouts);
  yield ',\n"frames":[';
  yield* list(stacks.frameCount, (i) => formatFrame(stacks.frame(i), layouts));
  yield '],\n"stacks":[';
  yield* list(stacks.size, (i) => formatStack(stacks, i));
  yield '],\n"segments":[';
  yield* list(segments.length, (i) => formatSegment(segments[i] as SnapshotSegment, layouts));
  yield '],\n"device_traces":[';
  for (const [i, trace] of deviceTraces.entries()) {
    yield i === 0 ? '\n' : ',\n';
    yield* formatTrace(trace);
  }
  yield `],\n"layouts":${JSON.stringify(layouts.rows)}}\n`;
}

/** The rows of keys that objects were read with, each once. */
class Layouts {
  readonly rows: (readonly string[])[] = [];
  readonly #numbers = new Map<string, number>();

  number(keys: readonly string[]): number {
    const text = JSON.stringify(keys);
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    this.#numbers.set(text, this.rows.length);
    return this.rows.push(keys) - 1;
  }
}

/** Fields that everything read may have, each after a comma. */
function asRead({ layout, extra }: AsRead, layouts: Layouts): string {
  const layoutField = layout === undefined ? '' : `,"layout":${layouts.number(layout)}`;
  return extra === undefined ? layoutField : `${layoutField},"extra":${formatExtra(extra)}`;
}

function formatExtra(extra: ReadonlyMap<string, PyValue>): string {
  const fields = [...extra].map(([key, value]) => `${JSON.stringify(key)}:${formatValue(value)}`);
  return `{${fields.join(',')}}`;
}

function formatFrame(frame: Frame, layouts: Layouts): string {
  const { name, filename, line } = frame;
  return `{"name":${JSON.stringify(name)},"filename":${JSON.stringify(filename)},"line":${formatValue(line)}${asRead(frame, layouts)}}`;
}

function formatStack(stacks: StackTable, stack: number): string {
  return `[${Array.from({ length: stacks.depth(stack) }, (_, i) => stacks.frameNumber(stack, i)).join(',')}]`;
}

function formatSegment(segment: SnapshotSegment, layouts: Layouts): string {
  const { segmentPoolId, place } = segment;
  const blocks = segment.blocks.map((block) => formatBlock(block, layouts)).join(',\n  ');
  return (
    `{"device":${segment.device},"address":${segment.address},"total_size":${segment.totalSize},` +
    `"allocated_size":${segment.allocatedSize},"active_size":${segment.activeSize},` +
    `"requested_size":${segment.requestedSize},"stream":${segment.stream},"segment_type":"${segment.segmentType}",` +
    `"segment_pool_id":[${segmentPoolId.join(',')}],"is_expandable":${segment.isExpandable},"stack":${segment.stack}` +
    `${place === undefined ? '' : `,"place":[${place.join(',')}]`}${asRead(segment, layouts)},"blocks":[${blocks}]}`
  );
}

function formatBlock(block: SnapshotBlock, layouts: Layouts): string {
  const { history } = block;
  const entries = history?.map((entry) => formatHistory(entry, layouts)).join(',');
  return (
    `{"address":${block.address},"size":${block.size},"requested_size":${block.requestedSize},"state":"${block.state}",` +
    `"stack":${block.stack}${entries === undefined ? '' : `,"history":[${entries}]`}${asRead(block, layouts)}}`
  );
}

function formatHistory(entry: BlockHistory, layouts: Layouts): string {
  return `{"addr":${entry.address},"real_size":${entry.realSize},"stack":${entry.stack}${asRead(entry, layouts)}}`;
}

function* formatTrace(trace: DeviceTrace): Generator<string, void, undefined> {
  const { length, layouts, layoutOf } = trace;
  yield `{"length":${length},"action_names":${JSON.stringify(trace.actionNames)}`;
  // Left out where no event was read from a file: those have the keys of today's PyTorch.
  if (layouts.length > 1 || layouts[0] !== EVENT_LAYOUT) yield `,"layouts":${JSON.stringify(layouts)}`;
  if (layoutOf !== null) yield* column('layout_of', layoutOf, length);
  yield* column('actions', trace.actions, length);
  yield* column('addresses', trace.addresses, length);
  yield* column('sizes', trace.sizes, length);
  yield* column('streams', trace.streams, length);
  yield* times(trace);
  yield* column('stacks', trace.stacks, length);
  yield ',\n"extras":{';
  let separator = '';
  for (const [key, extra] of trace.extras) {
    yield* extraColumn(`${separator}${JSON.stringify(key)}`, extra, length);
    separator = ',';
  }
  yield '}';
  if (trace.odd.size > 0) {
    const odd = [...trace.odd];
    yield ',\n"odd":[';
    yield* list(odd.length, (i) => {
      const [event, values] = odd[i] as (typeof odd)[number];
      return `[${event},${formatExtra(values)}]`;
    });
    yield ']';
  }
  yield '}';
}

function* extraColumn(
  name: string,
  { codes, values }: ExtraColumn,
  length: number,
): Generator<string, void, undefined> {
  yield `${name}:{"values":[`;
  yield* list(values.length, (i) => formatValue(values[i] ?? null));
  yield ']';
  yield* column('codes', codes, length);
  yield '}';
}

/** Whole numbers print exactly; none of these is beyond 2^53. */
function* column(
  name: string,
  values: Uint8Array | Uint16Array | Uint32Array | Float64Array,
  length: number,
): Generator<string, void, undefined> {
  yield `,\n"${name}":[`;
  for (let from = 0; from < length; from += BATCH) {
    yield (from === 0 ? '' : ',') + values.subarray(from, Math.min(from + BATCH, length)).join(',');
  }
  yield ']';
}

function* times({ times, length }: DeviceTrace): Generator<string, void, undefined> {
  yield ',\n"times_us":[';
  for (let from = 0; from < length; from += BATCH) {
    const part = Array.from(times.subarray(from, Math.min(from + BATCH, length)), (time) =>
      Number.isNaN(time) ? 'null' : String(time),
    );
    yield (from === 0 ? '' : ',') + part.join(',');
  }
  yield ']';
}

/** Items between commas, each on a line. */
function* list(length: number, format: (index: number) => string): Generator<string, void, undefined> {
  for (let from = 0; from < length; from += BATCH) {
    const part: string[] = [];
    for (let i = from; i < Math.min(from + BATCH, length); i++) part.push(format(i));
    yield `${from === 0 ? '' : ','}\n${part.join(',\n')}`;
  }
}

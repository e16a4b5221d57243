// A snapshot in a form that a page can carry and open at once: columns of bytes that compress well, and a small head. Nothing is lost: what
// is read back is what was written. The layout is described in docs/snapshots.md. Must not know files, or who compresses the bytes.

import type {
  AsRead,
  BlockHistory,
  DeviceTrace,
  Frame,
  Snapshot,
  SnapshotBlock,
  SnapshotSegment,
  StackTable,
} from '../model.js';
import {
  BINARY_VERSION,
  BLOCK_NUMBERS,
  BLOCK_STATES,
  type Extra,
  formatHead,
  HISTORY_NUMBERS,
  MAGIC,
  SEGMENT_NUMBERS,
  SEGMENT_TYPES,
  type TraceHead,
} from './head.js';
import { encodeNumbers, encodePositions, uint32 } from './write-columns.js';

/** The file in pieces, to be written one after the other. Linear. */
export function* formatBinarySnapshot(snapshot: Snapshot): Generator<Uint8Array, void, undefined> {
  const { stacks, segments, deviceTraces, traceOverflowed, salvaged, layout, extra } = snapshot;
  const names = new Names();
  const blocks = segments.flatMap((segment) => segment.blocks);
  const history = blocks.flatMap((block) => block.history ?? []);
  const frames = Array.from({ length: stacks.frameCount }, (_, i) => stacks.frame(i));
  const columns = [
    ...frameColumns(frames, names),
    ...stackColumns(stacks),
    ...segmentColumns(segments, names),
    ...blockColumns(blocks, names),
    ...historyColumns(history, names),
  ];
  const head = formatHead({
    traceOverflowed,
    salvaged,
    layout: names.layout({ layout }),
    extra,
    counts: {
      frames: frames.length,
      stacks: stacks.size,
      segments: segments.length,
      blocks: blocks.length,
      history: history.length,
    },
    layouts: names.layouts,
    strings: names.strings,
    extras: {
      frames: extrasOf(frames),
      stacks: new Map(),
      segments: extrasOf(segments),
      blocks: extrasOf(blocks),
      history: extrasOf(history),
    },
    lines: new Map(frames.flatMap(({ line }, i) => (fitsColumn(line) ? [] : [[i, line] as const]))),
    traces: deviceTraces.map(traceHead),
  });
  const text = new TextEncoder().encode(head);
  yield* [MAGIC, uint32(BINARY_VERSION), uint32(text.length), text];
  yield* columns;
  for (const trace of deviceTraces) yield* traceColumns(trace);
}

/** Texts and rows of keys, each once, by number. */
class Names {
  readonly strings: string[] = [];
  readonly layouts: (readonly string[])[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #layoutNumbers = new Map<string, number>();

  string(text: string): number {
    return numberOf(text, text, this.strings, this.#numbers);
  }

  /** Number of the row of keys plus one; 0: none. */
  layout({ layout }: { readonly layout?: readonly string[] | undefined }): number {
    return layout === undefined ? 0 : 1 + numberOf(JSON.stringify(layout), layout, this.layouts, this.#layoutNumbers);
  }
}

function numberOf<T>(key: string, item: T, items: T[], numbers: Map<string, number>): number {
  const known = numbers.get(key);
  if (known !== undefined) return known;
  numbers.set(key, items.length);
  return items.push(item) - 1;
}

function extrasOf(items: readonly AsRead[]): ReadonlyMap<number, Extra> {
  return new Map(items.flatMap(({ extra }, i) => (extra === undefined ? [] : [[i, extra] as const])));
}

function fitsColumn(line: number | bigint): line is number {
  return Number.isFinite(line);
}

function positions<T>(items: readonly T[], of: (item: T) => number): Uint8Array {
  return encodePositions(Uint32Array.from(items, of));
}

function numbers<T>(items: readonly T[], of: (item: T) => number): Uint8Array[] {
  return encodeNumbers(Float64Array.from(items, of));
}

function frameColumns(frames: readonly Frame[], names: Names): Uint8Array[] {
  return [
    positions(frames, ({ name }) => names.string(name)),
    positions(frames, ({ filename }) => names.string(filename)),
    ...numbers(frames, ({ line }) => (fitsColumn(line) ? line : 0)),
    positions(frames, (frame) => names.layout(frame)),
  ];
}

function stackColumns(stacks: StackTable): Uint8Array[] {
  return [
    encodePositions(Uint32Array.from({ length: stacks.size }, (_, stack) => stacks.depth(stack))),
    encodePositions(stacks.cells),
  ];
}

function segmentColumns(segments: readonly SnapshotSegment[], names: Names): Uint8Array[] {
  return [
    ...SEGMENT_NUMBERS.flatMap((key) => numbers(segments, (segment) => segment[key])),
    ...[0, 1].flatMap((i) => numbers(segments, ({ segmentPoolId }) => segmentPoolId[i] as number)),
    ...[0, 1].flatMap((i) => numbers(segments, ({ place }) => place?.[i] ?? Number.NaN)),
    positions(segments, ({ segmentType }) => SEGMENT_TYPES.indexOf(segmentType)),
    positions(segments, ({ isExpandable }) => Number(isExpandable)),
    positions(segments, ({ stack }) => stack),
    positions(segments, ({ blocks }) => blocks.length),
    positions(segments, (segment) => names.layout(segment)),
  ];
}

function blockColumns(blocks: readonly SnapshotBlock[], names: Names): Uint8Array[] {
  return [
    ...BLOCK_NUMBERS.flatMap((key) => numbers(blocks, (block) => block[key])),
    positions(blocks, ({ state }) => BLOCK_STATES.indexOf(state)),
    positions(blocks, ({ stack }) => stack),
    positions(blocks, ({ history }) => (history === undefined ? 0 : history.length + 1)),
    positions(blocks, (block) => names.layout(block)),
  ];
}

function historyColumns(history: readonly BlockHistory[], names: Names): Uint8Array[] {
  return [
    ...HISTORY_NUMBERS.flatMap((key) => numbers(history, (entry) => entry[key])),
    positions(history, ({ stack }) => stack),
    positions(history, (entry) => names.layout(entry)),
  ];
}

function traceHead({ length, actionNames, layouts, layoutOf, extras, odd }: DeviceTrace): TraceHead {
  return {
    length,
    actionNames,
    layouts,
    hasLayoutOf: layoutOf !== null,
    extras: Array.from(extras, ([key, { values }]) => [key, values] as const),
    odd,
  };
}

function* traceColumns(trace: DeviceTrace): Generator<Uint8Array, void, undefined> {
  const { length } = trace;
  yield encodePositions(trace.actions.subarray(0, length));
  for (const column of [trace.addresses, trace.sizes, trace.streams, trace.times])
    yield* encodeNumbers(column.subarray(0, length));
  yield encodePositions(trace.stacks.subarray(0, length));
  if (trace.layoutOf !== null) yield encodePositions(trace.layoutOf.subarray(0, length));
  for (const { codes } of trace.extras.values()) yield encodePositions(codes.subarray(0, length));
}

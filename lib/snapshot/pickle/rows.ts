// Takes in the dicts that a snapshot has by the million, events and frames, as soon as a pickle completes one: straight from the stack
// of the machine into columns. Knows what the keys mean, not how they were encoded.

import { actionCode, DEVICE_FREE, eventDict, fitsColumn, fitsTime, layoutNumber } from '../layout/read-events.js';
import type { FrameReader } from '../layout/read-frames.js';
import { type DeviceTrace, DeviceTraceBuilder, EMPTY_STACK, type Frame, type PyValue, RowTable } from '../model.js';
import { CELL, EVENT, FRAME, LIST, NUMBER, type PickleArena, type Rows, STACK, STRING } from './arena.js';

/** Dicts with more keys are no rows: their pickles may come in several parts. */
const MAX_KEYS = 64;
/** Different rows of keys that are remembered; a snapshot has about five. */
const MAX_SHAPES = 64;

/** Where a row has the keys, counted in keys; -1 where it has none such. */
interface Positions {
  readonly action: number;
  readonly addr: number;
  readonly size: number;
  readonly stream: number;
  readonly time: number;
  readonly frames: number;
  readonly name: number;
  readonly filename: number;
  readonly line: number;
}

/** One row of keys. */
interface Shape extends Positions {
  readonly kind: 'event' | 'frame' | 'other';
  /** Handles of the keys. */
  readonly handles: Int32Array;
  readonly keys: readonly string[];
  readonly number: number;
  /** Number of these keys among the layouts of events. */
  readonly layout: number;
  /** Positions of the other keys. */
  readonly others: readonly number[];
}

export class SnapshotRows implements Rows {
  readonly frames: FrameReader;
  readonly #events = new DeviceTraceBuilder();
  readonly #shapes: Shape[] = [];
  #last: Shape | null = null;
  readonly #actions = new Map<number, number>();
  /** Frames by keys, strings and line; the frame number by that row's number. */
  readonly #frameRows = new RowTable();
  readonly #frameNumbers: number[] = [-1];
  readonly #frameRow = new Uint32Array(4);
  #stackRow = new Uint32Array(128);

  constructor(frames: FrameReader) {
    this.frames = frames;
  }

  /** All events taken in so far, of all devices, as they came. */
  get events(): DeviceTrace {
    return this.#events.build();
  }

  get eventCount(): number {
    return this.#events.length;
  }

  value(kind: number, number: number): PyValue {
    if (kind === FRAME) return this.frames.dict(number);
    return kind === STACK ? this.frames.list(number) : eventDict(this.events, number, this.frames);
  }

  /** Takes in a dict of which the stack holds keys and values. The content for its cell; -1 when it is no row. */
  takeDict(arena: PickleArena, tags: Int32Array, numbers: Float64Array, from: number, to: number): number {
    const shape = this.#shapeOf(arena, tags, from, to);
    if (shape.kind === 'event') return this.#takeEvent(shape, arena, tags, numbers, from);
    return shape.kind === 'frame' ? this.#takeFrame(shape, arena, tags, numbers, from) : -1;
  }

  /** Takes in a list of which the stack holds the items. The content for its cell; -1 when they are not all frames. */
  takeList(arena: PickleArena, tags: Int32Array, from: number, to: number): number {
    const length = to - from;
    if (length > this.#stackRow.length) this.#stackRow = new Uint32Array(2 * length);
    if (!arena.numbersOf(FRAME, tags, from, to, this.#stackRow)) return -1;
    return (this.frames.stacks.intern(this.#stackRow, length) << 3) | STACK;
  }

  /** The same for items that follow those of a stack. */
  extendList(stack: number, arena: PickleArena, tags: Int32Array, from: number, to: number): number {
    const { stacks } = this.frames;
    const depth = stacks.depth(stack);
    const row = new Uint32Array(depth + to - from);
    for (let i = 0; i < depth; i++) row[i] = stacks.frameNumber(stack, i);
    if (!arena.numbersOf(FRAME, tags, from, to, row.subarray(depth))) return -1;
    return (stacks.intern(row, row.length) << 3) | STACK;
  }

  #takeEvent(shape: Shape, arena: PickleArena, tags: Int32Array, numbers: Float64Array, from: number): number {
    const action = tags[from + 2 * shape.action + 1] as number;
    if ((action & 3) !== STRING) return -1;
    const address = columnAt(shape.addr, tags, numbers, from);
    const size = columnAt(shape.size, tags, numbers, from);
    const stream = columnAt(shape.stream, tags, numbers, from);
    const at = from + 2 * shape.time + 1;
    const time = shape.time < 0 || tags[at] !== NUMBER ? Number.NaN : (numbers[at] as number);
    const stack = shape.frames < 0 ? EMPTY_STACK : this.#stackAt(arena, tags[from + 2 * shape.frames + 1] as number);
    const code = this.#actions.get(action) ?? this.#newAction(action, arena);
    const event = this.#events.push(
      code,
      Math.max(address, 0),
      Math.max(size, 0),
      Math.max(stream, 0),
      fitsTime(time) ? time : Number.NaN,
      Math.max(stack, EMPTY_STACK),
    );
    this.#events.setLayout(event, shape.layout);
    if (address < 0) this.#setOdd(event, shape, shape.addr, arena, tags, numbers, from);
    if (size < 0) this.#setOdd(event, shape, shape.size, arena, tags, numbers, from);
    if (stream < 0) this.#setOdd(event, shape, shape.stream, arena, tags, numbers, from);
    if (shape.time >= 0 && !fitsTime(time)) this.#setOdd(event, shape, shape.time, arena, tags, numbers, from);
    if (stack < 0) this.#setOdd(event, shape, shape.frames, arena, tags, numbers, from);
    for (const other of shape.others) {
      const value = valueAt(other, arena, tags, numbers, from);
      this.#events.setExtra(event, shape.keys[other] as string, value);
    }
    return (event << 3) | EVENT;
  }

  #takeFrame(shape: Shape, arena: PickleArena, tags: Int32Array, numbers: Float64Array, from: number): number {
    const name = tags[from + 2 * shape.name + 1] as number;
    const filename = tags[from + 2 * shape.filename + 1] as number;
    const at = from + 2 * shape.line + 1;
    const line = numbers[at] as number;
    if ((name & 3) !== STRING || (filename & 3) !== STRING || tags[at] !== NUMBER || line >>> 0 !== line) return -1;
    const row = this.#frameRow;
    row[0] = shape.number;
    row[1] = name;
    row[2] = filename;
    row[3] = line;
    const number = this.#frameRows.intern(row, 4);
    if (number === this.#frameNumbers.length) {
      const frame: Frame = { name: arena.strings.text(name >> 2), filename: arena.strings.text(filename >> 2), line };
      const { keys } = shape;
      const usual = shape.name === 0 && shape.filename === 1;
      this.#frameNumbers.push(this.frames.stacks.addFrame(usual ? frame : { ...frame, layout: keys }));
    }
    return ((this.#frameNumbers[number] as number) << 3) | FRAME;
  }

  #stackAt(arena: PickleArena, handle: number): number {
    const content = arena.content(handle);
    if (content !== -1 && (content & 7) === STACK) return content >> 3;
    // An empty list: no more items may come to it, so that what was read stays true.
    if (content === LIST) arena.setContent(handle, (EMPTY_STACK << 3) | STACK);
    if (content === LIST) return EMPTY_STACK;
    return (handle & 3) === CELL ? (this.frames.stackOf(arena.value(handle)) ?? -1) : -1;
  }

  #newAction(handle: number, arena: PickleArena): number {
    const code = actionCode(this.#events, arena.value(handle));
    this.#actions.set(handle, code);
    return code;
  }

  #setOdd(
    event: number,
    { keys }: Shape,
    key: number,
    arena: PickleArena,
    tags: Int32Array,
    numbers: Float64Array,
    from: number,
  ): void {
    this.#events.setOdd(event, keys[key] as string, valueAt(key, arena, tags, numbers, from));
  }

  #shapeOf(arena: PickleArena, tags: Int32Array, from: number, to: number): Shape {
    if (this.#last !== null && hasKeys(this.#last, tags, from, to)) return this.#last;
    const known = this.#shapes.find((shape) => hasKeys(shape, tags, from, to));
    const shape = known ?? this.#newShape(arena, tags, from, to);
    this.#last = shape;
    return shape;
  }

  #newShape(arena: PickleArena, tags: Int32Array, from: number, to: number): Shape {
    const handles = Int32Array.from({ length: (to - from) / 2 }, (_, i) => tags[from + 2 * i] as number);
    const readable = handles.length <= MAX_KEYS && handles.every((handle) => (handle & 3) === STRING);
    const keys = readable ? Array.from(handles, (handle) => arena.strings.text(handle >> 2)) : [];
    const kind = new Set(keys).size === handles.length ? kindOf(keys) : 'other';
    const [action, addressed, size, stream, time, frames, name, filename, line] = KNOWN_KEYS.map((key) =>
      keys.indexOf(key),
    );
    const addr = addressed === -1 ? keys.indexOf(DEVICE_FREE) : addressed;
    const others =
      kind === 'event' ? [...keys.keys()].filter((i) => i !== addr && !EVENT_KEYS.includes(keys[i] as string)) : [];
    const layout = kind === 'event' ? layoutNumber(this.#events, keys) : -1;
    const number = this.#shapes.length;
    const positions = { action, addr, size, stream, time, frames, name, filename, line } as Positions;
    const shape: Shape = { kind, handles, keys, number, layout, others, ...positions };
    // Events of many layouts go on to be read as rows, slowly: none is without its layout.
    if (kind !== 'other' || number < MAX_SHAPES) this.#shapes.push(shape);
    return shape;
  }
}

const EVENT_KEYS = ['action', 'addr', 'size', 'stream', 'time_us', 'frames'];
const KNOWN_KEYS = [...EVENT_KEYS, 'name', 'filename', 'line'];

function kindOf(keys: readonly string[]): Shape['kind'] {
  if (keys.includes('action') && (keys.includes('addr') || keys.includes(DEVICE_FREE))) return 'event';
  return keys.length === 3 && ['name', 'filename', 'line'].every((key) => keys.includes(key)) ? 'frame' : 'other';
}

function hasKeys({ handles }: Shape, tags: Int32Array, from: number, to: number): boolean {
  if (handles.length * 2 !== to - from) return false;
  for (let i = 0; i < handles.length; i++) if (tags[from + 2 * i] !== handles[i]) return false;
  return true;
}

function valueAt(key: number, arena: PickleArena, tags: Int32Array, numbers: Float64Array, from: number): PyValue {
  const at = from + 2 * key + 1;
  return tags[at] === NUMBER ? (numbers[at] as number) : arena.value(tags[at] as number);
}

/** The value for a column, 0 without the key, -1 for a value that does not fit. */
function columnAt(key: number, tags: Int32Array, numbers: Float64Array, from: number): number {
  if (key < 0) return 0;
  const at = from + 2 * key + 1;
  const value = numbers[at] as number;
  return tags[at] === NUMBER && fitsColumn(value) ? value : -1;
}

// Segments and blocks as a file has them, dicts, to the model. What analysis relies on is checked here: sizes are whole bytes, and the
// blocks of a segment fill it in the order of their addresses. Must not know which format the dicts come from.

import { SnapshotFormatError } from '../../errors.js';
import {
  BLOCK_LAYOUT,
  type BlockHistory,
  type BlockState,
  EMPTY_STACK,
  type PyDict,
  type PyList,
  type PyValue,
  SEGMENT_LAYOUT,
  type SnapshotBlock,
  type SnapshotSegment,
  Tuple,
} from '../model.js';
import { type FrameReader, sameKeys } from './read-frames.js';

/** PyTorch's small pool takes segments of this size. */
const SMALL_SEGMENT = 2 * 1024 * 1024;

const HISTORY_LAYOUT = ['addr', 'real_size', 'frames'];

/** A dict of which the known keys are taken one by one; what is left is extra. */
class Fields {
  readonly keys: readonly string[];
  readonly extra = new Map<string, PyValue>();
  readonly #dict: PyDict;
  readonly #where: string;

  /** @throws SnapshotFormatError when the value is no dict with text keys */
  constructor(value: PyValue, where: string) {
    if (!(value instanceof Map)) throw new SnapshotFormatError(`${where} is no dict`);
    this.#dict = value as PyDict;
    this.#where = where;
    const keys = [...this.#dict.keys()];
    if (!keys.every((key) => typeof key === 'string'))
      throw new SnapshotFormatError(`${where} has a key that is no text`);
    this.keys = keys as string[];
    for (const [key, item] of this.#dict as ReadonlyMap<string, PyValue>) this.extra.set(key, item);
  }

  has(key: string): boolean {
    return this.#dict.has(key);
  }

  /** The value when it is of the type; else it stays among the extra ones. */
  take<T extends PyValue>(key: string, is: (value: PyValue) => value is T): T | null {
    const value = this.#dict.get(key);
    if (value === undefined || !is(value)) return null;
    this.extra.delete(key);
    return value;
  }

  /** Bytes that have to be there. @throws SnapshotFormatError */
  bytes(key: string): number {
    const value = this.take(key, isBytes);
    if (value !== null) return value;
    const found = this.#dict.get(key);
    const said = found === undefined ? 'missing' : typeof found === 'object' ? 'no number' : String(found);
    throw new SnapshotFormatError(`${this.#where}: ${key} is ${said}, not a whole number of bytes from 0 to 2^53`);
  }

  asRead(usual: readonly string[]): { layout?: readonly string[]; extra?: ReadonlyMap<string, PyValue> } {
    return {
      ...(sameKeys(this.keys, usual) ? {} : { layout: this.keys }),
      ...(this.extra.size === 0 ? {} : { extra: this.extra }),
    };
  }
}

/** Reads the list of segments. Linear, and sorts them once. @throws SnapshotFormatError naming the segment and block that are wrong */
export function readSegments(list: PyList, frames: FrameReader): SnapshotSegment[] {
  const segments = list.map((item, i) => readSegment(item, i, frames));
  checkApart(segments);
  return segments;
}

function readSegment(value: PyValue, number: number, frames: FrameReader): SnapshotSegment {
  const where = `segment ${number}`;
  const fields = new Fields(value, where);
  const address = fields.bytes('address');
  const totalSize = fields.bytes('total_size');
  const list = fields.take('blocks', isList);
  if (list === null) throw new SnapshotFormatError(`${where} has no list of blocks`);
  const blocks = readBlocks(list, address, where, frames);
  const end = blocks.reduce((sum, block) => sum + block.size, address);
  if (end !== address + totalSize)
    throw new SnapshotFormatError(`${where}: its blocks have ${end - address} bytes, the segment ${totalSize}`);
  return {
    device: fields.has('device') ? fields.bytes('device') : 0,
    address,
    totalSize,
    ...segmentSizes(fields, blocks),
    stream: fields.take('stream', isInteger) ?? 0,
    segmentType: fields.take('segment_type', isSegmentType) ?? (totalSize > SMALL_SEGMENT ? 'large' : 'small'),
    segmentPoolId: poolIdOf(fields),
    isExpandable: fields.take('is_expandable', isBoolean) ?? false,
    stack: takeStack(fields, frames),
    blocks,
    ...fields.asRead(SEGMENT_LAYOUT),
  };
}

function segmentSizes(fields: Fields, blocks: readonly SnapshotBlock[]) {
  const sum = (states: readonly BlockState[], size: 'size' | 'requestedSize') =>
    blocks.reduce((total, block) => (states.includes(block.state) ? total + block[size] : total), 0);
  const active: readonly BlockState[] = ['active_allocated', 'active_pending_free'];
  return {
    allocatedSize: fields.take('allocated_size', isBytes) ?? sum(['active_allocated'], 'size'),
    activeSize: fields.take('active_size', isBytes) ?? sum(active, 'size'),
    requestedSize: fields.take('requested_size', isBytes) ?? sum(active, 'requestedSize'),
  };
}

function poolIdOf(fields: Fields): readonly [number, number] {
  const id = fields.take('segment_pool_id', isPoolId);
  return id === null ? [0, 0] : [id.items[0] as number, id.items[1] as number];
}

function readBlocks(list: PyList, start: number, where: string, frames: FrameReader): SnapshotBlock[] {
  let at = start;
  return list.map((item, i) => {
    const block = readBlock(item, at, `${where}, block ${i}`, frames);
    at += block.size;
    return block;
  });
}

function readBlock(value: PyValue, expected: number, where: string, frames: FrameReader): SnapshotBlock {
  const fields = new Fields(value, where);
  const address = fields.has('address') ? fields.bytes('address') : expected;
  if (address !== expected)
    throw new SnapshotFormatError(`${where} is at ${address}, the one before it ends at ${expected}`);
  const size = fields.bytes('size');
  const state = stateOf(fields, where);
  const history = readHistory(fields, frames);
  const last = state === 'inactive' ? undefined : history?.[0];
  const stack = takeStack(fields, frames);
  return {
    address,
    size,
    requestedSize: fields.take('requested_size', isBytes) ?? last?.realSize ?? (state === 'inactive' ? 0 : size),
    state,
    stack: fields.has('frames') ? stack : (last?.stack ?? EMPTY_STACK),
    ...(history === null ? {} : { history }),
    ...fields.asRead(BLOCK_LAYOUT),
  };
}

function stateOf(fields: Fields, where: string): BlockState {
  const state = fields.take('state', isState);
  if (state !== null) return state;
  // An older word for the same.
  if (fields.extra.get('state') === 'active_awaiting_free') return 'active_pending_free';
  throw new SnapshotFormatError(`${where} has no known state`);
}

/** The oldest layout's records, newest first; null where there is none that the model holds. */
function readHistory(fields: Fields, frames: FrameReader): BlockHistory[] | null {
  const list = fields.extra.get('history');
  if (list === undefined || !isList(list)) return null;
  const records: BlockHistory[] = [];
  for (const item of list) {
    if (!(item instanceof Map) || !isBytes(item.get('addr') ?? null) || !isBytes(item.get('real_size') ?? null))
      return null;
    const record = new Fields(item as PyDict, 'a history record');
    const address = record.bytes('addr');
    const realSize = record.bytes('real_size');
    records.push({ address, realSize, stack: takeStack(record, frames), ...record.asRead(HISTORY_LAYOUT) });
  }
  fields.extra.delete('history');
  return records;
}

/** The stack of the frames; a value that is no list of frames stays among the extra ones. */
function takeStack(fields: Fields, frames: FrameReader): number {
  const list = fields.extra.get('frames');
  const stack = list === undefined ? null : frames.stackOf(list);
  if (stack !== null) fields.extra.delete('frames');
  return stack ?? EMPTY_STACK;
}

/** No byte may belong to two segments of a device. */
function checkApart(segments: readonly SnapshotSegment[]): void {
  const order = segments.map((_, i) => i);
  const at = (i: number) => segments[i] as SnapshotSegment;
  order.sort((a, b) => at(a).device - at(b).device || at(a).address - at(b).address);
  for (let i = 1; i < order.length; i++) {
    const [low, high] = [order[i - 1] as number, order[i] as number];
    if (at(low).device === at(high).device && at(low).address + at(low).totalSize > at(high).address)
      throw new SnapshotFormatError(`segments ${Math.min(low, high)} and ${Math.max(low, high)} overlap`);
  }
}

function isBytes(value: PyValue): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isInteger(value: PyValue): value is number {
  return Number.isSafeInteger(value);
}

function isBoolean(value: PyValue): value is boolean {
  return typeof value === 'boolean';
}

function isList(value: PyValue): value is PyList {
  return Array.isArray(value);
}

function isSegmentType(value: PyValue): value is 'small' | 'large' {
  return value === 'small' || value === 'large';
}

function isState(value: PyValue): value is BlockState {
  return value === 'active_allocated' || value === 'active_pending_free' || value === 'inactive';
}

function isPoolId(value: PyValue): value is Tuple {
  return value instanceof Tuple && value.items.length === 2 && value.items.every((item) => Number.isSafeInteger(item));
}

// Stack frames as a file has them (dicts in lists) to and from the stack table. Must not know which format the dicts come from.

import { EMPTY_STACK, FRAME_LAYOUT, type Frame, type PyDict, type PyList, type PyValue, StackTable } from '../model.js';

/** Translates frames. */
export class FrameReader {
  readonly stacks = new StackTable();
  readonly #shared: boolean;
  readonly #stackOfList = new Map<PyList, number | null>();
  readonly #frameOfDict = new Map<PyDict, number | null>();
  readonly #listOfStack = new Map<number, PyList>();
  readonly #dictOfFrame = new Map<number, PyDict>();

  /** @param shared whether the same list or dict object may come again, and is worth remembering. */
  constructor(shared = true) {
    this.#shared = shared;
  }

  /** Number of the stack that a value means; null where it is no list of frames. */
  stackOf(value: PyValue): number | null {
    if (!Array.isArray(value)) return null;
    const list = value as PyList;
    if (list.length === 0) return EMPTY_STACK;
    const known = this.#stackOfList.get(list);
    if (known !== undefined) return known;
    const frames: number[] = [];
    for (const item of list) {
      const frame = this.frameOf(item);
      if (frame === null) break;
      frames.push(frame);
    }
    const stack = frames.length === list.length ? this.stacks.intern(frames, frames.length) : null;
    if (this.#shared) this.#stackOfList.set(list, stack);
    return stack;
  }

  /** Number of the frame that a value means; null where it is no dict with text keys, or has none of a frame's keys. */
  frameOf(value: PyValue): number | null {
    if (!(value instanceof Map)) return null;
    const dict = value as PyDict;
    const known = this.#frameOfDict.get(dict);
    if (known !== undefined) return known;
    const frame = makeFrame(dict);
    const number = frame === null ? null : this.stacks.internFrame(frame);
    if (this.#shared) this.#frameOfDict.set(dict, number);
    return number;
  }

  /** The list that a stack is in a file. Made once. */
  list(stack: number): PyList {
    let list = this.#listOfStack.get(stack);
    if (list === undefined) {
      list = Array.from({ length: this.stacks.depth(stack) }, (_, i) => this.dict(this.stacks.frameNumber(stack, i)));
      this.#listOfStack.set(stack, list);
      this.#stackOfList.set(list, stack);
    }
    return list;
  }

  /** The dict that a frame is in a file. Made once. */
  dict(frame: number): PyDict {
    let dict = this.#dictOfFrame.get(frame);
    if (dict === undefined) {
      dict = frameDict(this.stacks.frame(frame));
      this.#dictOfFrame.set(frame, dict);
      this.#frameOfDict.set(dict, frame);
    }
    return dict;
  }
}

function makeFrame(dict: PyDict): Frame | null {
  const keys = [...dict.keys()];
  if (!FRAME_LAYOUT.some((key) => dict.has(key)) || keys.some((key) => typeof key !== 'string')) return null;
  const [name, filename, line] = FRAME_LAYOUT.map((key) => dict.get(key));
  const extra = new Map<string, PyValue>();
  for (const [key, value] of dict as ReadonlyMap<string, PyValue>) if (!fitsFrame(key, value)) extra.set(key, value);
  return {
    name: typeof name === 'string' ? name : '',
    filename: typeof filename === 'string' ? filename : '',
    line: isInteger(line) ? line : 0,
    ...(sameKeys(keys, FRAME_LAYOUT) ? {} : { layout: keys as string[] }),
    ...(extra.size === 0 ? {} : { extra }),
  };
}

function fitsFrame(key: string, value: PyValue): boolean {
  return key === 'name' || key === 'filename' ? typeof value === 'string' : key === 'line' && isInteger(value);
}

function isInteger(value: PyValue | undefined): value is number | bigint {
  return typeof value === 'bigint' || Number.isSafeInteger(value);
}

function frameDict(frame: Frame): PyDict {
  const known: Record<string, PyValue> = { name: frame.name, filename: frame.filename, line: frame.line };
  const keys = frame.layout ?? FRAME_LAYOUT;
  return new Map(
    keys.map((key) => [key, frame.extra?.has(key) ? frame.extra.get(key) : known[key]] as [string, PyValue]),
  );
}

/** Whether two rows of keys are the same. */
export function sameKeys(keys: readonly PyValue[], others: readonly string[]): boolean {
  return keys.length === others.length && keys.every((key, i) => key === others[i]);
}

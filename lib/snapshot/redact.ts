// A copy of a snapshot that can be shown to others: every text that a person could have chosen is replaced. Must not know files or formats.

import { libraryOf, scriptExtension } from './call-site.js';
import {
  type AsRead,
  DeviceTrace,
  EVENT_LAYOUT,
  type Frame,
  type PyDict,
  type PyList,
  type PyValue,
  type Snapshot,
  type SnapshotSegment,
  StackTable,
  Tuple,
} from './model.js';
import { isKnownKey, isKnownText } from './redact-words.js';

/** Where the times of a redacted snapshot begin: 10^15 microseconds after 1970. */
export const FIRST_TIME_US = 1e15;

/**
 * A copy without names and paths that replays and analyses like the original. Linear.
 *
 * Replaced by tokens, the same text always by the same one: names of functions (`frame_12`), of files (`file_3.py`), annotations, metadata,
 * and every other text (`text_4`); keys and actions that neither PyTorch nor this package writes (`key_1`, `action_1`). Bytes become zeros.
 * Times are moved so that the first event is at a constant, as they tell when it was recorded.
 *
 * Kept: numbers (sizes, addresses, streams, lines, pools), since the replay and the analysis are made of them; the shape of stacks, and
 * which frames are the same; of file names the extension, and whether they are of PyTorch, of Python's library or of an installed
 * package, by which a call site is found; differences of times; words of PyTorch (keys, states, actions); settings strings that consist of
 * known options and plain values.
 */
export function redact(snapshot: Snapshot): Snapshot {
  return new Redactor(snapshot).snapshot();
}

type TokenKind = 'frame' | 'file' | 'text' | 'key' | 'action';

class Redactor {
  readonly #snapshot: Snapshot;
  readonly #tokens = new Map<TokenKind, Map<string, string>>();
  readonly #stacks = new StackTable();
  /** Number of the redacted stack, by number of the original. */
  readonly #stackNumbers: readonly number[];
  readonly #values = new Map<object, PyValue>();
  readonly #layouts = new Map<readonly string[], readonly string[]>();
  /** Added to every time. */
  readonly #shiftUs: number;

  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot;
    this.#shiftUs = FIRST_TIME_US - firstTime(snapshot);
    const { stacks } = snapshot;
    const frames = Array.from({ length: stacks.frameCount }, (_, i) =>
      this.#stacks.internFrame(this.#frame(stacks.frame(i))),
    );
    this.#stackNumbers = Array.from({ length: stacks.size }, (_, stack) => {
      const row = Array.from({ length: stacks.depth(stack) }, (_, i) => frames[stacks.frameNumber(stack, i)] as number);
      return this.#stacks.intern(row, row.length);
    });
  }

  snapshot(): Snapshot {
    const { segments, deviceTraces, salvaged } = this.#snapshot;
    return {
      ...this.#snapshot,
      segments: segments.map((segment) => this.#segment(segment)),
      deviceTraces: deviceTraces.map((trace) => this.#trace(trace)),
      stacks: this.#stacks,
      ...(salvaged !== undefined && { salvaged: 'the file that this is a copy of was not all there' }),
      ...this.#asRead(this.#snapshot),
    };
  }

  #segment(segment: SnapshotSegment): SnapshotSegment {
    return {
      ...segment,
      stack: this.#stack(segment.stack),
      blocks: segment.blocks.map((block) => ({
        ...block,
        stack: this.#stack(block.stack),
        ...(block.history !== undefined && {
          history: block.history.map((entry) => ({
            ...entry,
            stack: this.#stack(entry.stack),
            ...this.#asRead(entry),
          })),
        }),
        ...this.#asRead(block),
      })),
      ...this.#asRead(segment),
    };
  }

  #trace(trace: DeviceTrace): DeviceTrace {
    return new DeviceTrace({
      ...trace,
      actionNames: trace.actionNames.map((name) => (isKnownText(name) ? name : this.#token('action', name))),
      times: trace.times.map((time) => time + this.#shiftUs),
      stacks: trace.stacks.map((stack) => this.#stack(stack)),
      extras: new Map(
        [...trace.extras].map(([key, { codes, values }]) => [
          this.#key(key),
          { codes, values: values.map((value) => this.#value(value, key)) },
        ]),
      ),
      odd: new Map([...trace.odd].map(([event, values]) => [event, this.#extra(values)])),
      layouts: trace.layouts.map((layout) => this.#layout(layout)),
    });
  }

  #frame(frame: Frame): Frame {
    const { name, filename, line } = frame;
    return {
      name: isKnownText(name) ? name : this.#token('frame', name),
      filename: isKnownText(filename) ? filename : this.#file(filename),
      line,
      ...this.#asRead(frame),
    };
  }

  #file(filename: string): string {
    const library = libraryOf(filename);
    const folder = library === null || library.endsWith(':') ? (library ?? '') : `${library}/`;
    return `${folder}${this.#token('file', filename)}${scriptExtension(filename) ?? ''}`;
  }

  #stack(stack: number): number {
    return this.#stackNumbers[stack] as number;
  }

  #asRead({ layout, extra }: AsRead): AsRead {
    return {
      ...(layout !== undefined && { layout: this.#layout(layout) }),
      ...(extra !== undefined && { extra: this.#extra(extra) }),
    };
  }

  #layout(layout: readonly string[]): readonly string[] {
    // Writers know by this very object that nothing was read.
    if (layout === EVENT_LAYOUT) return layout;
    let redacted = this.#layouts.get(layout);
    if (redacted === undefined) {
      redacted = layout.map((key) => this.#key(key));
      this.#layouts.set(layout, redacted);
    }
    return redacted;
  }

  #extra(extra: ReadonlyMap<string, PyValue>): ReadonlyMap<string, PyValue> {
    return new Map([...extra].map(([key, value]) => [this.#key(key), this.#value(value, key)]));
  }

  #key(key: string): string {
    return isKnownKey(key) ? key : this.#token('key', key);
  }

  /** @param key under which the value was found. */
  #value(value: PyValue, key: PyValue): PyValue {
    if (typeof value === 'string') return isKnownText(value) ? value : this.#token('text', value);
    if (key === 'time_us' && typeof value === 'number') return value + this.#shiftUs;
    if (value === null || typeof value !== 'object') return value;
    const known = this.#values.get(value);
    if (known !== undefined) return known;
    if (value instanceof Uint8Array) return this.#remember(value, new Uint8Array(value.length));
    if (value instanceof Tuple)
      return this.#remember(value, new Tuple(value.items.map((item) => this.#value(item, null))));
    if (value instanceof Map) return this.#dict(value as PyDict);
    const items: PyValue[] = [];
    this.#values.set(value, items);
    for (const item of value as PyList) items.push(this.#value(item, null));
    return items;
  }

  #dict(dict: PyDict): PyDict {
    const entries = new Map<PyValue, PyValue>();
    this.#values.set(dict, entries);
    for (const [key, value] of dict) {
      entries.set(typeof key === 'string' ? this.#key(key) : this.#value(key, null), this.#value(value, key));
    }
    return entries;
  }

  #remember(value: object, redacted: PyValue): PyValue {
    this.#values.set(value, redacted);
    return redacted;
  }

  #token(kind: TokenKind, text: string): string {
    let tokens = this.#tokens.get(kind);
    if (tokens === undefined) {
      tokens = new Map();
      this.#tokens.set(kind, tokens);
    }
    let token = tokens.get(text);
    if (token === undefined) {
      token = `${kind}_${tokens.size + 1}`;
      tokens.set(text, token);
    }
    return token;
  }
}

/** The earliest time of an event, else of an annotation; where there is none, what leaves times as they are. */
function firstTime({ deviceTraces, extra }: Snapshot): number {
  let first = Number.POSITIVE_INFINITY;
  for (const { times, length } of deviceTraces) {
    for (let event = 0; event < length; event++) if ((times[event] as number) < first) first = times[event] as number;
  }
  if (first !== Number.POSITIVE_INFINITY) return first;
  const annotations = extra?.get('external_annotations');
  for (const item of Array.isArray(annotations) ? (annotations as PyList) : []) {
    const time = item instanceof Map ? (item as PyDict).get('time_us') : null;
    if (typeof time === 'number' && time < first) first = time;
  }
  return first === Number.POSITIVE_INFINITY ? FIRST_TIME_US : first;
}

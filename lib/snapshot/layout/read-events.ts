// Events as a file has them (dicts in a list) to and from columns. What a column cannot hold is kept beside it, so that nothing is lost.
// Must not know which format the dicts come from.

import { SnapshotFormatError } from '../../errors.js';
import { type DeviceTrace, type DeviceTraceBuilder, EMPTY_STACK, type PyDict, type PyValue } from '../model.js';
import type { FrameReader } from './read-frames.js';

/** What the columns mean, by the key of the event. */
export const EVENT_COLUMNS = ['addr', 'size', 'stream'] as const;

/** What an `oom` event has instead of `addr`. */
export const DEVICE_FREE = 'device_free';

/** Whether a column of addresses, sizes or streams holds the value exactly. */
export function fitsColumn(value: PyValue): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Whether the column of times holds the value exactly; there NaN means that there is none. */
export function fitsTime(value: PyValue): value is number {
  return Number.isFinite(value);
}

/** Code of an action. One that is no text has the code of the empty text, and is kept beside the columns. @throws SnapshotFormatError */
export function actionCode(builder: DeviceTraceBuilder, action: PyValue): number {
  try {
    return builder.actionCode(typeof action === 'string' ? action : '');
  } catch (error) {
    throw new SnapshotFormatError((error as Error).message);
  }
}

/** Number of a row of keys. @throws SnapshotFormatError */
export function layoutNumber(builder: DeviceTraceBuilder, keys: readonly string[]): number {
  try {
    return builder.layout(keys);
  } catch (error) {
    throw new SnapshotFormatError((error as Error).message);
  }
}

/** Adds an event given as a dict. Linear in its keys. @throws SnapshotFormatError when it is no dict or a key is no text */
export function pushEvent(builder: DeviceTraceBuilder, value: PyValue, frames: FrameReader): void {
  if (!(value instanceof Map)) throw new SnapshotFormatError(`event ${builder.length} of a device trace is no dict`);
  const dict = value as PyDict;
  const keys = [...dict.keys()];
  if (!keys.every((key) => typeof key === 'string'))
    throw new SnapshotFormatError(`event ${builder.length} has a key that is no text`);
  const column = (key: string, fits: (value: PyValue) => value is number, otherwise: number): number => {
    const value = dict.get(key) ?? null;
    return fits(value) ? value : otherwise;
  };
  const [addr, size, stream] = EVENT_COLUMNS.map((key) => column(key, fitsColumn, 0)) as [number, number, number];
  // Of an out of memory PyTorch writes the free bytes of the device, where other events have their address.
  const address = dict.has('addr') ? addr : column(DEVICE_FREE, fitsColumn, 0);
  const stack = frames.stackOf(dict.get('frames') ?? null);
  const action = actionCode(builder, dict.get('action') ?? null);
  const event = builder.push(
    action,
    address,
    size,
    stream,
    column('time_us', fitsTime, Number.NaN),
    stack ?? EMPTY_STACK,
  );
  builder.setLayout(event, layoutNumber(builder, keys as string[]));
  for (const [key, value] of dict as ReadonlyMap<string, PyValue>) {
    if (!isKnownKey(key) || (key === DEVICE_FREE && dict.has('addr'))) builder.setExtra(event, key, value);
    else if (!fitsKey(key, value, stack)) builder.setOdd(event, key, value);
  }
}

/** The dict that an event is in a file. */
export function eventDict(trace: DeviceTrace, event: number, frames: FrameReader): PyDict {
  const columns: Record<string, () => PyValue> = {
    action: () => trace.actionNames[trace.actions[event] as number] as string,
    addr: () => trace.addresses[event] as number,
    [DEVICE_FREE]: () => trace.addresses[event] as number,
    size: () => trace.sizes[event] as number,
    stream: () => trace.streams[event] as number,
    time_us: () => trace.times[event] as number,
    frames: () => frames.list(trace.stacks[event] as number),
  };
  const layout = trace.layouts[trace.layoutOf?.[event] ?? 0] as readonly string[];
  return new Map(
    layout.map((key): [string, PyValue] => {
      const odd = trace.odd.get(event);
      if (odd?.has(key)) return [key, odd.get(key) as PyValue];
      const extra = trace.extras.get(key);
      if (!isKnownKey(key) || (extra?.codes[event] ?? 0) > 0)
        return [key, extra?.values[extra.codes[event] as number] ?? null];
      return [key, (columns[key] as () => PyValue)()];
    }),
  );
}

function isKnownKey(key: string): boolean {
  return (
    ['action', 'time_us', 'frames', DEVICE_FREE].includes(key) || (EVENT_COLUMNS as readonly string[]).includes(key)
  );
}

function fitsKey(key: string, value: PyValue, stack: number | null): boolean {
  if (key === 'action') return typeof value === 'string';
  if (key === 'frames') return stack !== null;
  return key === 'time_us' ? fitsTime(value) : fitsColumn(value);
}

// A small snapshot with something of everything, in the layout of today's PyTorch, pieces to build others of, and the checks that tests of
// readers share. Written as plain values, to be pickled by pickle-bytes.ts.

import { expect } from 'vitest';
import { SnapshotFormatError } from '../../lib/errors.js';
import { type PyValue, type Snapshot, Tuple } from '../../lib/snapshot/model.js';
import { readPickle } from '../../lib/snapshot/pickle/machine.js';
import { formatPickleSnapshot } from '../../lib/snapshot/pickle/write-pickle.js';
import { parseSnapshot } from '../../lib/snapshot/read-snapshot.js';
import { type Plain, type PlainDict, pickleOf } from './pickle-bytes.js';
import { python } from './python.js';

export const MIB = 2 ** 20;
export const BASE = 0x7f0000000000;

export const frame = (name: string, line: number | bigint = 1, more: PlainDict = {}): PlainDict => ({
  name,
  filename: `/app/${name}.py`,
  line,
  ...more,
});
export const main = frame('main', 10);
export const forward = frame('forward', 20);
export const optimizer = frame('step', 2n ** 64n - 1n);

export const block = (address: number, size: number, state: string, more: PlainDict = {}): PlainDict => ({
  address,
  size,
  requested_size: size - 12,
  state,
  frames: state === 'inactive' ? [] : [forward, main],
  ...more,
});

export const segment = (address: number, blocks: readonly PlainDict[], more: PlainDict = {}): PlainDict => {
  const sizes = blocks.map((item) => ({ size: item.size as number, state: item.state as string }));
  const total = (states: string) =>
    sizes.reduce((sum, { size, state }) => (states.includes(state) ? sum + size : sum), 0);
  return {
    device: 0,
    address,
    total_size: sizes.reduce((sum, { size }) => sum + size, 0),
    allocated_size: total('active_allocated'),
    active_size: total('active_allocated active_pending_free'),
    requested_size: 1000,
    stream: 0,
    segment_type: 'large',
    segment_pool_id: new Tuple([0, 0]),
    is_expandable: false,
    frames: [main],
    blocks,
    ...more,
  };
};

export const event = (action: string, addr: number, size: number, more: PlainDict = {}): PlainDict => ({
  action,
  addr,
  size,
  stream: 0,
  time_us: 1_772_552_894_612_167,
  frames: [forward, main],
  ...more,
});

export const settings = { PYTORCH_CUDA_ALLOC_CONF: '', max_split_size: -1, garbage_collection_threshold: 0 };

/** Two devices, several streams and pools, every kind of state. */
export const small = (): PlainDict => ({
  segments: [
    segment(BASE, [
      block(BASE, 8 * MIB, 'active_allocated'),
      block(BASE + 8 * MIB, 4 * MIB, 'active_pending_free'),
      block(BASE + 12 * MIB, 8 * MIB, 'inactive'),
    ]),
    segment(BASE + 64 * MIB, [block(BASE + 64 * MIB, 2 * MIB, 'inactive')], {
      stream: 94_231_235_633_184,
      segment_type: 'small',
      segment_pool_id: new Tuple([1, 7]),
      is_expandable: true,
    }),
    segment(BASE, [block(BASE, 2 * MIB, 'active_allocated', { frames: [optimizer] })], { device: 1 }),
  ],
  device_traces: [
    [
      event('segment_alloc', BASE, 20 * MIB),
      event('alloc', BASE, 8 * MIB - 12),
      event('free_requested', BASE, 8 * MIB - 12, { frames: [] }),
      event('free_completed', BASE, 8 * MIB - 12, { frames: [], stream: 94_231_235_633_184 }),
    ],
    [event('oom', 12345, 2 ** 40, { frames: [optimizer, main] }), event('snapshot', 0, 2 * MIB, { frames: [] })],
  ],
  allocator_settings: settings,
  external_annotations: [{ stage: 'START', name: 'step', device: 0, time_us: 1_772_552_894_612_000 }],
});

const concat = (pieces: readonly Uint8Array[]): Uint8Array => Uint8Array.from(Buffer.concat(pieces));

/** With the order of keys in it, which equality of maps ignores. */
function ordered(value: PyValue): unknown {
  if (value instanceof Tuple) return { tuple: value.items.map(ordered) };
  if (value instanceof Map) return { dict: [...value].map(([key, item]) => [ordered(key), ordered(item)]) };
  if (Array.isArray(value)) return (value as PyValue[]).map(ordered);
  return value;
}

/** The value that the snapshot is when it is written again. */
export const written = (snapshot: Snapshot): unknown => ordered(readPickle(concat(formatPickleSnapshot(snapshot))));

/** Reads it and checks that the model holds everything of it, in its order. */
export function readExactly(value: Plain): Snapshot {
  const bytes = pickleOf(value);
  const snapshot = parseSnapshot(bytes);
  expect(written(snapshot)).toEqual(ordered(readPickle(bytes)));
  return snapshot;
}

export function failure(read: () => unknown): SnapshotFormatError {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(SnapshotFormatError);
    expect((error as Error).message).not.toMatch(/\n/);
    return error as SnapshotFormatError;
  }
  throw new Error('it was read');
}

export const withTrace = (...events: Plain[]): PlainDict => ({ segments: [], device_traces: [events] });

/** How much of the whole a part has; fails unless what it has is the beginning of the whole. */
export function partOf(part: Snapshot, whole: Snapshot): number {
  const value = (snapshot: Snapshot) =>
    written({
      ...snapshot,
      segments: snapshot.segments,
      deviceTraces: [],
      extra: new Map(),
      layout: ['segments', 'device_traces'],
    });
  expect(value(part)).toEqual(value({ ...whole, segments: whole.segments.slice(0, part.segments.length) }));
  const entries = (snapshot: Snapshot) => snapshot.deviceTraces.map((trace) => trace.entries(snapshot.stacks));
  entries(part).forEach((trace, device) => {
    expect(trace).toEqual(entries(whole)[device]!.slice(0, trace.length));
  });
  return part.segments.length + entries(part).flat().length;
}

/** Cuts everywhere, and checks what can be read without and with salvage. Returns how much was read at each length. */
export function cutEverywhere(bytes: Uint8Array, step = 1): number[] {
  const whole = parseSnapshot(bytes);
  const sizes: number[] = [];
  for (let length = 0; length < bytes.length; length += step) {
    const cut = bytes.slice(0, length);
    expect(failure(() => parseSnapshot(cut)).position).toBe(length);
    let part: Snapshot;
    try {
      part = parseSnapshot(cut, { salvage: true });
    } catch (error) {
      expect(error).toBeInstanceOf(SnapshotFormatError);
      expect(sizes.every((size) => size === 0)).toBe(true);
      continue;
    }
    sizes.push(partOf(part, whole));
    const events = part.deviceTraces.reduce((sum, trace) => sum + trace.length, 0);
    expect(part.salvaged).toBe(
      `cut at byte ${length} of the file: ${events} events and ${part.segments.length} segments were read`,
    );
  }
  return sizes;
}

/** The same value in all protocols, by Python. */
export function allProtocols(bytes: Uint8Array): Uint8Array[] {
  const program = `
import pickle, sys
value = pickle.loads(bytes.fromhex(sys.stdin.read()))
for protocol in range(6):
    print(pickle.dumps(value, protocol).hex())
`;
  const lines = python(program, [], Buffer.from(bytes).toString('hex')).trim().split('\n');
  return lines.map((line) => Uint8Array.from(Buffer.from(line, 'hex')));
}

// The binary form there and back: the model is equal, and what is written of it as pickle and as JSON is the same to the byte.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseBinarySnapshot } from '../../../lib/snapshot/binary/read-binary.js';
import { formatBinarySnapshot } from '../../../lib/snapshot/binary/write-binary.js';
import { readSnapshot, readTrace, snapshotFormatOf, writeSnapshot } from '../../../lib/snapshot/files.js';
import { formatJsonSnapshot } from '../../../lib/snapshot/json/write-json.js';
import {
  ALLOC,
  type DeviceTrace,
  DeviceTraceBuilder,
  FREE_COMPLETED,
  type Frame,
  type PyValue,
  type Snapshot,
  StackTable,
} from '../../../lib/snapshot/model.js';
import { formatPickleSnapshot } from '../../../lib/snapshot/pickle/write-pickle.js';
import { parseSnapshot } from '../../../lib/snapshot/read-snapshot.js';
import { temporaryFolder } from '../../support/child.js';
import { ODD_VALUES, oddSnapshot } from '../../support/odd-snapshot.js';
import { pickleOf } from '../../support/pickle-bytes.js';
import { record } from '../../support/recordings.js';
import { SHARED_SNAPSHOTS } from '../../support/shared-snapshots.js';
import { event, small, withTrace } from '../../support/small-snapshot.js';

const binary = (snapshot: Snapshot): Buffer => Buffer.concat([...formatBinarySnapshot(snapshot)]);
const json = (snapshot: Snapshot): string => [...formatJsonSnapshot(snapshot)].join('');
const pickle = (snapshot: Snapshot): Buffer => Buffer.concat(formatPickleSnapshot(snapshot));

/** Columns as long as the trace, and maps with the order of their keys. */
function plainTrace({ length, extras, odd, layoutOf, ...trace }: DeviceTrace): unknown {
  const cut = (column: Uint8Array | Uint16Array | Uint32Array | Float64Array) => Array.from(column.subarray(0, length));
  return {
    ...trace,
    length,
    actions: cut(trace.actions),
    addresses: cut(trace.addresses),
    sizes: cut(trace.sizes),
    streams: cut(trace.streams),
    times: cut(trace.times),
    stacks: cut(trace.stacks),
    layoutOf: layoutOf === null ? null : cut(layoutOf),
    extras: Array.from(extras, ([key, { codes, values }]) => [key, cut(codes), values]),
    odd: Array.from(odd, ([row, values]) => [row, [...values]]),
  };
}

function plainStacks(stacks: StackTable): unknown {
  return {
    frames: Array.from({ length: stacks.frameCount }, (_, i) => stacks.frame(i)),
    rows: Array.from({ length: stacks.size }, (_, i) =>
      Array.from({ length: stacks.depth(i) }, (_, j) => stacks.frameNumber(i, j)),
    ),
  };
}

/** Whether what is read equals what was written, in every respect. Returns it. */
function thereAndBack(snapshot: Snapshot): Snapshot {
  const bytes = binary(snapshot);
  // Not at the beginning of its memory, as bytes in a page are.
  const moved = new Uint8Array(bytes.length + 3);
  moved.set(bytes, 3);
  const again = parseSnapshot(moved.subarray(3));
  const { stacks, deviceTraces, ...rest } = snapshot;
  const { stacks: readStacks, deviceTraces: readTraces, ...readRest } = again;
  expect(readRest).toStrictEqual(rest);
  expect(readTraces.map(plainTrace)).toStrictEqual(deviceTraces.map(plainTrace));
  expect(plainStacks(readStacks)).toStrictEqual(plainStacks(stacks));
  expect(json(again)).toBe(json(snapshot));
  expect(pickle(again).equals(pickle(snapshot))).toBe(true);
  expect(binary(again).equals(bytes)).toBe(true);
  return again;
}

const EMPTY: Snapshot = { segments: [], deviceTraces: [], stacks: new StackTable(), traceOverflowed: false };

describe('there and back', () => {
  it.each([
    // Through JSON, so that no object is there twice: a pickle would say that it is the same one.
    ['everything that a file may hold', parseSnapshot(Buffer.from(json(oddSnapshot())))],
    ['a small file', parseSnapshot(pickleOf(small()))],
    ['a bare list of segments', { ...oddSnapshot(), layout: [], extra: new Map() }],
    ['nothing', EMPTY],
    [
      'what was saved of a damaged file',
      { ...EMPTY, salvaged: 'cut at byte 7: half a pair \ud83d', traceOverflowed: true },
    ],
  ])('%s', (_, snapshot) => {
    thereAndBack(snapshot);
  });

  it.each([1, 2, 3, 4])('programs of our own: %i', (seed) => {
    const plan = { conf: seed % 2 === 0 ? 'expandable_segments:True' : '', capacity: 2 ** 29, pool: true };
    const { snapshot } = record({ seed, late: seed > 2, ring: 300, events: true, stacks: true, ...plan });
    expect(snapshot.segments.some(({ place }) => place !== undefined)).toBe(true);
    expect(snapshot.stacks.size).toBeGreaterThan(1);
    thereAndBack(snapshot);
  });

  it('unknown keys keep their order, and names that objects treat in their own way', () => {
    const extra = new Map<string, PyValue>([
      ['2', 'a'],
      ['1', 'b'],
      ['__proto__', ODD_VALUES],
      ['constructor', null],
    ]);
    const { segments: whole, stacks } = oddSnapshot();
    const { extra: read, segments } = thereAndBack({
      ...EMPTY,
      extra,
      stacks,
      segments: [{ ...whole[0]!, extra: new Map([...extra, ['more', 1]]) }],
    });
    expect([...read!.keys()]).toEqual(['2', '1', '__proto__', 'constructor']);
    expect([...segments[0]!.extra!.keys()]).toEqual(['2', '1', '__proto__', 'constructor', 'more']);
  });

  it('frames with any line and any text', () => {
    const stacks = new StackTable();
    const lines = [0, -1, 2 ** 53 - 1, -0, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2n ** 64n, -(2n ** 99n)];
    for (const line of lines) stacks.addFrame({ name: 'half \ud83d pair', filename: 'Grüße 漢字 🙂\0', line });
    stacks.internFrame({ name: '', filename: '', line: 1, layout: [], extra: new Map() });
    stacks.intern([0, 9, 9], 3);
    thereAndBack({ ...EMPTY, stacks });
  });

  it('events without time, and with values that no column holds', () => {
    const odd = event('alloc', 2 ** 40, 512, { time_us: null, size: 2n ** 70n, compile_context: [1, 'a'] });
    const { frames: _, ...short } = event('alloc', 2 ** 41, 512);
    const { deviceTraces } = thereAndBack(
      parseSnapshot(pickleOf(withTrace(odd, short, event('free_completed', 1, 2)))),
    );
    expect(Array.from(deviceTraces[0]!.times)).toEqual([Number.NaN, ...Array(2).fill(1_772_552_894_612_167)]);
    expect(deviceTraces[0]!.odd.get(0)).toEqual(
      new Map<string, PyValue>([
        ['size', 2n ** 70n],
        ['time_us', null],
      ]),
    );
  });

  const number = fc.oneof(
    fc.nat(3),
    fc.maxSafeNat(),
    fc.integer({ min: 2 ** 53 - 5, max: 2 ** 53 - 1 }),
    fc.nat(1000).map((n) => 0x7f00_0000_0000 + 512 * n),
  );
  it('columns of any numbers', () => {
    const events = fc.array(fc.tuple(number, number, number, fc.oneof(number, fc.double(), fc.constant(Number.NaN))), {
      maxLength: 60,
      size: 'max',
    });
    fc.assert(
      fc.property(events, fc.constantFrom(1, 1, 10), (rows, times) => {
        const trace = new DeviceTraceBuilder();
        for (const [address, size, stream, time] of Array(times).fill(rows).flat() as typeof rows)
          trace.push(trace.length % 2 === 0 ? ALLOC : FREE_COMPLETED, address, size, stream, time, 0);
        const finite = trace.build().times.every((time) => Number.isFinite(time) || Number.isNaN(time));
        fc.pre(finite);
        thereAndBack({ ...EMPTY, deviceTraces: [trace.build()] });
      }),
    );
  });
});

describe('the stacks that were read', () => {
  const frame = (line: number): Frame => ({ name: 'f', filename: 'f.py', line });

  it('are found when they are looked for, and new ones get the next numbers', () => {
    const stacks = new StackTable();
    const rows = Array.from({ length: 5000 }, (_, i) => [frame(i), frame(i % 7), frame(i % 11)]);
    const numbers = rows.map((row) => stacks.internFrames(row));
    const again = thereAndBack({ ...EMPTY, stacks }).stacks;
    expect(again.internFrame(frame(6))).toBe(stacks.internFrame(frame(6)));
    expect(rows.map((row) => again.internFrames(row))).toEqual(numbers);
    expect(again.internFrames([])).toBe(0);
    expect(again.internFrames([frame(-1)])).toBe(5001);
    expect(again.frames(5001)).toEqual([frame(-1)]);
    expect(again.internFrames([frame(-1)])).toBe(5001);
    expect(again.frames(numbers.at(-1)!)).toEqual(rows.at(-1));
    expect(again.cells).toHaveLength(3 * 5000 + 1);
  });
});

describe.skipIf(SHARED_SNAPSHOTS.length === 0)('real files', () => {
  it.each(SHARED_SNAPSHOTS)('$name', ({ path }) => {
    const snapshot = readSnapshot(path);
    thereAndBack(snapshot);
    const compressed = gzipSync(binary(snapshot)).length;
    expect(compressed).toBeLessThan(0.9 * gzipSync(readFileSync(path)).length);
    expect(compressed).toBeLessThan(0.8 * gzipSync(pickle(snapshot)).length);
  });
});

describe('a file', () => {
  it.each([
    ['a.cudalloc', 'binary'],
    ['a.CUDALLOC.gz', 'binary'],
    ['a.cudalloc.pickle', 'pickle'],
    ['cudalloc', 'pickle'],
  ])('of the name %s is %s', (name, format) => {
    expect(snapshotFormatOf(name)).toBe(format);
  });

  it('is written where its name says so, and read whatever its name', () => {
    const folder = temporaryFolder();
    const snapshot = oddSnapshot();
    writeSnapshot(snapshot, join(folder, 'a.cudalloc'));
    writeSnapshot(snapshot, join(folder, 'a.cudalloc.gz'));
    writeSnapshot(snapshot, join(folder, 'a'), { format: 'binary' });
    expect(readFileSync(join(folder, 'a.cudalloc')).equals(binary(snapshot))).toBe(true);
    for (const name of ['a.cudalloc', 'a.cudalloc.gz', 'a'])
      expect(json(readSnapshot(join(folder, name)))).toBe(json(snapshot));
    expect(() => readTrace(join(folder, 'a'))).toThrow(/this is a snapshot/);
  });
});

it('a long recording takes a small part of what its pickle takes, compressed', () => {
  const trace = new DeviceTraceBuilder();
  for (let i = 0; i < 30_000; i++) {
    const block = (i * 7919) % 500;
    trace.push(
      i % 2 === 0 ? ALLOC : FREE_COMPLETED,
      2 ** 46 + 2 ** 21 * block,
      512 * (1 + (block % 50)),
      0,
      1.7e15 + 5 * i + (i % 3),
      0,
    );
  }
  const snapshot = { ...EMPTY, deviceTraces: [trace.build()] };
  const bytes = binary(thereAndBack(snapshot));
  expect(bytes.length).toBeLessThan(12 * 30_000);
  expect(gzipSync(bytes).length).toBeLessThan(0.25 * gzipSync(pickle(snapshot)).length);
  expect(parseBinarySnapshot(bytes).deviceTraces[0]!.length).toBe(30_000);
});

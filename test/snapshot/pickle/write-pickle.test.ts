// What is read is written again as it was; what is ours has what PyTorch's tools take of a snapshot.

import { describe, expect, it } from 'vitest';
import { formatJsonSnapshot } from '../../../lib/snapshot/json/write-json.js';
import {
  ALLOC,
  DeviceTraceBuilder,
  OOM,
  type PyValue,
  type Snapshot,
  StackTable,
  Tuple,
} from '../../../lib/snapshot/model.js';
import { formatPickleSnapshot } from '../../../lib/snapshot/pickle/write-pickle.js';
import { parseSnapshot } from '../../../lib/snapshot/read-snapshot.js';
import { oddSnapshot } from '../../support/odd-snapshot.js';
import { record, snapshotOf } from '../../support/recordings.js';
import { viewerUnpickle } from '../../support/viewer-unpickle.js';

const pickle = (snapshot: Snapshot): Buffer => Buffer.concat(formatPickleSnapshot(snapshot));
const json = (snapshot: Snapshot): string => [...formatJsonSnapshot(snapshot)].join('');

type Dict = Readonly<Record<string, unknown>>;

function viewed(snapshot: Snapshot): Dict {
  return viewerUnpickle(pickle(snapshot)) as Dict;
}

const programs = [
  record({ seed: 3, conf: '', capacity: 2 ** 29, late: false, ring: 10_000, events: true, stacks: true, pool: true }),
  record({
    seed: 4,
    conf: 'expandable_segments:True',
    capacity: 2 ** 29,
    late: true,
    ring: 100,
    events: false,
    stacks: false,
  }),
].map(({ snapshot }) => snapshot);

describe("what PyTorch's tools take of our allocator's snapshots", () => {
  /** By what `_memory_viz.py` and `MemoryViz.js` read: key, and what it must be. */
  const isBytes = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
  const isText = (value: unknown): boolean => typeof value === 'string';
  const isList = Array.isArray;
  const isFrames = (value: unknown): boolean =>
    isList(value) && value.every((frame) => isText(frame.name) && isText(frame.filename) && isBytes(frame.line));

  function check(dict: Dict, wanted: Readonly<Record<string, (value: unknown) => boolean>>): void {
    for (const [key, isRight] of Object.entries(wanted)) {
      if (!isRight(dict[key])) throw new Error(`${key} is ${JSON.stringify(dict[key])} in ${JSON.stringify(dict)}`);
    }
  }

  it.each(programs.map((program, i) => [i, program] as const))('program %i', (_, program) => {
    const whole = viewed(program);
    check(whole, { segments: isList, device_traces: isList, external_annotations: isList });
    const segments = whole.segments as Dict[];
    expect(segments.length).toBeGreaterThan(0);
    for (const segment of segments) {
      check(segment, {
        device: isBytes,
        address: isBytes,
        total_size: isBytes,
        allocated_size: isBytes,
        active_size: isBytes,
        stream: isBytes,
        segment_type: (type) => type === 'small' || type === 'large',
        segment_pool_id: (id) => isList(id) && id.length === 2,
        is_expandable: (value) => typeof value === 'boolean',
        frames: isFrames,
        blocks: isList,
      });
      const blocks = segment.blocks as Dict[];
      for (const block of blocks) {
        check(block, {
          address: isBytes,
          size: isBytes,
          requested_size: isBytes,
          state: (state) => ['active_allocated', 'active_pending_free', 'inactive'].includes(state as string),
          frames: isFrames,
        });
      }
      // `segsum` asserts that a segment is its blocks.
      expect(blocks.reduce((sum, { size }) => sum + (size as number), 0)).toBe(segment.total_size);
    }
    const events = (whole.device_traces as Dict[][]).flat();
    expect(events.length).toBeGreaterThan(50);
    for (const event of events) {
      check(event, { action: isText, size: isBytes, stream: isBytes, time_us: isBytes, frames: isFrames });
      check(event, event.action === 'oom' ? { device_free: isBytes } : { addr: isBytes });
    }
    expect(events.some(({ action }) => action === 'oom')).toBe(true);
  });

  it('has the layout of the files of today', () => {
    const whole = viewed(programs[0]!);
    expect(Object.keys(whole)).toEqual(['segments', 'device_traces', 'allocator_settings', 'external_annotations']);
    const [segment] = whole.segments as Dict[];
    expect(Object.keys(segment!).join()).toBe(
      'device,address,total_size,allocated_size,active_size,requested_size,stream,segment_type,segment_pool_id,is_expandable,frames,blocks',
    );
    expect(Object.keys((segment!.blocks as Dict[])[0]!).join()).toBe('address,size,requested_size,state,frames');
    const [event] = (whole.device_traces as Dict[][])[0]!;
    expect(Object.keys(event!).join()).toBe('action,addr,size,stream,time_us,frames');
    expect(Object.keys((event!.frames as Dict[])[0]!).join()).toBe('name,filename,line');
  });

  it('works without settings, annotations and times', () => {
    const whole = viewed(
      snapshotOf([{ address: 2 ** 40, blocks: [[512, 100], [2 ** 21 - 512]] }], [['alloc', 2 ** 40, 100]]),
    );
    expect(whole).toEqual({
      segments: [
        {
          device: 0,
          address: 2 ** 40,
          total_size: 2 ** 21,
          allocated_size: 512,
          active_size: 512,
          requested_size: 100,
          stream: 0,
          segment_type: 'small',
          segment_pool_id: [0, 0],
          is_expandable: false,
          frames: [],
          blocks: [
            { address: 2 ** 40, size: 512, requested_size: 100, state: 'active_allocated', frames: [] },
            { address: 2 ** 40 + 512, size: 2 ** 21 - 512, requested_size: 0, state: 'inactive', frames: [] },
          ],
        },
      ],
      device_traces: [[{ action: 'alloc', addr: 2 ** 40, size: 100, stream: 0, frames: [] }]],
      external_annotations: [],
    });
  });
});

describe('what was read', () => {
  it('is written as it was read: keys, their order, values of other types', () => {
    const whole = viewerUnpickle(pickle(withoutBytes(oddSnapshot()))) as Dict;
    expect(Object.keys(whole)).toEqual(['later', 'device_traces', 'segments', 'allocator_settings', 'segment_count']);
    const [segment] = whole.segments as Dict[];
    expect(Object.keys(segment!)).toEqual([
      'blocks',
      'device',
      'address',
      'total_size',
      'stream',
      'segment_pool_id',
      'host',
      'requested_size',
    ]);
    expect(segment).toMatchObject({ host: 'machine-7', requested_size: 2n ** 70n, segment_pool_id: [0, 3] });
    const [used, free] = segment!.blocks as Dict[];
    expect(Object.keys(used!)).toEqual(['size', 'state', 'history']);
    expect(used!.history).toMatchObject([{ real_size: 100 }, { addr: 0x7f00_0000_0100, real_size: 20 }]);
    expect(Object.keys((used!.history as Dict[])[1]!)).toEqual(['addr', 'real_size']);
    expect(Object.keys(free!)).toEqual(['address', 'size', 'requested_size', 'state', 'frames']);
    const [first, second, third, fourth] = (whole.device_traces as Dict[][])[0]!;
    expect(Object.keys(first!)).toEqual(['action', 'addr', 'size', 'stream', 'time_us', 'compile_context', 'frames']);
    expect((first!.frames as Dict[])[0]).toEqual({
      filename: null,
      name: 'forward',
      line: 2n ** 64n - 1n,
      fx_node_op: 'call_function',
    });
    expect(second).toMatchObject({ size: 512, action: 'annotate', addr: Number(2n ** 60n) });
    expect(third).toMatchObject({ action: 'oom', device_free: 4096, size: 2 ** 30 });
    expect(fourth!.compile_context).toEqual({ graph: 3 });
  });

  it('comes back equal', () => {
    const snapshot = oddSnapshot();
    const again = parseSnapshot(pickle(snapshot));
    expect(pickle(again).equals(pickle(snapshot))).toBe(true);
  });

  it.each([0, 1])('comes back equal: program %i', (i) => {
    const again = parseSnapshot(pickle(programs[i]!));
    expect(pickle(parseSnapshot(pickle(again))).equals(pickle(programs[i]!))).toBe(true);
  });

  it('of a bare list of segments is a bare list of segments', () => {
    const snapshot: Snapshot = { ...programs[1]!, layout: [] };
    const list = viewerUnpickle(pickle(snapshot)) as Dict[];
    expect(list).toHaveLength(snapshot.segments.length);
    expect(list[0]!.address).toBe(snapshot.segments[0]!.address);
  });

  it('of a file that was cut before its events gets the keys that readers count on', () => {
    const { extra: _, ...rest } = programs[1]!;
    const whole = viewed({ ...rest, layout: ['segments'], deviceTraces: [], salvaged: 'cut at byte 100' });
    expect(Object.keys(whole)).toEqual(['segments', 'device_traces']);
  });
});

describe('sharing', () => {
  it('writes each frame, stack and text once', () => {
    const stacks = new StackTable();
    const frame = stacks.internFrame({ name: 'only_once', filename: '/a/file.py', line: 1 });
    const rows = [stacks.intern([frame], 1), stacks.intern([frame, frame], 2)];
    const trace = new DeviceTraceBuilder();
    for (let i = 0; i < 1000; i++) trace.push(ALLOC, 2 ** 40 + 512 * i, 100, 0, 10 ** 15 + i, rows[i % 2]!);
    const bytes = pickle({ segments: [], deviceTraces: [trace.build()], stacks, traceOverflowed: null });
    expect(bytes.toString('latin1').match(/only_once|file\.py|time_us/g)).toHaveLength(3);
    expect(bytes.length).toBeLessThan(50 * 1000);
    const events = (viewerUnpickle(bytes) as { device_traces: Dict[][] }).device_traces[0]!;
    expect(events).toHaveLength(1000);
    expect(events[999]!.frames).toBe(events[1]!.frames);
    expect((events[0]!.frames as unknown[])[0]).toBe((events[1]!.frames as unknown[])[1]);
  });

  it('gives an oom event the key that PyTorch gives it, unless the file said otherwise', () => {
    const build = (layout: readonly string[] | null): unknown => {
      const trace = new DeviceTraceBuilder();
      const event = trace.push(OOM, 77, 100, 0, 5, 0);
      if (layout !== null) trace.setLayout(event, trace.layout(layout));
      const whole = viewed({
        segments: [],
        deviceTraces: [trace.build()],
        stacks: new StackTable(),
        traceOverflowed: null,
      });
      return (whole.device_traces as unknown[][])[0]![0];
    };
    expect(build(null)).toEqual({ action: 'oom', device_free: 77, size: 100, stream: 0, time_us: 5, frames: [] });
    expect(build(['action', 'addr'])).toEqual({ action: 'oom', addr: 77 });
  });
});

describe('our JSON in between', () => {
  it.each([0, 1])('program %i', (i) => {
    const again = parseSnapshot(Buffer.from(json(programs[i]!)));
    expect(json(again)).toBe(json(programs[i]!));
    expect(pickle(again).equals(pickle(programs[i]!))).toBe(true);
  });

  it('a snapshot with everything', () => {
    const again = parseSnapshot(Buffer.from(json(oddSnapshot())));
    expect(json(again)).toBe(json(oddSnapshot()));
  });
});

/** The viewer page reads no bytes. */
function withoutBytes(snapshot: Snapshot): Snapshot {
  const clean = (value: PyValue): PyValue => {
    if (value instanceof Uint8Array) return null;
    if (value instanceof Tuple) return new Tuple(value.items.map(clean));
    return Array.isArray(value) ? (value as readonly PyValue[]).map(clean) : value;
  };
  const traces = snapshot.deviceTraces.map((trace) =>
    Object.assign(Object.create(Object.getPrototypeOf(trace)), trace, {
      extras: new Map([...trace.extras].map(([key, column]) => [key, { ...column, values: column.values.map(clean) }])),
    }),
  );
  const extra = new Map([...snapshot.extra!].map(([key, value]): [string, PyValue] => [key, clean(value)]));
  extra.set('later', [1, 'two']);
  return { ...snapshot, deviceTraces: traces, extra };
}

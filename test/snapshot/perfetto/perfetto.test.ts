import { describe, expect, it } from 'vitest';
import { callSite, formatCallSite } from '../../../lib/snapshot/call-site.js';
import { DeviceTraceBuilder, type PyValue, type Snapshot, StackTable } from '../../../lib/snapshot/model.js';
import { OpenRanges } from '../../../lib/snapshot/perfetto/open-ranges.js';
import { formatPerfettoTrace } from '../../../lib/snapshot/perfetto/perfetto.js';
import { record, snapshotOf } from '../../support/recordings.js';

interface TraceEvent {
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly name: string;
  readonly args: Readonly<Record<string, number | string>>;
}

function traceOf(snapshot: Snapshot): TraceEvent[] {
  return (JSON.parse([...formatPerfettoTrace(snapshot)].join('')) as { traceEvents: TraceEvent[] }).traceEvents;
}

const withPhase = (events: readonly TraceEvent[], phase: string) => events.filter(({ ph }) => ph === phase);

/** The slices of a group, by its name. */
function slices(events: readonly TraceEvent[], group: string): TraceEvent[] {
  const threads = new Set(
    events.filter(({ name, args }) => name === 'thread_name' && args.name === group).map(({ tid }) => tid),
  );
  return withPhase(events, 'X').filter(({ tid }) => threads.has(tid));
}

function counter(events: readonly TraceEvent[], name: string): [number, number][] {
  return withPhase(events, 'C')
    .filter((event) => event.name === name)
    .map(({ ts, args }) => [ts, args.bytes as number]);
}

const MIB = 2 ** 20;
const BASE = 2 ** 40;

describe('a recording by hand', () => {
  // 4 MiB: what was there before (freed at 1), a block that lives to the end, one that comes and goes, one that is there throughout.
  const snapshot = snapshotOf(
    [{ address: BASE, blocks: [[MIB], [MIB, MIB - 5], [MIB], [MIB, 100]] }],
    [
      ['alloc', BASE + MIB, MIB - 5],
      ['free_requested', BASE, 700],
      ['free_completed', BASE, 700],
      ['alloc', BASE + 2 * MIB, 1000, 3],
      ['free_requested', BASE + 2 * MIB, 1000, 3],
      ['segment_alloc', 2 * BASE, 2 * MIB],
      ['oom', 4096, 2 ** 30],
      ['segment_free', 2 * BASE, 2 * MIB],
      ['free_completed', BASE + 2 * MIB, 1000, 3],
    ],
  );
  const events = traceOf(snapshot);

  it('has the counters at each event, ending at the state', () => {
    expect(counter(events, 'reserved')).toEqual([
      [0, 4 * MIB],
      [5, 6 * MIB],
      [7, 4 * MIB],
    ]);
    // What was freed at 1 is known by its request only.
    const start = MIB + 1024;
    expect(counter(events, 'allocated')).toEqual([
      [0, start],
      [0, start + MIB],
      [1, 2 * MIB],
      [3, 2 * MIB + 1024],
      [4, 2 * MIB],
    ]);
    expect(counter(events, 'active').slice(-2)).toEqual([
      [3, 2 * MIB + 1024],
      [8, 2 * MIB],
    ]);
  });

  it('has a slice for the life of each block', () => {
    const blocks = slices(events, 'blocks').map(({ ts, dur, args: { address, size, stream, freed_us } }) => [
      address,
      ts,
      ts + dur,
      size,
      stream,
      freed_us,
    ]);
    const hex = (address: number): string => `0x${address.toString(16)}`;
    expect(blocks.sort()).toEqual([
      [hex(BASE), 0, 2, 700, 0, 1],
      [hex(BASE + MIB), 0, 8, MIB - 5, 0, undefined],
      [hex(BASE + 2 * MIB), 3, 8, 1000, 3, 4],
      [hex(BASE + 3 * MIB), 0, 8, 100, 0, undefined],
    ]);
  });

  it('has a slice for each segment, and an instant for the out of memory', () => {
    expect(slices(events, 'segments').map(({ name, ts, dur }) => [name, ts, ts + dur])).toEqual([
      ['2.00 MiB', 5, 7],
      ['4.00 MiB', 0, 8],
    ]);
    const [oom, ...others] = withPhase(events, 'i');
    expect(others).toEqual([]);
    expect(oom).toMatchObject({ name: 'out of memory', ts: 6, args: { requested: 2 ** 30, device_free: 4096 } });
  });

  it('names the device', () => {
    expect(events.find(({ name }) => name === 'process_name')!.args).toEqual({ name: 'device 0' });
  });
});

describe('expandable segments', () => {
  it('have a slice for each part that is mapped, cut where it is unmapped', () => {
    const events = traceOf(
      snapshotOf(
        [{ address: BASE, blocks: [[2 * MIB]] }],
        [
          ['segment_map', BASE, 20 * MIB],
          ['segment_map', BASE + 20 * MIB, 4 * MIB],
          ['segment_unmap', BASE + 2 * MIB, 20 * MIB],
          ['segment_unmap', BASE + 22 * MIB, 2 * MIB],
        ],
      ),
    );
    expect(slices(events, 'segments').map(({ name, ts, dur }) => [name, ts, ts + dur])).toEqual([
      ['18.00 MiB', 0, 2],
      ['2.00 MiB', 1, 2],
      ['2.00 MiB', 1, 3],
      ['2.00 MiB', 0, 3],
    ]);
    expect(counter(events, 'reserved').at(-1)).toEqual([3, 2 * MIB]);
  });

  it('open ranges keep what is not taken', () => {
    const ranges = new OpenRanges<string>((value) => `${value}'`);
    expect(ranges.add(0, 10, 'a')).toEqual([]);
    expect(ranges.add(20, 30, 'b')).toEqual([]);
    expect(ranges.gaps(5, 40)).toEqual([
      { start: 10, end: 20 },
      { start: 30, end: 40 },
    ]);
    expect(ranges.take(4, 25)).toEqual([
      { start: 4, end: 10, value: 'a' },
      { start: 20, end: 25, value: 'b' },
    ]);
    expect(ranges.add(2, 3, 'c')).toEqual([{ start: 2, end: 3, value: "a'" }]);
    expect(ranges.takeAll()).toEqual([
      { start: 0, end: 2, value: "a''" },
      { start: 2, end: 3, value: 'c' },
      { start: 3, end: 4, value: "a''" },
      { start: 25, end: 30, value: "b'" },
    ]);
  });
});

describe('times', () => {
  function timed(times: readonly number[], annotations: readonly PyValue[] = []): TraceEvent[] {
    const trace = new DeviceTraceBuilder();
    for (const [i, time] of times.entries()) trace.push(0, BASE + 512 * i, 100, 0, time, 0);
    return traceOf({
      segments: [],
      deviceTraces: [trace.build()],
      stacks: new StackTable(),
      traceOverflowed: null,
      extra: new Map([['external_annotations', annotations]]),
    });
  }
  const annotation = (stage: string, name: string, time: number, device = 0): PyValue =>
    new Map<PyValue, PyValue>([
      ['stage', stage],
      ['name', name],
      ['device', device],
      ['time_us', time],
    ]);

  it('never go back, and one that is missing is that of the event before', () => {
    const starts = slices(timed([1e15, 1e15 + 5, Number.NaN, 1e15 + 3, 1e15 + 9]), 'blocks').map(({ ts }) => ts - 1e15);
    expect(starts).toEqual([0, 5, 5, 5, 9]);
  });

  it('annotations are slices: nested, unclosed, without a start, of this device', () => {
    const events = timed(
      [1000, 2000],
      [
        annotation('END', 'before', 1100),
        annotation('START', 'step', 1200),
        annotation('START', 'step', 1300),
        annotation('END', 'step', 1400),
        annotation('START', 'open', 1500),
        annotation('END', 'step', 1600),
        annotation('START', 'elsewhere', 1700, 1),
        'no annotation',
      ],
    );
    expect(slices(events, 'annotations').map(({ name, ts, dur }) => [name, ts, ts + dur])).toEqual([
      ['before', 1000, 1100],
      ['step', 1300, 1400],
      ['step', 1200, 1600],
      ['open', 1500, 2000],
    ]);
  });

  it('nothing recorded is nothing to see', () => {
    const empty = { segments: [], deviceTraces: [], stacks: new StackTable(), traceOverflowed: null };
    expect(traceOf(empty)).toEqual([]);
  });
});

describe('random programs', () => {
  const first = Number(process.env.CUDALLOC_SEED ?? 77);
  const plans = ['', 'expandable_segments:True', 'max_split_size_mb:32'].flatMap((conf) =>
    [false, true].map((late) => ({ conf, late })),
  );

  it.each(plans)('$conf, late: $late', ({ conf, late }) => {
    for (let seed = first; seed < first + 4; seed++) {
      const ring = seed % 2 === 0 ? 150 : Number.POSITIVE_INFINITY;
      const { snapshot } = record({ seed, conf, capacity: 600 * MIB, late, ring, events: true, stacks: true });
      const events = traceOf(snapshot);
      const what = `seed ${seed}`;
      const sum = (pick: (segment: Snapshot['segments'][number]) => number): number =>
        snapshot.segments.reduce((total, segment) => total + pick(segment), 0);
      expect(counter(events, 'reserved').at(-1)?.[1], what).toBe(sum(({ totalSize }) => totalSize));
      expect(counter(events, 'allocated').at(-1)?.[1], what).toBe(sum(({ allocatedSize }) => allocatedSize));
      expect(counter(events, 'active').at(-1)?.[1], what).toBe(sum(({ activeSize }) => activeSize));

      // Between two times, what is open is what the counter says.
      const reserved = new Map(counter(events, 'reserved'));
      const times = [...reserved.keys()];
      const segments = slices(events, 'segments');
      for (const [i, time] of times.slice(0, -1).entries()) {
        const middle = (time + times[i + 1]!) / 2;
        const open = segments.filter(({ ts, dur }) => ts <= middle && middle < ts + dur);
        const bytes = open.reduce((total, { args }) => total + (args.size as number), 0);
        expect(bytes, `${what} after ${time}`).toBe(reserved.get(time));
      }
      expect(times.length, what).toBeGreaterThan(4);

      const lanes = new Map<number, TraceEvent[]>();
      for (const slice of withPhase(events, 'X')) lanes.set(slice.tid, [...(lanes.get(slice.tid) ?? []), slice]);
      for (const lane of lanes.values()) {
        lane.sort((a, b) => a.ts - b.ts || a.dur - b.dur);
        for (const [i, slice] of lane.entries()) {
          expect(slice.dur).toBeGreaterThanOrEqual(0);
          if (i > 0) expect(lane[i - 1]!.ts + lane[i - 1]!.dur, what).toBeLessThanOrEqual(slice.ts);
        }
      }
      const allocations = snapshot.deviceTraces[0]!.actions.subarray(0, snapshot.deviceTraces[0]!.length);
      expect(slices(events, 'blocks').length).toBeGreaterThanOrEqual(
        allocations.filter((action) => action === 0).length,
      );
      expect(slices(events, 'blocks').some(({ args }) => String(args.stack).includes('(recordings.ts:'))).toBe(true);
    }
  });
});

describe('call sites', () => {
  const site = (...frames: readonly (readonly [name: string, filename: string])[]): string | null => {
    const stacks = new StackTable();
    const found = callSite(
      stacks,
      stacks.internFrames(frames.map(([name, filename], i) => ({ name, filename, line: i }))),
    );
    return found === null ? null : formatCallSite(found);
  };
  const unwind = ['torch::unwind::unwind()', '??'] as const;
  const linear = ['forward', '/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py'] as const;

  it.each([
    [
      'the program',
      site(unwind, linear, ['step', '/home/me/train.py'], ['main', '/home/me/main.py']),
      'step (train.py:2)',
    ],
    [
      'an installed package',
      site(linear, ['attend', '/lib/python3.11/site-packages/diffusers/attention.py']),
      'attend (attention.py:1)',
    ],
    ['a script of a library', site(unwind, linear), 'forward (linear.py:1)'],
    ['a program on Windows', site(['step', 'C:\\me\\train.py']), 'step (train.py:0)'],
    [
      'a program of Node',
      site(['internal', 'node:internal/main.js'], ['serve', '/me/node_modules/x/y.js'], ['main', '/me/a.ts']),
      'main (a.ts:2)',
    ],
    [
      'an operator',
      site(unwind, ['at::detail::empty(int)', ''], ['at::_ops::bmm::call(at::Tensor const&)', '']),
      'at::_ops::bmm::call',
    ],
    [
      'other machine code',
      site(unwind, ['c10::CUDACachingAllocator::malloc()', ''], ['at::(anonymous namespace)::run(int)', '']),
      'at::run',
    ],
    ['nothing but the recording', site(unwind), 'torch::unwind::unwind'],
    ['no stack', site(), null],
  ])('%s', (_, found, wanted) => {
    expect(found).toBe(wanted);
  });
});

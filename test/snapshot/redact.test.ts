// A redacted snapshot says nothing that a person could have named, and replays and analyses as the original does.

import { describe, expect, it } from 'vitest';
import { openRecording, replayExactly } from '../../lib/analysis/replay/snapshot-replay.js';
import { analyze } from '../../lib/analysis/report/report.js';
import { UnsupportedError } from '../../lib/errors.js';
import { callSite } from '../../lib/snapshot/call-site.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { formatJsonSnapshot } from '../../lib/snapshot/json/write-json.js';
import {
  type DeviceTrace,
  DeviceTraceBuilder,
  type PyDict,
  type PyValue,
  type Snapshot,
  StackTable,
  Tuple,
} from '../../lib/snapshot/model.js';
import { formatPickleSnapshot } from '../../lib/snapshot/pickle/write-pickle.js';
import { FIRST_TIME_US, redact } from '../../lib/snapshot/redact.js';
import { oddSnapshot } from '../support/odd-snapshot.js';
import { record } from '../support/recordings.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';

/** Words of PyTorch and of this package, which are no secret. */
const KNOWN = new Set(
  [
    'segments device_traces allocator_settings external_annotations device address total_size allocated_size active_size',
    'requested_size stream segment_type segment_pool_id is_expandable frames blocks size state action addr time_us name',
    'filename line history real_size device_free compile_context user_metadata stage PYTORCH_CUDA_ALLOC_CONF max_split_size',
    'garbage_collection_threshold expandable_segments pinned_num_register_threads release_lock_on_cudamalloc START',
    'pinned_use_cuda_host_register graph_capture_record_stream_reuse roundup_power2_divisions large_segment_size small large',
    'max_non_split_rounding_size per_process_memory_fraction expandable_segments_page_size cudalloc policy backend',
    'total_memory pytorch alloc free_requested free_completed segment_alloc segment_free segment_map segment_unmap snapshot',
    'active_allocated active_pending_free inactive 1024 2048 4096 8192 16384 32768 fx_node_op annotate',
    'max_split_size_mb:128 request default category',
  ].flatMap((words) => words.split(' ')),
);

function textsOf(snapshot: Snapshot): Set<string> {
  const texts = new Set<string>();
  const add = (value: PyValue): void => {
    if (typeof value === 'string') texts.add(value);
    else if (value instanceof Tuple) value.items.forEach(add);
    else if (value instanceof Map) for (const [key, item] of value as PyDict) [key, item].forEach(add);
    else if (Array.isArray(value)) (value as readonly PyValue[]).forEach(add);
  };
  const addRead = (item: { layout?: readonly string[]; extra?: ReadonlyMap<string, PyValue> }): void => {
    for (const key of item.layout ?? []) texts.add(key);
    if (item.extra !== undefined) add(item.extra);
  };
  addRead(snapshot);
  for (const segment of snapshot.segments) {
    addRead(segment);
    for (const block of segment.blocks) [block, ...(block.history ?? [])].forEach(addRead);
  }
  for (let i = 0; i < snapshot.stacks.frameCount; i++) {
    const frame = snapshot.stacks.frame(i);
    addRead(frame);
    texts.add(frame.name).add(frame.filename);
  }
  for (const trace of snapshot.deviceTraces) {
    for (const name of trace.actionNames) texts.add(name);
    for (const [key, { values }] of trace.extras) add([key, ...values]);
    for (const values of trace.odd.values()) add(values);
    for (const layout of trace.layouts) for (const key of layout) texts.add(key);
  }
  return texts;
}

/** Texts of the original that are in the copy, as pickle or JSON, and are not known words or parts of them. */
function leaks(original: Snapshot, copy: Snapshot): string[] {
  const known = [...KNOWN].join(' ');
  const secrets = [...textsOf(original)].filter((text) => text.length >= 4 && !known.includes(text));
  const outputs = [
    Buffer.concat(formatPickleSnapshot(copy)).toString('latin1'),
    Buffer.from([...formatJsonSnapshot(copy)].join('')).toString('latin1'),
  ];
  return secrets.filter((text) => {
    const bytes = Buffer.from(text).toString('latin1');
    return outputs.some((output) => output.includes(bytes));
  });
}

/** What a report says apart from names and the time of day. */
function withoutNames(report: unknown): unknown {
  const text = JSON.stringify(report, (key, value) =>
    key === 'name' || key === 'filename' || key.endsWith('time_us') || key === 'timeline' ? null : value,
  );
  return JSON.parse(text);
}

function replayed(snapshot: Snapshot): unknown {
  try {
    const { report, fidelity } = replayExactly(openRecording(snapshot));
    return { report, fidelity };
  } catch (error) {
    if (error instanceof UnsupportedError) return error.message;
    throw error;
  }
}

const columns = ({ length, actions, addresses, sizes, streams }: DeviceTrace): unknown =>
  [actions, addresses, sizes, streams].map((column) => column.slice(0, length));

describe('a snapshot with everything', () => {
  const original = oddSnapshot();
  const copy = redact(original);

  it('keeps no text of the original but known words', () => {
    expect(textsOf(original)).toContain('machine-7');
    expect(leaks(original, copy)).toEqual([]);
  });

  it('finds what is left, when something is', () => {
    expect(leaks(original, original)).toEqual(
      expect.arrayContaining(['machine-7', '/home/someone/train.py', 'surprise', 'call_function', 'plain', 'later']),
    );
  });

  it('keeps numbers, and what PyTorch says itself', () => {
    expect(copy.deviceTraces.map(columns)).toEqual(original.deviceTraces.map(columns));
    expect(copy.segments[0]).toMatchObject({ address: 0x7f00_0000_0000, segmentPoolId: [0, 3] });
    expect([...copy.extra!.values()]).toContain(2);
    expect(copy.extra!.get('allocator_settings')).toEqual(original.extra!.get('allocator_settings'));
    expect(copy.deviceTraces[0]!.extras.get('compile_context')!.values[1]).toBe('N/A');
    expect(copy.deviceTraces[0]!.odd.get(1)!.get('addr')).toBe(2n ** 60n);
    expect(copy.segments[0]!.extra!.get('requested_size')).toBe(2n ** 70n);
  });

  it('has bytes of the same length, all zero', () => {
    const later = [...copy.extra!.values()].find((value) => Array.isArray(value)) as readonly PyValue[];
    const bytes = later.filter((value) => value instanceof Uint8Array);
    expect(bytes).toEqual([new Uint8Array(4), new Uint8Array(300)]);
  });

  it('leaves the original as it was', () => {
    expect([...formatJsonSnapshot(original)]).toEqual([...formatJsonSnapshot(oddSnapshot())]);
  });
});

describe('names', () => {
  const stacks = new StackTable();
  const frames: [name: string, filename: string][] = [
    ['torch::unwind::unwind()', '??'],
    ['forward', '/home/ann/venv/lib/python3.11/site-packages/torch/nn/linear.py'],
    ['forward', '/home/ann/secret/model.py'],
    ['main', '/home/ann/secret/model.py'],
    ['run', 'C:\\Ann\\secret\\run.cpp'],
    ['internal', 'node:internal/modules'],
  ];
  const stack = stacks.internFrames(frames.map(([name, filename], line) => ({ name, filename, line })));
  const copy = redact({ segments: [], deviceTraces: [], stacks, traceOverflowed: null });

  it('become tokens, the same by the same; of a file its kind is left', () => {
    expect(copy.stacks.frames(stack).map(({ name, filename, line }) => [name, filename, line])).toEqual([
      ['frame_1', '??', 0],
      ['frame_2', 'torch/file_1.py', 1],
      ['frame_2', 'file_2.py', 2],
      ['frame_3', 'file_2.py', 3],
      ['frame_4', 'file_3', 4],
      ['frame_5', 'node:file_4', 5],
    ]);
  });

  it('leave the call site where it is', () => {
    expect(callSite(stacks, stack)).toMatchObject({ name: 'forward', line: 2 });
    expect(callSite(copy.stacks, stack)).toMatchObject({ name: 'frame_2', filename: 'file_2.py', line: 2 });
  });
});

describe('settings', () => {
  const kept = (text: string): PyValue =>
    (
      redact({
        segments: [],
        deviceTraces: [],
        stacks: new StackTable(),
        traceOverflowed: null,
        extra: new Map([['allocator_settings', new Map<PyValue, PyValue>([['PYTORCH_CUDA_ALLOC_CONF', text]])]]),
      }).extra!.get('allocator_settings') as PyDict
    ).get('PYTORCH_CUDA_ALLOC_CONF')!;

  it.each([
    '',
    'expandable_segments:True',
    'max_split_size_mb:128,garbage_collection_threshold:0.8,',
    'roundup_power2_divisions:[256:1,512:2,>:4]',
    'backend:cudaMallocAsync',
  ])('"%s" is kept', (text) => {
    expect(kept(text)).toBe(text);
  });

  it.each(['owner:ann', 'max_split_size_mb:ann', 'backend:/home/ann/lib.so', 'expandable_segments:True ann', 'ann'])(
    '"%s" is not',
    (text) => {
      expect(kept(text)).toBe('text_1');
    },
  );
});

describe('times', () => {
  const trace = new DeviceTraceBuilder();
  const start = 1_783_874_422_766_414;
  for (const time of [start + 3, Number.NaN, start, start + 10]) trace.push(0, 2 ** 40, 100, 0, time, 0);
  const annotation = new Map<PyValue, PyValue>([
    ['name', 'Optimizer.step#Ann'],
    ['stage', 'START'],
    ['time_us', start - 5],
  ]);
  const copy = redact({
    segments: [],
    deviceTraces: [trace.build()],
    stacks: new StackTable(),
    traceOverflowed: null,
    extra: new Map<string, PyValue>([['external_annotations', [annotation]]]),
  });

  it('begin at a constant and keep their differences', () => {
    const { times, length } = copy.deviceTraces[0]!;
    expect([...times.subarray(0, length)]).toEqual([FIRST_TIME_US + 3, Number.NaN, FIRST_TIME_US, FIRST_TIME_US + 10]);
    expect(copy.extra!.get('external_annotations')).toEqual([
      new Map<PyValue, PyValue>([
        ['name', 'text_1'],
        ['stage', 'START'],
        ['time_us', FIRST_TIME_US - 5],
      ]),
    ]);
  });
});

describe('random programs', () => {
  it.each(['', 'expandable_segments:True', 'max_split_size_mb:32'])('settings "%s"', (conf) => {
    const first = Number(process.env.CUDALLOC_SEED ?? 20261201);
    for (let seed = first; seed < first + 3; seed++) {
      const plan = { seed, conf, capacity: 600 * 2 ** 20, late: true, ring: 300, events: true, stacks: true };
      const { snapshot } = record(plan);
      const copy = redact(snapshot);
      expect(replayed(copy), `seed ${seed}`).toEqual(replayed(snapshot));
      expect(withoutNames(analyze(copy)), `seed ${seed}`).toEqual(withoutNames(analyze(snapshot)));
      expect(leaks(snapshot, copy), `seed ${seed}`).toEqual(conf === '' ? [] : [conf]);
    }
  });
});

describe.skipIf(SHARED_SNAPSHOTS.length === 0)('real files', () => {
  it.each(SHARED_SNAPSHOTS)('$name', ({ path }) => {
    const snapshot = readSnapshot(path);
    const copy = redact(snapshot);
    expect(leaks(snapshot, copy)).toEqual([]);
    expect(replayed(copy)).toEqual(replayed(snapshot));
    expect(withoutNames(analyze(copy))).toEqual(withoutNames(analyze(snapshot)));
    expect(copy.stacks.size).toBe(snapshot.stacks.size);
  });
});

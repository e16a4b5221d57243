import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SnapshotFormatError } from '../../lib/errors.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { FREE_COMPLETED, type PyValue, type Snapshot, Tuple } from '../../lib/snapshot/model.js';
import { readPickle } from '../../lib/snapshot/pickle-machine.js';
import { parseSnapshot } from '../../lib/snapshot/read-snapshot.js';
import { formatJsonSnapshot } from '../../lib/snapshot/write-json.js';
import { formatPickleSnapshot } from '../../lib/snapshot/write-pickle.js';
import { temporaryFolder } from '../support/child.js';
import { HAS_PYTHON, type Plain, type PlainDict, pickleOf, python } from '../support/pickle-bytes.js';
import { sharedData } from '../support/shared-data.js';

const MIB = 2 ** 20;
const BASE = 0x7f0000000000;

const frame = (name: string, line: number | bigint = 1, more: PlainDict = {}): PlainDict => ({
  name,
  filename: `/app/${name}.py`,
  line,
  ...more,
});
const main = frame('main', 10);
const forward = frame('forward', 20);
const optimizer = frame('step', 2n ** 64n - 1n);

const block = (address: number, size: number, state: string, more: PlainDict = {}): PlainDict => ({
  address,
  size,
  requested_size: size - 12,
  state,
  frames: state === 'inactive' ? [] : [forward, main],
  ...more,
});

const segment = (address: number, blocks: readonly PlainDict[], more: PlainDict = {}): PlainDict => {
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

const event = (action: string, addr: number, size: number, more: PlainDict = {}): PlainDict => ({
  action,
  addr,
  size,
  stream: 0,
  time_us: 1_772_552_894_612_167,
  frames: [forward, main],
  ...more,
});

const settings = { PYTORCH_CUDA_ALLOC_CONF: '', max_split_size: -1, garbage_collection_threshold: 0 };

/** Two devices, several streams and pools, every kind of state. */
const small = (): PlainDict => ({
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
const written = (snapshot: Snapshot): unknown => ordered(readPickle(concat(formatPickleSnapshot(snapshot))));

/** Reads it and checks that the model holds everything of it, in its order. */
function readExactly(value: Plain): Snapshot {
  const bytes = pickleOf(value);
  const snapshot = parseSnapshot(bytes);
  expect(written(snapshot)).toEqual(ordered(readPickle(bytes)));
  return snapshot;
}

function failure(read: () => unknown): SnapshotFormatError {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(SnapshotFormatError);
    expect((error as Error).message).not.toMatch(/\n/);
    return error as SnapshotFormatError;
  }
  throw new Error('it was read');
}

const withTrace = (...events: Plain[]): PlainDict => ({ segments: [], device_traces: [events] });
const withBlocks = (blocks: readonly Plain[], more: PlainDict = {}): PlainDict => ({
  segments: [segment(BASE, blocks as readonly PlainDict[], more)],
});

describe('the current layout', () => {
  const snapshot = readExactly(small());

  it('segments and blocks', () => {
    expect(snapshot.segments.map(({ blocks, stack, ...rest }) => rest)).toEqual([
      {
        device: 0,
        address: BASE,
        totalSize: 20 * MIB,
        allocatedSize: 8 * MIB,
        activeSize: 12 * MIB,
        requestedSize: 1000,
        stream: 0,
        segmentType: 'large',
        segmentPoolId: [0, 0],
        isExpandable: false,
      },
      expect.objectContaining({
        stream: 94_231_235_633_184,
        segmentType: 'small',
        segmentPoolId: [1, 7],
        isExpandable: true,
      }),
      expect.objectContaining({ device: 1 }),
    ]);
    expect(snapshot.segments[0]!.blocks.map(({ stack, ...rest }) => rest)).toEqual([
      { address: BASE, size: 8 * MIB, requestedSize: 8 * MIB - 12, state: 'active_allocated' },
      { address: BASE + 8 * MIB, size: 4 * MIB, requestedSize: 4 * MIB - 12, state: 'active_pending_free' },
      { address: BASE + 12 * MIB, size: 8 * MIB, requestedSize: 8 * MIB - 12, state: 'inactive' },
    ]);
  });

  it('events of each device', () => {
    const [first, second] = snapshot.deviceTraces;
    expect([first!.length, second!.length, snapshot.deviceTraces.length]).toEqual([4, 2, 2]);
    expect(first!.entry(3, snapshot.stacks)).toEqual({
      action: 'free_completed',
      address: BASE,
      size: 8 * MIB - 12,
      stream: 94_231_235_633_184,
      timeUs: 1_772_552_894_612_167,
      frames: [],
    });
    expect(first!.actions[3]).toBe(FREE_COMPLETED);
    expect(second!.entries(snapshot.stacks).map(({ action, size }) => [action, size])).toEqual([
      ['oom', 2 ** 40],
      ['snapshot', 2 * MIB],
    ]);
    expect(second!.entry(0, snapshot.stacks).frames).toEqual([
      { name: 'step', filename: '/app/step.py', line: 2n ** 64n - 1n },
      { name: 'main', filename: '/app/main.py', line: 10 },
    ]);
  });

  it('stacks are stored once, whoever has them', () => {
    const { segments, deviceTraces, stacks } = snapshot;
    expect(deviceTraces[0]!.stacks[1]).toBe(segments[0]!.blocks[0]!.stack);
    expect([stacks.size, stacks.frameCount]).toEqual([5, 3]);
  });

  it('everything else is kept beside it', () => {
    expect([...snapshot.extra!.keys()]).toEqual(['allocator_settings', 'external_annotations']);
    expect([snapshot.layout, snapshot.traceOverflowed, snapshot.salvaged]).toEqual([undefined, null, undefined]);
  });
});

describe('other layouts, each held exactly', () => {
  it('the oldest: a history instead of addresses and frames', () => {
    const old = frame('old', 3);
    const reordered = { filename: '/app/x.py', name: 'x', line: 4 };
    const history = [
      { addr: BASE + 512, real_size: 500, frames: [old, reordered] },
      { addr: BASE + 1024, real_size: 300, frames: [old] },
    ];
    const { blocks: _, frames: _f, is_expandable: _e, segment_pool_id: _p, ...rest } = segment(BASE, []);
    const snapshot = readExactly({
      segments: [
        {
          ...rest,
          total_size: 4096,
          blocks: [
            { size: 1024, requested_size: 1000, state: 'active_allocated', history },
            { size: 2048, requested_size: 0, state: 'inactive', history: [history[1]!] },
            { size: 1024, requested_size: 0, state: 'inactive' },
          ],
        },
      ],
      device_traces: [[{ action: 'snapshot', addr: 0, size: 1024, stream: 0 }]],
    });
    const [first, second, third] = snapshot.segments[0]!.blocks;
    expect([first!.address, second!.address, third!.address]).toEqual([BASE, BASE + 1024, BASE + 3072]);
    expect(first!.history!.map(({ address, realSize }) => [address, realSize])).toEqual([
      [BASE + 512, 500],
      [BASE + 1024, 300],
    ]);
    expect(snapshot.stacks.frames(first!.stack).map(({ name }) => name)).toEqual(['old', 'x']);
    expect([second!.stack, third!.stack, third!.history]).toEqual([0, 0, undefined]);
    expect(snapshot.deviceTraces[0]!.entry(0, snapshot.stacks).timeUs).toBe(null);
    expect(snapshot.layout).toEqual(['segments', 'device_traces']);
  });

  it('the newest: contexts, metadata, keys and actions that nobody knows yet', () => {
    const metadata = { phase: 'forward', tags: ['a', 1, null] };
    const snapshot = readExactly({
      ...small(),
      device_traces: [
        [
          event('alloc', BASE, 512, { compile_context: 'N/A', user_metadata: '' }),
          event('alloc', BASE + 512, 512, { compile_context: 'N/A', user_metadata: metadata }),
          event('alloc', BASE + 1024, 512, { compile_context: '0/1', user_metadata: metadata }),
          event('workspace_snapshot', 0, 0, { pool_id: new Tuple([0, 1]) }),
        ],
      ],
      host_segments: [],
      host_traces: [event('alloc', 1, 2), event('free', 1, 2)],
      allocator_settings: { ...settings, trace_alloc_max_entries: 4, trace_alloc_overflowed: true },
    });
    const [trace] = snapshot.deviceTraces;
    expect(trace!.entry(3, snapshot.stacks).action).toBe('workspace_snapshot');
    const contexts = trace!.extras.get('compile_context')!;
    expect(Array.from(contexts.codes.subarray(0, 4), (code) => contexts.values[code])).toEqual([
      'N/A',
      'N/A',
      '0/1',
      null,
    ]);
    expect(trace!.extras.get('user_metadata')!.codes[1]).toBe(trace!.extras.get('user_metadata')!.codes[2]);
    expect(snapshot.traceOverflowed).toBe(true);
    expect(snapshot.layout).toContain('host_traces');
  });

  it('the bare list of segments', () => {
    const snapshot = readExactly(small().segments as Plain);
    expect([snapshot.segments.length, snapshot.deviceTraces, snapshot.layout]).toEqual([3, [], []]);
  });

  it('no traces, and traces of fewer devices than there are segments of', () => {
    expect(readExactly({ segments: small().segments! }).deviceTraces).toEqual([]);
    const short = readExactly({ ...small(), device_traces: [[]] });
    expect([short.deviceTraces.length, short.deviceTraces[0]!.length]).toEqual([1, 0]);
  });

  it('no segments, and no events', () => {
    expect(readExactly({ device_traces: [[], [event('alloc', 1, 2)]] }).deviceTraces[1]!.length).toBe(1);
    expect(readExactly({ segments: [], device_traces: [] }).segments).toEqual([]);
  });

  it('frames with more keys, fewer, another order and other types', () => {
    const frames = [
      frame('a', 1, { fx_node_op: 'call', fx_original_trace: 'x' }),
      frame('a', 1, { fx_node_op: 'other' }),
      frame('a', 1, { fx_node_op: ['other'] }),
      { filename: 'f', name: 'a', line: 1 },
      { name: 'a', line: 1 },
      { name: 'a', filename: null, line: null },
      { name: 'a', filename: 'f', line: 2 ** 40 },
      { name: 'a', filename: 'f', line: -1 },
      { name: 'a', filename: 'f', line: true },
    ];
    const snapshot = readExactly(withTrace(...frames.map((item) => event('alloc', BASE, 1, { frames: [item, main] }))));
    expect([snapshot.stacks.size, snapshot.stacks.frameCount]).toEqual([10, 10]);
  });

  it('values that no column and no field of the model can hold', () => {
    const trace = [
      event('alloc', BASE, -5),
      event('alloc', BASE, 1.5, { time_us: null }),
      { action: 'alloc', addr: 2n ** 64n - 1n, size: 2n ** 53n, stream: 'x', time_us: 'never', frames: null },
      event('alloc', BASE, 1, { frames: [1] }),
      event('alloc', BASE, 1, { frames: [{}] }),
      event('alloc', BASE, 1, { frames: 'text', time_us: Number.POSITIVE_INFINITY }),
      event('alloc', BASE, 1, { action: 7 }),
      event('alloc', BASE, 1, { action: null, stream: true }),
      { action: 'alloc', addr: 1 },
      { action: 'alloc', size: 1 },
      { addr: 1, size: 1 },
      {},
    ];
    const snapshot = readExactly({
      segments: [
        segment(
          BASE,
          [
            block(BASE, 512, 'active_allocated', { requested_size: 'many', frames: 'none', color: 'red' }),
            block(BASE + 512, 512, 'active_awaiting_free', { history: [{ addr: 'x' }] }),
          ],
          {
            stream: null,
            segment_type: 'huge',
            segment_pool_id: [0, 0],
            is_expandable: 1,
            requested_size: -1,
            owner: new Map<PyValue, PyValue>([[1, new Tuple([])]]),
          },
        ),
      ],
      device_traces: [trace],
      7: 'seven',
    });
    const entries = snapshot.deviceTraces[0]!.entries(snapshot.stacks);
    expect(entries.map(({ size }) => size)).toEqual([0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 0]);
    expect(entries[2]).toEqual({ action: 'alloc', address: 0, size: 0, stream: 0, timeUs: null, frames: [] });
    const [first, second] = snapshot.segments[0]!.blocks;
    expect([first!.requestedSize, first!.stack, second!.state]).toEqual([512, 0, 'active_pending_free']);
    expect(snapshot.segments[0]).toMatchObject({ stream: 0, segmentType: 'small', segmentPoolId: [0, 0] });
  });

  it('dicts that look like events or frames where none belong', () => {
    readExactly({
      ...small(),
      external_annotations: [event('alloc', 1, 2), main, [main, forward], { note: event('free', 3, 4) }],
      device_traces: [
        [event('alloc', 1, 2, { user_metadata: { action: 'x', addr: 5 } }), event('alloc', 1, 2, { cause: main })],
      ],
    });
  });

  it('an event that stands in two lists', () => {
    const twice = event('alloc', 1, 2);
    const snapshot = readExactly({ segments: [], device_traces: [[twice, event('alloc', 3, 4), twice], [twice]] });
    expect(snapshot.deviceTraces[0]!.entries(snapshot.stacks).map(({ address }) => address)).toEqual([1, 3, 1]);
  });

  it('stacks and traces so long that Python writes them in parts', () => {
    const deep = Array.from({ length: 2500 }, (_, i) => frame(`f${i}`, i));
    const events = Array.from({ length: 2500 }, (_, i) =>
      event('alloc', BASE + i, i, { frames: i % 1000 === 0 ? deep : [deep[i]!] }),
    );
    const snapshot = readExactly({ segments: [], device_traces: [events, events.map((item) => ({ ...item }))] });
    expect(snapshot.stacks.depth(snapshot.deviceTraces[1]!.stacks[0]!)).toBe(2500);
    expect(snapshot.deviceTraces.map(({ length }) => length)).toEqual([2500, 2500]);
    expect(snapshot.deviceTraces[1]!.entry(2499, snapshot.stacks)).toMatchObject({ address: BASE + 2499, size: 2499 });
  });

  it('more different rows of keys than are remembered', () => {
    const events = Array.from({ length: 200 }, (_, i) => event('alloc', i, i, { [`key${i}`]: i }));
    expect(readExactly(withTrace(...events)).deviceTraces[0]!.layouts.length).toBe(200);
  });
});

describe('what analysis relies on', () => {
  const inSegment = (more: PlainDict) => ({ segments: [segment(BASE, [block(BASE, 512, 'inactive')], more)] });
  it.each<[string, PlainDict, string]>([
    [
      'a negative size',
      withBlocks([block(BASE, -512, 'inactive')]),
      'segment 0: total_size is -512, not a whole number of bytes from 0 to 2^53',
    ],
    ['a fractional size', withBlocks([block(BASE, 1.5, 'inactive')]), 'segment 0: total_size is 1.5, not'],
    [
      'a size as text',
      withBlocks([block(BASE, 512, 'inactive', { size: '512' })], { total_size: 512 }),
      'size is 512, not',
    ],
    [
      'no size',
      { segments: [{ address: BASE, total_size: 5, blocks: [{ state: 'inactive' }] }] },
      'segment 0, block 0: size is missing',
    ],
    ['an address beyond 2^53', inSegment({ address: 2n ** 63n }), 'segment 0: address is 9223372036854775808, not'],
    ['no total size', inSegment({ total_size: null }), 'segment 0: total_size is no number, not'],
    ['no blocks', inSegment({ blocks: null }), 'segment 0 has no list of blocks'],
    ['a device that is none', inSegment({ device: -1 }), 'segment 0: device is -1'],
    [
      'a gap between blocks',
      withBlocks([block(BASE, 512, 'inactive'), block(BASE + 1024, 512, 'inactive')]),
      `segment 0, block 1 is at ${BASE + 1024}, the one before it ends at ${BASE + 512}`,
    ],
    ['a first block that is elsewhere', withBlocks([block(BASE + 1, 512, 'inactive')]), 'segment 0, block 0 is at'],
    [
      'a segment that is not full',
      inSegment({ total_size: 1024 }),
      'segment 0: its blocks have 512 bytes, the segment 1024',
    ],
    ['a state that is none', withBlocks([block(BASE, 512, 'lost')]), 'segment 0, block 0 has no known state'],
    ['a segment that is no dict', { segments: [1] }, 'segment 0 is no dict'],
    [
      'a block that is no dict',
      { segments: [{ address: 1, total_size: 0, blocks: ['x'] }] },
      'segment 0, block 0 is no dict',
    ],
    [
      'segments that overlap',
      {
        segments: [
          segment(BASE + 512, [block(BASE + 512, 512, 'inactive')]),
          segment(BASE + 4096, [block(BASE + 4096, 512, 'inactive')]),
          segment(BASE, [block(BASE, 1024, 'inactive')]),
        ],
      },
      'segments 0 and 2 overlap',
    ],
    ['an event that is none', withTrace(event('alloc', 1, 2), 7), 'event 1 of a device trace is no dict'],
    ['an event with a key that is no text', withTrace(new Map([[1, 2]])), 'event 0 has a key that is no text'],
    ['a trace that is none', { segments: [], device_traces: [7] }, 'device_traces is not a list of lists of events'],
    [
      'events without a trace',
      { segments: [], device_traces: [event('alloc', 1, 2)] },
      'device_traces is not a list of lists',
    ],
  ])('%s is an error that names it', (_, value, message) => {
    expect(failure(() => parseSnapshot(pickleOf(value))).message).toContain(message);
  });

  it('sizes that an old file leaves out are those of its blocks', () => {
    const blocks = [block(BASE, 512, 'active_allocated'), block(BASE + 512, 1024, 'active_pending_free')];
    const { requested_size: _, ...bare } = blocks[0]!;
    const snapshot = readExactly({ segments: [{ address: BASE, total_size: 1536, blocks: [bare, blocks[1]!] }] });
    expect(snapshot.segments[0]).toMatchObject({ allocatedSize: 512, activeSize: 1536, requestedSize: 512 + 1012 });
  });
});

describe('what is no snapshot', () => {
  it.each<[string, Uint8Array, number | null, string]>([
    ['an empty file', new Uint8Array(), 0, 'byte 0: the file is empty'],
    [
      'text',
      Buffer.from('import os\nprint(1)\n'),
      0,
      'byte 0: this is no memory snapshot, but text that begins with "import os\\nprint(1)\\n"',
    ],
    ['a web page', Buffer.from('<!DOCTYPE html><html>'), 0, 'byte 0: this is no memory snapshot, but a web page'],
    [
      'a zip archive',
      Buffer.from('PK\x03\x04rest'),
      0,
      'byte 0: this is no memory snapshot, but a zip archive, as torch.save writes for tensors',
    ],
    [
      'gzip data',
      gzipSync('x'),
      0,
      'byte 0: this is no memory snapshot, but gzip data, which have to be decompressed first',
    ],
    [
      'other data',
      Uint8Array.of(0x7f, 0x45, 0x4c, 0x46, 1, 2),
      0,
      'byte 0: this is no memory snapshot, but data that begin with 7f 45 4c 46 01 02',
    ],
    [
      'a class',
      Buffer.from('ctorch\nTensor\n.'),
      0,
      'byte 0: opcode GLOBAL (torch.Tensor): only plain data are read, no classes',
    ],
    ['a pickle of None', pickleOf(null), null, 'this pickle is not a memory snapshot: None'],
    ['a pickle of a number', pickleOf(7), null, 'this pickle is not a memory snapshot: a number'],
    ['a pickle of text', pickleOf('segments'), null, 'this pickle is not a memory snapshot: a str'],
    ['a pickle of a tuple', pickleOf(new Tuple([1])), null, 'this pickle is not a memory snapshot: a tuple'],
    ['a pickle of bytes', pickleOf(Uint8Array.of(1)), null, 'this pickle is not a memory snapshot: bytes'],
    ['a pickle of a list', pickleOf([1, 2]), null, 'this pickle is not a memory snapshot: a list, but not of segments'],
    [
      'a pickle of an event',
      pickleOf(event('alloc', 1, 2)),
      null,
      'this pickle is not a memory snapshot: a dict with other keys',
    ],
    [
      'a pickle of stack frames',
      pickleOf([main]),
      null,
      'this pickle is not a memory snapshot: a list of other things',
    ],
    [
      'a pickle of another dict',
      pickleOf({ state_dict: 1 }),
      null,
      'this pickle is not a memory snapshot: a dict with the keys "state_dict"',
    ],
    ['a pickle of an empty dict', pickleOf({}), null, 'this pickle is not a memory snapshot: a dict with no keys'],
    [
      'segments that are no list',
      pickleOf({ segments: {} }),
      null,
      'this pickle is not a memory snapshot: segments is no list',
    ],
    [
      'JSON of something else',
      Buffer.from('{"a": 1}'),
      null,
      'this JSON is not a memory snapshot: a dict with the keys "a"',
    ],
    ['a JSON list', Buffer.from('[1, 2]'), null, 'this JSON is not a memory snapshot: a list, but not of segments'],
    ['bad JSON', Buffer.from('{"é": nul}'), 10, 'byte 10: this is not JSON'],
  ])('%s', (_, bytes, position, message) => {
    for (const salvage of [false, true]) {
      const error = failure(() => parseSnapshot(bytes, { salvage }));
      expect([error.position, error.message]).toEqual([position, message]);
    }
  });

  it('a directory, and a file that is not there', () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'inner'));
    expect(failure(() => readSnapshot(join(folder, 'inner'))).message).toBe(
      `${join(folder, 'inner')} is a directory, not a snapshot file`,
    );
    expect(() => readSnapshot(join(folder, 'none.pickle'))).toThrow(/^ENOENT: .*none\.pickle'$/);
  });

  it('a class among the data, with the byte where it is', () => {
    const bytes = pickleOf({ ...small(), extra: 'ctorch\nTensor\n' });
    const at = Buffer.from(bytes).indexOf('ctorch');
    bytes.copyWithin(at - 2, at);
    expect(failure(() => parseSnapshot(bytes, { salvage: true })).message).toBe(
      `byte ${at - 2}: opcode GLOBAL (torch.Tensor): only plain data are read, no classes`,
    );
  });
});

/** How much of the whole a part has; fails unless what it has is the beginning of the whole. */
function partOf(part: Snapshot, whole: Snapshot): number {
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
function cutEverywhere(bytes: Uint8Array, step = 1): number[] {
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

describe('cut files', () => {
  const everything = 3 + 4 + 2;

  it('a pickle cut at any byte, and what is salvaged of it', () => {
    for (const protocol of [2, 4] as const) {
      const sizes = cutEverywhere(pickleOf(small(), protocol));
      // More of the file is never less of the snapshot, but for an item that waits for its list.
      sizes.forEach((size, i) => {
        expect(size).toBeGreaterThanOrEqual((sizes[i - 1] ?? 0) - 1);
      });
      expect([sizes[0], sizes.at(-1)]).toEqual([0, everything]);
      expect(new Set(sizes).size).toBe(everything + 1);
    }
  });

  it('a pickle of one device and one segment, whose items are written one by one', () => {
    const bytes = pickleOf({
      segments: [small().segments].flat().slice(0, 1) as Plain,
      device_traces: [[event('alloc', 1, 2)]],
    });
    const sizes = cutEverywhere(bytes);
    expect(sizes.at(-1)).toBe(2);
  });

  it('a bare list of segments', () => {
    expect(cutEverywhere(pickleOf(small().segments as Plain)).at(-1)).toBe(3);
  });

  it('keeps what else was complete', () => {
    const bytes = pickleOf(small());
    const part = parseSnapshot(bytes.slice(0, bytes.length - 1), { salvage: true });
    expect([...part.extra!.keys()]).toEqual(['allocator_settings', 'external_annotations']);
  });

  it.skipIf(!HAS_PYTHON)('pickles of every protocol, cut at 200 places (needs python3)', () => {
    for (const bytes of allProtocols(pickleOf(small()))) {
      const sizes = cutEverywhere(bytes, Math.ceil(bytes.length / 200));
      expect(sizes.at(-1)).toBeGreaterThanOrEqual(everything - 1);
    }
  });

  it('damage is salvaged up to where it is', () => {
    const bytes = pickleOf(small());
    const at = Buffer.from(bytes).indexOf('free_completed') - 2;
    bytes[at] = 0xff;
    expect(failure(() => parseSnapshot(bytes)).message).toBe(`byte ${at}: opcode 0xff is none of a pickle's`);
    expect(parseSnapshot(bytes, { salvage: true }).salvaged).toBe(
      `damaged, byte ${at}: opcode 0xff is none of a pickle's: 3 events and 3 segments were read`,
    );
  });

  it('gzip, whole, cut and damaged', () => {
    const path = join(temporaryFolder(), 'snapshot.anything');
    const bytes = pickleOf({ ...small(), noise: Array.from({ length: 500 }, (_, i) => Math.sin(i)) });
    const whole = parseSnapshot(bytes);
    const packed = gzipSync(bytes);
    writeFileSync(path, packed);
    expect(written(readSnapshot(path))).toEqual(written(whole));
    writeFileSync(path, packed.subarray(0, packed.length - 100));
    expect(failure(() => readSnapshot(path)).message).toBe(
      `the gzip data are cut: they end at byte ${packed.length - 100} of the file`,
    );
    const part = readSnapshot(path, { salvage: true });
    expect(partOf(part, whole)).toBe(everything);
    expect(part.salvaged).toMatch(/^cut at byte \d+ of the decompressed file: 6 events and 3 segments were read$/);
    writeFileSync(path, packed.subarray(0, packed.length - 4));
    expect(readSnapshot(path, { salvage: true }).salvaged).toBe(
      'the end of the gzip data is missing: all of the snapshot was read',
    );
    const damaged = Uint8Array.from(packed);
    damaged.fill(0xff, 40, 60);
    writeFileSync(path, damaged);
    expect(failure(() => readSnapshot(path, { salvage: true })).message).toMatch(/^the gzip data are damaged \(/);
    writeFileSync(path, packed.subarray(0, 12));
    expect(failure(() => readSnapshot(path, { salvage: true })).message).toBe('byte 0: the file is empty');
  });
});

/** The same value in all protocols, by Python. */
function allProtocols(bytes: Uint8Array): Uint8Array[] {
  const program = `
import pickle, sys
value = pickle.loads(bytes.fromhex(sys.stdin.read()))
for protocol in range(6):
    print(pickle.dumps(value, protocol).hex())
`;
  const lines = python(program, [], Buffer.from(bytes).toString('hex')).toString().trim().split('\n');
  return lines.map((line) => Uint8Array.from(Buffer.from(line, 'hex')));
}

it.skipIf(!HAS_PYTHON)('every protocol gives the same snapshot (needs python3)', () => {
  const bytes = pickleOf(small());
  const expected = written(parseSnapshot(bytes));
  for (const pickle of allProtocols(bytes)) expect(written(parseSnapshot(pickle))).toEqual(expected);
});

it('protocol 2, as the C++ pickler writes it, and 5', () => {
  const expected = written(parseSnapshot(pickleOf(small(), 4)));
  expect(written(parseSnapshot(pickleOf(small(), 2)))).toEqual(expected);
  expect(written(parseSnapshot(pickleOf(small(), 5)))).toEqual(expected);
});

describe('JSON', () => {
  /** As json.dumps writes it. */
  function json(value: Plain): string {
    if (typeof value === 'bigint') return String(value);
    if (value instanceof Tuple) return json(value.items);
    if (Array.isArray(value)) return `[${(value as Plain[]).map(json).join(', ')}]`;
    if (typeof value !== 'object' || value === null) return JSON.stringify(value);
    const entries = Object.entries(value as PlainDict).map(([key, item]) => `${JSON.stringify(key)}: ${json(item)}`);
    return `{${entries.join(', ')}}`;
  }
  const text = json(small());
  const bytesOf = (source: string): Uint8Array => Uint8Array.from(Buffer.from(source));

  it("in PyTorch's layout is the same as the pickle", () => {
    expect(text).toContain('18446744073709551615');
    const expected = written(parseSnapshot(pickleOf(small())));
    expect(written(parseSnapshot(bytesOf(text)))).toEqual(expected);
    expect(written(parseSnapshot(bytesOf(`\ufeff \n\t${text}\n`)))).toEqual(expected);
  });

  it('a bare list of segments', () => {
    expect(parseSnapshot(bytesOf(json(small().segments as Plain))).segments.length).toBe(3);
  });

  it('integers beyond 2^53 lose no digit, and texts with digits stay as they are', () => {
    const notes = {
      large: 9007199254740993n,
      negative: -123456789012345678901n,
      fits: 9007199254740991,
      text: 'int:9007199254740993',
      digits: 'an id 123456789012345678901 in "quotes"',
      float: 0.12345678901234566,
    };
    const snapshot = parseSnapshot(bytesOf(json({ segments: [], notes })));
    expect(snapshot.extra!.get('notes')).toEqual(new Map(Object.entries(notes)));
    expect(parseSnapshot(bytesOf('{"segments": [], "x": [1e400, 12345678901234567000.5]}')).extra!.get('x')).toEqual([
      Number.POSITIVE_INFINITY,
      12345678901234567000,
    ]);
  });

  it('cut at any byte, and what is salvaged of it', () => {
    const sizes = cutEverywhere(bytesOf(text));
    sizes.forEach((size, i) => {
      expect(size).toBeGreaterThanOrEqual(sizes[i - 1] ?? 0);
    });
    expect([sizes[0], sizes.at(-1)]).toEqual([0, 9]);
  });

  it('our own', () => {
    const snapshot = parseSnapshot(pickleOf(small()));
    const own = [...formatJsonSnapshot(snapshot)].join('');
    expect(written(parseSnapshot(bytesOf(own)))).toEqual(written(snapshot));
    expect(failure(() => parseSnapshot(bytesOf(own.slice(0, 500)))).position).toBe(500);
    failure(() => parseSnapshot(bytesOf(own.slice(0, 40)), { salvage: true }));
  });

  it('nesting is bounded', () => {
    const deep = `{"segments": [], "x": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    expect(failure(() => parseSnapshot(bytesOf(deep))).message).toMatch(/nested deeper than 500/);
  });
});

const real = sharedData('snapshots');

describe.skipIf(real === null)('real files of PyTorch (../shared/snapshots)', () => {
  // What Python finds in them: segments, blocks, events, different stacks (without the empty one) and frames, reserved, allocated,
  // the sum of the sizes of all events.
  it.each<[string, number, number, number, number, number, number, number, number]>([
    ['cuda-forward-bf16.pickle', 43, 178, 2811, 133, 363, 861929472, 525286400, 3396197376],
    ['cuda-inference-medium.pickle', 108, 239, 3840, 88, 243, 3204448256, 1703677952, 169965994272],
    ['cuda-old-layout-1.3b.pickle', 257, 948, 1, 30, 61, 7608467456, 5683450880, 8896512],
    ['cuda-old-layout-oom.pickle', 176, 463, 1, 3, 12, 11844714496, 11840159744, 11840159744],
    ['cuda-small-97-events.pickle', 9, 20, 97, 42, 245, 3781165056, 31719936, 27993309980],
    ['cuda-training-fragmented.pickle', 234, 1031, 22331, 188, 538, 25178406912, 6874481152, 496016003469],
    ['state-only.pickle', 259, 868, 1, 17, 35, 17133731840, 16397578240, 8],
  ])('%s', (name, segments, blocks, events, stacks, frames, reserved, allocated, sizes) => {
    const snapshot = readSnapshot(`${real}/${name}`);
    const all = snapshot.segments.flatMap((item) => item.blocks);
    const sum = (numbers: Iterable<number>) => [...numbers].reduce((total, number) => total + number, 0);
    const live = all.filter(({ state }) => state === 'active_allocated');
    const trace = snapshot.deviceTraces[0]!;
    expect([
      snapshot.segments.length,
      all.length,
      trace.length,
      snapshot.stacks.size - 1,
      snapshot.stacks.frameCount,
      sum(snapshot.segments.map(({ totalSize }) => totalSize)),
      sum(live.map(({ size }) => size)),
      sum(trace.sizes.subarray(0, trace.length)),
    ]).toEqual([segments, blocks, events, stacks, frames, reserved, allocated, sizes]);
    expect([snapshot.deviceTraces.length, snapshot.salvaged]).toEqual([1, undefined]);
  });
});

it('nothing but a SnapshotFormatError comes out of damaged files, and soon', () => {
  const files = [pickleOf(small(), 2), pickleOf(small(), 4)];
  const changes = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(fc.constantFrom(...files), changes, fc.nat(), fc.boolean(), (bytes, edits, cut, salvage) => {
      const damaged = bytes.slice(0, cut % 3 === 0 ? cut % bytes.length : bytes.length);
      for (const [at, byte] of edits) damaged[at % damaged.length] = byte;
      const begin = performance.now();
      try {
        parseSnapshot(damaged, { salvage });
      } catch (error) {
        expect(error).toBeInstanceOf(SnapshotFormatError);
      }
      expect(performance.now() - begin).toBeLessThan(1000);
    }),
    { numRuns: 10_000 },
  );
});

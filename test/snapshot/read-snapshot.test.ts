import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SnapshotFormatError } from '../../lib/errors.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { FREE_COMPLETED, type PyValue, Tuple } from '../../lib/snapshot/model.js';
import { parseSnapshot } from '../../lib/snapshot/read-snapshot.js';
import { temporaryFolder } from '../support/child.js';
import { type Plain, pickleOf } from '../support/pickle-bytes.js';
import { hasPython } from '../support/python.js';
import { sharedData } from '../support/shared-data.js';
import {
  allProtocols,
  BASE,
  block,
  event,
  failure,
  forward,
  frame,
  MIB,
  main,
  readExactly,
  segment,
  settings,
  small,
  withTrace,
  written,
} from '../support/small-snapshot.js';

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

it.skipIf(!hasPython)('every protocol gives the same snapshot (needs python3)', () => {
  const bytes = pickleOf(small());
  const expected = written(parseSnapshot(bytes));
  for (const pickle of allProtocols(bytes)) expect(written(parseSnapshot(pickle))).toEqual(expected);
});

it('protocol 2, as the C++ pickler writes it, and 5', () => {
  const expected = written(parseSnapshot(pickleOf(small(), 4)));
  expect(written(parseSnapshot(pickleOf(small(), 2)))).toEqual(expected);
  expect(written(parseSnapshot(pickleOf(small(), 5)))).toEqual(expected);
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

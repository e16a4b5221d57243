// Snapshots of our own allocator as files: Python reads them with the layout of PyTorch's, they come back as they were, and they replay.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from 'vitest';
import { openRecording, replayExactly } from '../lib/analysis/replay/snapshot-replay.js';
import { CachingAllocator, OutOfMemoryError, readSnapshot, type Snapshot, writeSnapshot } from '../lib/index.js';
import { MIB, open, thrownBy } from './support/devices.js';
import { OWN_PROGRAMS } from './support/own-programs.js';
import { record } from './support/recordings.js';

const scratch = mkdtempSync(join(tmpdir(), 'cudalloc-dump-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
let files = 0;
const fresh = (extension = '.pickle'): string => join(scratch, `${files++}${extension}`);

/** PyTorch's layout today: keys in their order, and the type of each value. */
const LAYOUT = {
  snapshot: { segments: 'list', device_traces: 'list', allocator_settings: 'dict', external_annotations: 'list' },
  segment: {
    device: 'int',
    address: 'int',
    total_size: 'int',
    allocated_size: 'int',
    active_size: 'int',
    requested_size: 'int',
    stream: 'int',
    segment_type: 'str',
    segment_pool_id: 'tuple',
    is_expandable: 'bool',
    frames: 'list',
    blocks: 'list',
  },
  block: { address: 'int', size: 'int', requested_size: 'int', state: 'str', frames: 'list' },
  event: { action: 'str', addr: 'int', size: 'int', stream: 'int', time_us: 'int', frames: 'list' },
  oom: { action: 'str', device_free: 'int', size: 'int', stream: 'int', time_us: 'int', frames: 'list' },
  frame: { name: 'str', filename: 'str', line: 'int' },
} as const;

/** Of the settings; further ones come after these. A float that is whole is written as an integer, which Python takes for equal. */
const SETTINGS = [
  ['PYTORCH_CUDA_ALLOC_CONF', ['str']],
  ['max_split_size', ['int']],
  ['garbage_collection_threshold', ['float', 'int']],
  ['expandable_segments', ['bool']],
  ['pinned_num_register_threads', ['int']],
  ['release_lock_on_cudamalloc', ['bool']],
  ['pinned_use_cuda_host_register', ['bool']],
  ['graph_capture_record_stream_reuse', ['bool']],
  ['roundup_power2_divisions', ['dict']],
] as const;

const PYTHON = `
import json, pickle, sys
document = pickle.load(open(sys.argv[1], 'rb'))
seen = {}
def see(level, item):
    seen.setdefault(level, {})[json.dumps([[key, type(value).__name__] for key, value in item.items()])] = True
def see_frames(frames):
    for frame in frames: see('frame', frame)
see('snapshot', document)
see('settings', document['allocator_settings'])
see('roundup', document['allocator_settings']['roundup_power2_divisions'])
for segment in document['segments']:
    see('segment', segment)
    see_frames(segment['frames'])
    for block in segment['blocks']:
        see('block', block)
        see_frames(block['frames'])
for trace in document['device_traces']:
    for event in trace:
        see('oom' if event['action'] == 'oom' else 'event', event)
        see_frames(event['frames'])
print(json.dumps({'layouts': {level: [json.loads(row) for row in rows] for level, rows in seen.items()}, 'document': document}))
`;

interface Loaded {
  /** By level, the different rows of keys and types. */
  readonly layouts: Readonly<Record<string, readonly (readonly (readonly [string, string])[])[]>>;
  readonly document: Readonly<Record<string, unknown>>;
}

function loadInPython(path: string): Loaded {
  const run = spawnSync('python3', ['-c', PYTHON, path], { encoding: 'utf8', maxBuffer: 2 ** 28 });
  expect(run.stderr).toBe('');
  return JSON.parse(run.stdout) as Loaded;
}

/** A snapshot as PyTorch lays it out, a tuple being a list as in JSON. */
function asPyTorch({ segments, deviceTraces, stacks }: Snapshot): unknown {
  const frames = (stack: number): unknown =>
    stacks.frames(stack).map(({ name, filename, line }) => ({ name, filename, line }));
  return {
    segments: segments.map((segment) => ({
      device: segment.device,
      address: segment.address,
      total_size: segment.totalSize,
      allocated_size: segment.allocatedSize,
      active_size: segment.activeSize,
      requested_size: segment.requestedSize,
      stream: segment.stream,
      segment_type: segment.segmentType,
      segment_pool_id: segment.segmentPoolId,
      is_expandable: segment.isExpandable,
      frames: frames(segment.stack),
      blocks: segment.blocks.map(({ address, size, requestedSize, state, stack }) => ({
        address,
        size,
        requested_size: requestedSize,
        state,
        frames: frames(stack),
      })),
    })),
    device_traces: deviceTraces.map((trace) =>
      trace.entries(stacks).map(({ action, address, size, stream, timeUs }, event) => ({
        action,
        [action === 'oom' ? 'device_free' : 'addr']: address,
        size,
        stream,
        time_us: timeUs,
        frames: frames(trace.stacks[event] as number),
      })),
    ),
  };
}

const python = spawnSync('python3', ['--version']).status === 0;

describe.each(OWN_PROGRAMS)('$name', ({ run }) => {
  test.skipIf(!python)('Python reads it with the layout of PyTorch (needs python3)', () => {
    const allocator = run();
    const path = fresh();
    allocator.dumpSnapshot(path);
    const { layouts, document } = loadInPython(path);
    for (const [level, keys] of Object.entries(LAYOUT)) {
      for (const row of layouts[level] ?? []) expect(row, level).toEqual(Object.entries(keys));
    }
    const settings = layouts.settings?.[0] ?? [];
    expect(settings.slice(0, SETTINGS.length).map(([key]) => key)).toEqual(SETTINGS.map(([key]) => key));
    for (const [at, [key, types]] of SETTINGS.entries()) expect(types, key).toContain(settings[at]?.[1]);
    expect(layouts.roundup?.[0]).toEqual(Array.from({ length: 16 }, (_, at) => [String(2 ** at), 'int']));
    expect(document).toMatchObject(asPyTorch(allocator.snapshot()) as object);
  });

  test.each(['.pickle', '.pickle.gz', '.json', '.json.gz'])('comes back from %s as it was', (extension) => {
    const allocator = run();
    const path = fresh(extension);
    allocator.dumpSnapshot(path);
    const snapshot = allocator.snapshot();
    const read = readSnapshot(path);
    expect(asPyTorch(read)).toEqual(asPyTorch(snapshot));
    expect(read.extra).toEqual(snapshot.extra);
  });
});

test('the programs have every kind of segment, block and event', () => {
  const snapshots = OWN_PROGRAMS.map(({ run }) => run().snapshot());
  const segments = snapshots.flatMap((snapshot) => snapshot.segments);
  const values = <T>(list: readonly T[]): T[] => [...new Set(list)].sort();
  expect(values(segments.map(({ segmentType }) => segmentType))).toEqual(['large', 'small']);
  expect(values(segments.map(({ isExpandable }) => isExpandable))).toEqual([false, true]);
  expect(values(segments.map(({ device }) => device))).toEqual([0, 1]);
  expect(values(segments.map(({ segmentPoolId }) => segmentPoolId.join()))).toEqual(['0,0', '0,1']);
  expect(values(segments.map(({ stack }) => stack > 0))).toEqual([false, true]);
  expect(values(segments.flatMap(({ blocks }) => blocks.map(({ state }) => state)))).toEqual([
    'active_allocated',
    'active_pending_free',
    'inactive',
  ]);
  const actions = snapshots.flatMap(({ deviceTraces, stacks }) =>
    deviceTraces.flatMap((trace) => trace.entries(stacks).map(({ action }) => action)),
  );
  expect(values(actions)).toEqual([
    'alloc',
    'free_completed',
    'free_requested',
    'oom',
    'segment_alloc',
    'segment_free',
    'segment_map',
    'segment_unmap',
  ]);
});

test('a segment has the stack of the request that it was made for, a block that of its own', () => {
  const allocator = new CachingAllocator({ device: open('sim') });
  allocator.recordMemoryHistory({ stacks: true });
  const firstOne = (): number => allocator.malloc(512);
  const nextOne = (): number => allocator.malloc(512);
  firstOne();
  nextOne();
  const path = fresh();
  allocator.dumpSnapshot(path);
  const { segments, stacks } = readSnapshot(path);
  const nameOf = (stack: number | undefined): string | undefined => stacks.frames(stack ?? 0)[0]?.name;
  expect(segments).toHaveLength(1);
  expect(nameOf(segments[0]?.stack)).toBe('firstOne');
  expect(segments[0]?.blocks.map(({ stack }) => nameOf(stack))).toEqual(['firstOne', 'nextOne', undefined]);
});

test('the format is what was asked for, else what the name says', () => {
  const allocator = new CachingAllocator({ device: open('sim') });
  const firstByte = (name: string, options?: { readonly format: 'pickle' | 'json' }): number | undefined => {
    const path = fresh(name);
    allocator.dumpSnapshot(path, options);
    const bytes = readFileSync(path);
    return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes)[0];
  };
  const [pickle, json] = [0x80, 0x7b];
  expect(firstByte('.pickle')).toBe(pickle);
  expect(firstByte('.json')).toBe(json);
  expect(firstByte('.pickle', { format: 'json' })).toBe(json);
  expect(firstByte('.json.gz', { format: 'pickle' })).toBe(pickle);
});

test('what cannot be written is the error of the system, and leaves nothing behind', () => {
  const allocator = new CachingAllocator({ device: open('sim') });
  const path = join(scratch, 'no such folder', 'a.pickle');
  expect(() => allocator.dumpSnapshot(path)).toThrow(/ENOENT/);
  const folder = mkdtempSync(join(scratch, 'folder-'));
  expect(() => allocator.dumpSnapshot(folder)).toThrow(/EISDIR/);
  expect(readdirSync(folder)).toEqual([]);
});

test('a random program replays from its file exactly', () => {
  const seed = Number(process.env.CUDALLOC_SEED ?? 20261201);
  const conf = 'max_split_size_mb:64';
  const plan = { seed, conf, capacity: 600 * MIB, late: true, ring: 300, events: true, stacks: true };
  const path = fresh();
  writeSnapshot(record(plan).snapshot, path);
  const { fidelity } = replayExactly(openRecording(readSnapshot(path)));
  expect(fidelity, `seed ${seed}`).toMatchObject({ exact: fidelity.allocations, conflicts: 0 });
  expect(fidelity.allocations).toBeGreaterThan(50);
});

describe('at an out of memory', () => {
  test('the file named is there, with the memory as it was and the settings', () => {
    const path = fresh('-{n}.pickle');
    const allocator = new CachingAllocator({ device: open('sim'), dumpOnOutOfMemory: path });
    allocator.recordMemoryHistory({ stacks: true });
    allocator.free(allocator.malloc(30 * MIB));
    const error = thrownBy(() => allocator.malloc(65 * MIB)) as OutOfMemoryError;
    expect(error).toBeInstanceOf(OutOfMemoryError);
    expect(error.details.snapshot).toBe(path.replace('{n}', '1'));
    const snapshot = readSnapshot(error.details.snapshot as string);
    expect(snapshot.segments.map(({ totalSize }) => totalSize)).toEqual([30 * MIB]);
    expect(snapshot.deviceTraces[0]?.entries(snapshot.stacks).at(-1)).toMatchObject({ action: 'oom', size: 65 * MIB });
    const { fidelity } = replayExactly(openRecording(snapshot));
    expect(fidelity).toMatchObject({ allocations: 1, exact: 1, conflicts: 0 });
  });

  test('a path that cannot be written is the cause', () => {
    const file = fresh();
    writeFileSync(file, '');
    const device = open('sim');
    const allocator = new CachingAllocator({ device, dumpOnOutOfMemory: join(file, 'a.pickle') });
    const error = thrownBy(() => allocator.malloc(65 * MIB)) as OutOfMemoryError;
    expect(error).toBeInstanceOf(OutOfMemoryError);
    expect(String(error.cause)).toMatch(/ENOTDIR/);
    expect(error.details.snapshot).toBeNull();
  });
});

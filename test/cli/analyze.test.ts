// analyze, diff, convert and redact from the command line: the figures of the real snapshots, what is printed for people, and bad usage.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { SimDevice } from '../../lib/device/sim.js';
import { readSnapshot, readTrace, writeSnapshot } from '../../lib/snapshot/files.js';
import type { Snapshot } from '../../lib/snapshot/model.js';
import { temporaryFolder } from '../support/child.js';
import { cli } from '../support/cli.js';
import { MIB } from '../support/devices.js';
import { COMPARE_PICKLES, hasPython, python } from '../support/python.js';
import { record } from '../support/recordings.js';
import { sharedData } from '../support/shared-data.js';

const GIB = 1024 * MIB;
const real = sharedData('snapshots');
const realPath = (name: string): string => `${real}/${name}.pickle`;

/** The document is what the tests say it is. */
async function json(args: readonly string[]): Promise<ReturnType<typeof JSON.parse>> {
  const { code, stdout, stderr } = await cli([...args, '--json']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}

/** A program that keeps more at one call site the longer it runs, and runs out of memory when asked to. */
function program(iterations: number): Snapshot {
  const device = new SimDevice({ capacity: 2 * GIB });
  const allocator = new CachingAllocator({ device, conf: '', policy: 'pytorch' });
  allocator.recordMemoryHistory({ stacks: true, maxEntries: Number.POSITIVE_INFINITY });
  const cacheGrows = (): number => allocator.malloc(3 * MIB);
  const activations = (): number[] => [20, 30].map((mib) => allocator.malloc(mib * MIB));
  for (let i = 0; i < iterations; i++) {
    const batch = activations();
    cacheGrows();
    for (const address of batch) allocator.free(address);
  }
  return allocator.memorySnapshot();
}

function file(name: string, snapshot: Snapshot): string {
  const path = join(temporaryFolder(), name);
  writeSnapshot(snapshot, path);
  return path;
}

describe.skipIf(real === null)('analyze on the real snapshots (../shared/snapshots)', () => {
  it.each([
    ['cuda-small-97-events', 3606, 30.25, 3072, 503.75],
    ['cuda-training-fragmented', 24012, 6556, 11046, 6410],
    ['cuda-old-layout-oom', 11296, 11292, 0, 4],
  ])('%s: the figures of its description', async (name, reserved, allocated, whollyFree, stuck) => {
    const { devices } = await json(['analyze', realPath(name)]);
    const [device] = devices;
    expect(device.reserved).toBe(reserved * MIB);
    // The description rounds to a quarter of a MiB, or to whole ones.
    expect(Math.abs(device.allocated / MIB - allocated)).toBeLessThan(0.5);
    expect(device.gap.wholly_free).toBe(whollyFree * MIB);
    expect(Math.abs(device.gap.stuck / MIB - stuck)).toBeLessThan(0.5);
    const { pending, other_stream, wholly_free, stuck: rest } = device.gap;
    expect(pending + other_stream + wholly_free + rest).toBe(device.reserved - device.allocated);
  });

  it('a request that no setting can serve: what is short, and no setting', async () => {
    const args = ['--request', '2GiB', '--capacity', '11296MiB'];
    const { verdict, devices } = await json(['analyze', ...args, realPath('cuda-old-layout-oom')]);
    expect(verdict).toMatchObject({ kind: 'full', advice: [] });
    expect(verdict.short_by).toBe(devices[0].allocated + 2 * GIB - 11296 * MIB);
    const { stdout } = await cli(['analyze', ...args, realPath('cuda-old-layout-oom')]);
    expect(stdout).not.toMatch(/expandable|max_split/);
    expect(stdout).toMatch(/Most is held by allocate \(pytorch_backend\.py:190\)/);
  });

  it('without a request: none, and that the file records none', async () => {
    const { verdict } = await json(['analyze', realPath('cuda-old-layout-oom')]);
    expect(verdict).toMatchObject({ kind: 'none', short_by: null, request: null });
    expect(verdict.sentence).toMatch(/records no request/);
  });

  it('fragmented: the pinning survivors by call site, and what replay shows to help', async () => {
    const path = realPath('cuda-training-fragmented');
    const { verdict } = await json(['analyze', path, '--request', '16GiB', '--capacity', '24012MiB']);
    expect(verdict.kind).toBe('fragmented');
    expect(verdict.advice[0]).toMatchObject({
      conf: 'expandable_segments:True',
      survives: true,
      fidelity: { allocations: 7591, exact: 7591 },
    });
    const { pinning, devices } = await json(['analyze', path]);
    expect(pinning[0].frames.length).toBeGreaterThan(3);
    const pinned = pinning.reduce((sum: number, { pinned_bytes: bytes }: { pinned_bytes: number }) => sum + bytes, 0);
    expect(pinned).toBe(devices[0].gap.stuck);
    const { stdout } = await cli(['analyze', path]);
    expect(stdout).toMatch(/step \(optimizer\.py:76\)/);
    expect(stdout).toMatch(/incomplete: 664 live blocks without an event/);
  });

  it('several files: merged, worst first', async () => {
    const paths = ['cuda-small-97-events', 'cuda-training-fragmented'].map(realPath);
    const { files, devices } = await json(['analyze', ...paths]);
    expect(files).toEqual([paths[1], paths[0]]);
    expect(devices.map(({ file: name }: { file: string }) => name)).toEqual([paths[1], paths[0]]);
  });

  it('convert: pickles and our JSON come back equal to Python (needs python3)', { skip: !hasPython }, async () => {
    const folder = temporaryFolder();
    const names = ['cuda-small-97-events', 'cuda-forward-bf16', 'cuda-inference-medium', 'cuda-training-fragmented'];
    const pairs: string[] = [];
    for (const name of [...names, 'cuda-old-layout-oom', 'cuda-old-layout-1.3b', 'state-only']) {
      const [pickle, text, again] = ['a.pickle', 'b.json', 'c.pickle'].map((end) => join(folder, `${name}-${end}`)) as [
        string,
        string,
        string,
      ];
      expect((await cli(['convert', realPath(name), '--to', 'pickle', '-o', pickle])).code).toBe(0);
      expect((await cli(['convert', realPath(name), '--to', 'json', '-o', text])).code).toBe(0);
      expect((await cli(['convert', text, '--to', 'pickle', '-o', again])).code).toBe(0);
      pairs.push(realPath(name), pickle, realPath(name), again);
    }
    expect(JSON.parse(python(COMPARE_PICKLES, pairs))).toEqual([]);
  });

  it('redact: no name or path is left, and it replays and analyses as before', async () => {
    for (const name of ['cuda-small-97-events', 'cuda-training-fragmented', 'cuda-old-layout-oom']) {
      const copy = join(temporaryFolder(), 'copy.pickle');
      expect((await cli(['redact', realPath(name), '-o', copy])).code).toBe(0);
      const text = readFileSync(copy).toString('latin1');
      const { stacks } = readSnapshot(realPath(name));
      for (let i = 0; i < stacks.frameCount; i++) {
        const { name: fn, filename } = stacks.frame(i);
        // Short ones are parts of PyTorch's own keys.
        for (const word of [fn, filename]) if (word.length > 14) expect(text.includes(word), word).toBe(false);
      }
      const strip = ({ devices }: { devices: { peak: { event: number } | null; timeline: unknown }[] }) =>
        devices.map(({ peak, timeline: _, ...rest }) => ({ ...rest, peak: peak?.event }));
      expect(strip(await json(['analyze', copy]))).toEqual(strip(await json(['analyze', realPath(name)])));
    }
    const copy = join(temporaryFolder(), 'copy.pickle');
    await cli(['redact', realPath('cuda-training-fragmented'), '-o', copy]);
    expect((await json(['replay', copy])).fidelity).toMatchObject({ allocations: 7591, exact: 7591 });
  });
});

const MESSAGE =
  'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 13.06 MiB is free. ' +
  'Including non-PyTorch memory, this process has 23.66 GiB memory in use. Of the allocated memory 17.00 GiB is allocated by PyTorch, and 6.30 GiB is ' +
  'reserved by PyTorch but unallocated.';

describe('analyze', () => {
  const failing = record({
    seed: 7,
    conf: '',
    capacity: 300 * MIB,
    late: false,
    ring: Number.POSITIVE_INFINITY,
    events: false,
    stacks: true,
  }).snapshot;

  it('at an event, the peak, the out of memory', async () => {
    const path = file('oom.pickle', failing);
    const bytes = async (at: string) =>
      (await json(['analyze', path, '--at', at, '--no-advice'])).holders.reduce(
        (sum: number, holder: { bytes: number }) => sum + holder.bytes,
        0,
      );
    const { devices } = await json(['analyze', path, '--no-advice']);
    expect(await bytes('peak')).toBe(devices[0].peak.allocated);
    expect(await bytes(String(devices[0].peak.event))).toBe(devices[0].peak.allocated);
    expect(await bytes('end')).toBe(devices[0].allocated);
    expect(await bytes('oom')).toBeGreaterThan(0);
  });

  it('writes flame graphs: folded text and a picture', async () => {
    const path = file('grown.pickle', program(30));
    const folded = join(temporaryFolder(), 'held.folded');
    const svg = join(temporaryFolder(), 'held.svg');
    await cli(['analyze', path, '--flamegraph', folded]);
    await cli(['analyze', path, '--flamegraph', svg]);
    expect(readFileSync(folded, 'utf8')).toMatch(/;cacheGrows \(.*analyze\.test\.ts:\d+\) 94371840\n/);
    expect(readFileSync(svg, 'utf8')).toMatch(
      /^<svg [\s\S]*<title>cacheGrows[^<]*: 90\.00 MiB, 100\.0 %<\/title>[\s\S]*<\/svg>\n$/,
    );
  });

  it('finds what grows', async () => {
    const { growth } = await json(['analyze', file('grown.pickle', program(60))]);
    expect(growth).toHaveLength(1);
    expect(growth[0].frames[0].name).toBe('cacheGrows');
    const { stdout } = await cli(['analyze', file('grown.pickle', program(60))]);
    expect(stdout).toMatch(/Grows and never comes back[\s\S]*cacheGrows \(analyze\.test\.ts:\d+\)/);
  });

  it('judges the text of an error, without a file', async () => {
    const { code, stdout } = await cli(['analyze', '--message', MESSAGE]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^fragmented \(fragmentation plausible\)/);
    expect((await json(['analyze', '--message', MESSAGE])).message).toMatchObject({
      kind: 'fragmented',
      short_by: null,
    });
  });

  it.each<[string[], RegExp]>([
    [['analyze'], /a snapshot is missing, or the text of an error/],
    [['analyze', '/does/not/exist'], /ENOENT/],
    [['analyze', '--message', 'all is well'], /no text of an out-of-memory error/],
    [['analyze', 'x', '--at', 'noon'], /no event number, and none of peak, oom, end/],
    [['analyze', '--message', MESSAGE, '--flamegraph', 'x.svg'], /needs a snapshot/],
    [['diff', 'x'], /missing required argument 'b'/],
  ])('%j is bad usage', async (args, message) => {
    const { code, stdout, stderr } = await cli(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^cudalloc: [^\n]*\n$/);
    expect(stderr).toMatch(message);
  });

  it('an event that is not there, a file that is none', async () => {
    const path = file('oom.pickle', failing);
    expect((await cli(['analyze', path, '--at', '99999999'])).code).toBe(2);
    const none = join(temporaryFolder(), 'none.pickle');
    writeFileSync(none, 'nothing of the kind');
    const { code, stderr } = await cli(['analyze', none]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^cudalloc: byte 0: this is no memory snapshot[^\n]*\n$/);
  });
});

describe('diff', () => {
  it('names the call site that grew', async () => {
    const [a, b] = [file('a.pickle', program(10)), file('b.pickle', program(40))];
    const { sites, devices } = await json(['diff', a, b]);
    expect(sites).toHaveLength(1);
    expect(sites[0]).toMatchObject({ bytes: 90 * MIB, count: 30, bytes_a: 30 * MIB, bytes_b: 120 * MIB });
    expect(sites[0].frames[0].name).toBe('cacheGrows');
    expect(devices[0].allocated).toBe(90 * MIB);
    const { stdout } = await cli(['diff', a, b]);
    expect(stdout).toMatch(/\+90\.00 MiB +\+30 +30\.00 MiB +120\.00 MiB +cacheGrows \(analyze\.test\.ts:\d+\)/);
    expect((await json(['diff', b, a])).sites[0].bytes).toBe(-90 * MIB);
    expect((await json(['diff', a, a])).sites).toEqual([]);
    expect((await cli(['diff', a, a])).stdout).toMatch(/No call site holds more or less than before/);
    expect((await json(['diff', a, b, '--at', 'peak'])).sites[0].bytes).toBe(90 * MIB);
  });
});

describe('convert', () => {
  it('to a trace that replays, and to a Perfetto document', async () => {
    const path = file('run.pickle', program(20));
    const trace = join(temporaryFolder(), 'run.trace');
    const perfetto = join(temporaryFolder(), 'run.perfetto.json');
    expect((await cli(['convert', path, '--to', 'trace', '-o', trace])).code).toBe(0);
    expect(readTrace(trace).allocations).toBe(60);
    const replayed = await json(['replay', trace]);
    const recorded = await json(['replay', path]);
    expect(replayed.stats.reserved_bytes.all.peak).toBe(recorded.stats.reserved_bytes.all.peak);
    expect((await cli(['convert', path, '--to', 'perfetto', '-o', perfetto])).code).toBe(0);
    const { traceEvents } = JSON.parse(readFileSync(perfetto, 'utf8'));
    expect(traceEvents.filter(({ ph }: { ph: string }) => ph === 'C').length).toBeGreaterThan(10);
  });

  it('refuses what it cannot write', async () => {
    const path = file('run.pickle', program(3));
    expect((await cli(['convert', path])).code).toBe(2);
    expect((await cli(['convert', path, '--to', 'csv'])).code).toBe(2);
    expect((await cli(['convert', path, '--to', 'json', '-o', '/does/not/exist/x.json'])).code).toBe(2);
  });
});

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { readSnapshot, readTrace, writeSnapshot } from '../../lib/snapshot/files.js';
import { formatJsonSnapshot } from '../../lib/snapshot/json/write-json.js';
import type { Snapshot } from '../../lib/snapshot/model.js';
import { formatPickleSnapshot } from '../../lib/snapshot/pickle/write-pickle.js';
import { temporaryFolder } from '../support/child.js';
import { cli } from '../support/cli.js';
import { record, snapshotOf } from '../support/recordings.js';

const MIB = 2 ** 20;
const { snapshot } = record({
  seed: 11,
  conf: 'max_split_size_mb:64',
  capacity: 600 * MIB,
  late: true,
  ring: 10_000,
  events: true,
  stacks: true,
  pool: true,
});

let folder: string;
let input: string;
beforeAll(() => {
  folder = temporaryFolder();
  input = join(folder, 'state.pickle');
  writeSnapshot(snapshot, input);
});

async function report(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await cli(['convert', ...args, '--json']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Record<string, unknown>;
}

async function refused(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli(['convert', ...args]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(/^cudalloc: [^\n]+\n$/);
  return stderr;
}

/** What the file of the allocator's snapshot says: a pickle does not tell whether events were overwritten. */
const read = (): Snapshot => readSnapshot(input);

describe('formats', () => {
  it('JSON and back', async () => {
    const json = join(folder, 'a.json.gz');
    expect(await report(input, '--to', 'json', '-o', json)).toMatchObject({
      input,
      output: json,
      format: 'json',
      bytes: readFileSync(json).length,
      devices: 1,
      events: snapshot.deviceTraces[0]!.length,
      segments: snapshot.segments.length,
      blocks: snapshot.segments.reduce((sum, { blocks }) => sum + blocks.length, 0),
      salvaged: null,
      trace: null,
    });
    expect(gunzipSync(readFileSync(json)).toString()).toBe([...formatJsonSnapshot(read())].join(''));
    const pickle = join(folder, 'a.pickle');
    await report(json, '--to', 'pickle', '-o', pickle);
    expect(readFileSync(pickle).equals(readFileSync(input))).toBe(true);
  });

  it('binary and back, small and told by its bytes', async () => {
    const binary = join(folder, 'a.cudalloc');
    expect(await report(input, '--to', 'binary', '-o', binary)).toMatchObject({
      format: 'binary',
      bytes: readFileSync(binary).length,
      events: snapshot.deviceTraces[0]!.length,
    });
    expect(readFileSync(binary).length).toBeLessThan(readFileSync(input).length);
    const copy = join(folder, 'a.copy.gz');
    writeFileSync(copy, gzipSync(readFileSync(binary)));
    const pickle = join(folder, 'a.binary.pickle');
    await report(copy, '--to', 'pickle', '-o', pickle);
    expect(readFileSync(pickle).equals(readFileSync(input))).toBe(true);
    const redacted = await cli(['redact', binary]);
    expect(redacted).toMatchObject({ code: 0, stderr: '' });
    expect(readSnapshot(join(folder, 'a.redacted.cudalloc')).segments).toHaveLength(snapshot.segments.length);
    expect(readFileSync(join(folder, 'a.redacted.cudalloc'))[0]).toBe(0x93);
    expect((await cli(['replay', binary])).code).toBe(0);
  });

  it('Perfetto', async () => {
    const output = join(folder, 'a.perfetto.json');
    await report(input, '--to', 'perfetto', '-o', output);
    const { traceEvents } = JSON.parse(readFileSync(output, 'utf8')) as { traceEvents: { ph: string }[] };
    expect(new Set(traceEvents.map(({ ph }) => ph))).toEqual(new Set(['C', 'X', 'M', 'i']));
  });

  it('a trace, which replays as the snapshot does', async () => {
    const output = join(folder, 'a.trace.gz');
    const { trace: figures } = (await report(input, '--to', 'trace', '-o', output)) as {
      trace: Record<string, number>;
    };
    const trace = readTrace(output);
    expect(figures).toMatchObject({
      device: 0,
      operations: trace.ops,
      allocations: trace.allocations,
      conf: 'max_split_size_mb:64',
    });
    expect(figures.blocks_before).toBeGreaterThan(10);
    expect(figures.in_private_pools).toBeGreaterThan(0);
    expect(trace.comments.map(({ text }) => text)).toEqual([
      `# requests of device 0 of a memory snapshot: ${trace.allocations} allocations`,
      `# the first ${figures.blocks_before} were there before the recording began`,
      '# recorded under the settings "max_split_size_mb:64"',
    ]);
    const { code, stdout } = await cli(['replay', output, '--json', '--conf', 'max_split_size_mb:64']);
    expect(code).toBe(0);
    const { allocs, ooms } = JSON.parse(stdout) as { allocs: unknown[]; ooms: number };
    expect({ allocs: allocs.length, ooms }).toEqual({ allocs: trace.allocations, ooms: 0 });
  });
});

describe('where it is written', () => {
  it('beside the input, under another ending, never over another file', async () => {
    const place = temporaryFolder();
    const path = join(place, 'run.7.pkl.gz');
    writeSnapshot(snapshot, path);
    for (const to of ['pickle', 'json', 'binary', 'trace', 'perfetto']) await report(path, '--to', to);
    expect(readdirSync(place).sort()).toEqual([
      'run.7.cudalloc',
      'run.7.json',
      'run.7.perfetto.json',
      'run.7.pickle',
      'run.7.pkl.gz',
      'run.7.trace.txt',
    ]);
    expect(await refused(path, '--to', 'json')).toMatch(/run\.7\.json is there already; name it with -o to replace it/);
    await report(path, '--to', 'json', '-o', join(place, 'run.7.json'));
  });

  it('over the input itself, when that is named', async () => {
    const path = join(temporaryFolder(), 'a.json');
    writeSnapshot(snapshot, path);
    await report(path, '--to', 'pickle', '-o', path);
    expect(readFileSync(path)[0]).toBe(0x80);
  });

  it('on standard output, and nothing else there', async () => {
    const { code, stdout, stderr } = await cli(['convert', input, '--to', 'json', '-o', '-']);
    expect(code).toBe(0);
    expect(stdout).toBe([...formatJsonSnapshot(read())].join(''));
    expect(stderr).toMatch(/^standard output: json, [\d,]+ bytes; /);
    expect(await refused(input, '--to', 'json', '-o', '-', '--json')).toMatch(/- is standard output, where --json/);
  });

  it('and told in words', async () => {
    const output = join(folder, 'words.trace');
    const { code, stdout, stderr } = await cli(['convert', input, '--to', 'trace', '-o', output]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/words\.trace: trace, [\d,]+ bytes; [\d,]+ operations, [\d,]+ allocations\n/);
    expect(stdout).toMatch(/blocks were there before the recording; they are allocated first\n/);
    expect(stdout).toMatch(/allocations were in private pools, which a trace cannot say\n/);
    expect(stdout).toMatch(/recorded under "max_split_size_mb:64": give that to replay with --conf\n$/);
  });
});

describe('what is refused', () => {
  it('bad usage', async () => {
    expect(await refused(input)).toMatch(/required option '--to <format>'/);
    expect(await refused(input, '--to', 'csv')).toMatch(/pickle, json, binary, trace, perfetto/);
    expect(await refused(input, '--to', 'trace', '--device', '3', '-o', join(folder, 'x'))).toMatch(/has no device 3/);
    expect(existsSync(join(folder, 'x'))).toBe(false);
  });

  it('a trace of a snapshot without events', async () => {
    const path = join(temporaryFolder(), 'state.json');
    writeSnapshot(snapshotOf([{ address: 2 ** 40, blocks: [[2 * MIB]] }], []), path);
    expect(await refused(path, '--to', 'trace')).toMatch(/records no allocation/);
  });

  it('a damaged input, unless --salvage says otherwise', async () => {
    const path = join(temporaryFolder(), 'cut.pickle');
    const whole = Buffer.concat(formatPickleSnapshot(snapshot));
    writeFileSync(path, whole.subarray(0, whole.length - 5000));
    const output = `${path}.json`;
    expect(await refused(path, '--to', 'json', '-o', output)).toMatch(/byte \d+/);
    const converted = await report(path, '--to', 'json', '-o', output, '--salvage');
    expect(converted.salvaged).toMatch(/\w/);
    expect(readSnapshot(output)).toMatchObject({ salvaged: converted.salvaged });
    await report(output, '--to', 'pickle', '-o', `${path}.2`);
    expect(readSnapshot(`${path}.2`).segments).toHaveLength(snapshot.segments.length);
  });

  it('a folder that is not there', async () => {
    expect(await refused(input, '--to', 'json', '-o', join(folder, 'missing', 'a.json'))).toMatch(/ENOENT/);
    expect(await refused(join(folder, 'missing.pickle'), '--to', 'json')).toMatch(/ENOENT/);
  });
});

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ReplayReport } from '../../lib/analysis/replay/format.js';
import { readTrace, writeTrace } from '../../lib/snapshot/files.js';
import { ROOT, temporaryFolder } from '../support/child.js';
import { cli, rule } from '../support/cli.js';
import { compareReplay } from '../support/compare-replay.js';
import { goldenCases, holdsEvents, readCaseTrace, readExpected } from '../support/golden-cases.js';
import { buildStandIns, standInEnvironment } from '../support/stand-ins.js';

const cases = goldenCases(join(ROOT, 'test/golden/data'));
const CLASSIC = [rule('fragmentation-classic'), '--capacity', '10GiB'];
const EXPANDABLE = ['--conf', 'expandable_segments:True'];

async function report(args: readonly string[], env: Record<string, string> = {}): Promise<ReplayReport> {
  const { code, stdout, stderr } = await cli(['replay', ...args, '--json'], { env });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as ReplayReport;
}

describe('golden cases from the command line', () => {
  const names = [
    'rules/exp-oom-final',
    'rules/gc-basic',
    'rules/stats-reset',
    'fuzz/fuzz-7',
    'workloads/llm-train-2k/expandable-tight',
  ];
  const picked = cases.filter(({ name }) => names.includes(name));
  const backends = (['sim', 'mock', 'cuda'] as const).flatMap((backend) =>
    picked.map((golden) => [backend, golden.name, golden] as const),
  );

  beforeAll(() => buildStandIns(), 300_000);

  it('are all there', () => expect(picked.map(({ name }) => name).sort()).toEqual([...names].sort()));

  it.each(backends.filter(([backend, , golden]) => backend !== 'cuda' || !holdsEvents(readCaseTrace(golden))))(
    'on %s: %s equals its file',
    async (backend, _, golden) => {
      const { tracePath, meta } = golden;
      const args = [tracePath, '--conf', meta.config, '--capacity', String(meta.capacity), '--backend', backend];
      const env = backend === 'cuda' ? standInEnvironment({ capacity: 2 ** 40 }) : {};
      const got = await report(args, env);
      expect(compareReplay(readExpected(golden), got, meta)).toBeNull();
      expect(got.backend).toBe(backend);
      expect(got.data_checks?.blocks).toBe(backend === 'sim' ? undefined : got.trace_counts.alloc);
      expect(got.data_checks?.mismatches_total ?? 0).toBe(0);
    },
  );
});

describe('exit status', () => {
  it('is 0 after an out of memory, 1 with --fail-on-oom', async () => {
    expect((await cli(['replay', ...CLASSIC])).code).toBe(0);
    expect((await cli(['replay', ...CLASSIC, '--fail-on-oom'])).code).toBe(1);
    expect((await cli(['replay', ...CLASSIC, '--fail-on-oom', ...EXPANDABLE])).code).toBe(0);
  });

  it('is 2 when the device is missing, and says what is missing', async () => {
    const { code, stdout, stderr } = await cli(['replay', ...CLASSIC, '--backend', 'cuda'], {
      env: { CUDALLOC_LIBCUDA: '/does/not/exist/libcuda.so.1' },
    });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^cudalloc: [^\n]*does\/not\/exist\/libcuda[^\n]*\n$/);
  });

  it('is 2 for a trace that holds events on a device that cannot', async () => {
    buildStandIns();
    const args = ['replay', rule('record-stream-deferred'), '--backend', 'cuda'];
    const { code, stderr } = await cli(args, { env: standInEnvironment() });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^cudalloc: operation \d+ of the trace \("h"\) [^\n]*simulated device or the mock\n$/);
  });
});

describe('output', () => {
  it('for people has the figures and explains the first out of memory', async () => {
    const { stdout, stderr } = await cli(['replay', ...CLASSIC]);
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^operations +123 \(81 allocations\)$/m);
    expect(stdout).toMatch(/^peak reserved +10\.00 GiB$/m);
    expect(stdout).toMatch(/^out of memory +1$/m);
    expect(stdout).toMatch(/^driver calls +cudaMalloc 40, cudaMalloc_failed 2/m);
    expect(stdout).toMatch(/^Out of memory, at operation 121:$/m);
    expect(stdout).toContain('expandable_segments:True');
  });

  it('names operations that were refused', async () => {
    const path = join(temporaryFolder(), 'trace.txt');
    writeFileSync(path, 'a 1 512 0\nC max_split_size_mb:1\nC nonsense:1\n');
    expect((await cli(['replay', path])).stdout).toMatch(/^other errors +2 operations were refused$/m);
  });

  it('goes to a file with -o, beside the summary or the document on stdout', async () => {
    const path = join(temporaryFolder(), 'report.json');
    const { code, stdout } = await cli(['replay', ...CLASSIC, '-o', path]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^operations/m);
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(await report([...CLASSIC, '-o', path]));
  });

  it('of a part covers that part', async () => {
    const part = await report([...CLASSIC, '--from', '100', '--to', '110']);
    expect(part).toMatchObject({ ops: 10, from: 100, to: 110, ooms: 0 });
    expect((await cli(['replay', ...CLASSIC, '--from', '100'])).stdout).toMatch(/^operations +23, 100 to 123 of 123/m);
  });
});

describe('defaults', () => {
  it('leave room for any trace, and no settings, whatever the environment says', async () => {
    const got = await report([rule('fragmentation-classic')], { PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True' });
    expect(got).toMatchObject({ capacity: 2 ** 40, config: '', policy: 'pytorch', backend: 'sim', ooms: 0 });
    expect(got.segments.every((segment) => !segment.is_expandable)).toBe(true);
  });

  it('read gzip and plain text alike', async () => {
    const path = join(temporaryFolder(), 'trace.gz');
    writeTrace(readTrace(rule('fragmentation-classic')), path);
    expect(await report([path, '--capacity', '10GiB'])).toEqual(await report(CLASSIC));
  });

  it('of sizes: bytes, binary and decimal units mean what they say', async () => {
    const capacity = async (text: string) => (await report([rule('size-zero'), '--capacity', text])).capacity;
    expect(await capacity('2147483648')).toBe(2 ** 31);
    expect(await capacity('1.5GiB')).toBe(1.5 * 2 ** 30);
    expect(await capacity('2GB')).toBe(2e9);
  });
});

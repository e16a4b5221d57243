import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openRecording, replayExactly } from '../../lib/analysis/replay/snapshot-replay.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { cli } from '../support/cli.js';
import { buildStandIns, standInEnvironment } from '../support/stand-ins.js';

const scratch = mkdtempSync(join(tmpdir(), 'cudalloc-demo-test-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const SNAPSHOT = join(scratch, 'demo.pickle');
const SMALL = ['demo', '--capacity', '1GiB', '-o', SNAPSHOT];

interface DemoJson {
  readonly backend: string;
  readonly capacity: number;
  readonly snapshot: string | null;
  readonly workload: { readonly request: number; readonly batches: number; readonly result: number };
  readonly runs: readonly {
    readonly policy: string;
    readonly conf: string;
    readonly out_of_memory: boolean;
    readonly verdict: string | null;
    readonly advice: string | null;
    readonly reserved_before: number;
    readonly allocated_before: number;
    readonly largest_free_piece: number;
    readonly bytes_compared: number;
    readonly bytes_wrong: number;
  }[];
  readonly checks: readonly { readonly name: string; readonly passed: boolean }[];
}

describe('demo on the mock', () => {
  it('fails on fixed segments with more than enough free, and not on expandable ones, nor on paged memory', async () => {
    const { code, stdout, stderr } = await cli([...SMALL, '--backend', 'mock', '--json']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { runs, workload, checks, backend, capacity } = JSON.parse(stdout) as DemoJson;
    const [fixed, expandable, paged] = runs;
    expect({ backend, capacity }).toEqual({ backend: 'mock', capacity: 2 ** 30 });
    expect(fixed).toMatchObject({
      conf: '',
      out_of_memory: true,
      verdict: 'fragmented',
      advice: 'expandable_segments:True',
    });
    expect((fixed?.reserved_before ?? 0) - (fixed?.allocated_before ?? 0)).toBeGreaterThan(workload.request);
    expect(fixed?.largest_free_piece).toBeLessThan(workload.request);
    expect(expandable).toMatchObject({ conf: 'expandable_segments:True', out_of_memory: false, bytes_wrong: 0 });
    expect(expandable?.bytes_compared).toBe(workload.request + workload.batches * workload.result);
    expect(paged).toMatchObject({ policy: 'paged', conf: '', out_of_memory: false, bytes_wrong: 0 });
    expect(paged?.bytes_compared).toBe(expandable?.bytes_compared);
    expect(checks.every(({ passed }) => passed)).toBe(true);
  });

  it('tells it to people', async () => {
    const { code, stdout, stderr } = await cli([...SMALL, '--backend', 'mock']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^cudalloc demo: 1024\.00 MiB on the CPU mock/);
    expect(stdout).toMatch(/^ {2}CUDA out of memory/m);
    expect(stdout).toMatch(/allocated, written, read back/);
    expect(stdout).toMatch(/cudalloc memory summary/);
    expect(stdout).not.toMatch(/FAILED/);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(120);
  });

  it('writes the snapshot of the failure, which replays exactly and names the request', async () => {
    const { code, stdout, stderr } = await cli([...SMALL, '--backend', 'mock', '--json']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { snapshot: path, runs, workload } = JSON.parse(stdout) as DemoJson;
    expect(path).toBe(SNAPSHOT);
    const snapshot = readSnapshot(SNAPSHOT);
    const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);
    expect(sum(snapshot.segments.map(({ totalSize }) => totalSize))).toBe(runs[0]?.reserved_before);
    expect(sum(snapshot.segments.map(({ allocatedSize }) => allocatedSize))).toBe(runs[0]?.allocated_before);
    const last = snapshot.deviceTraces[0]?.entries(snapshot.stacks).at(-1);
    expect(last).toMatchObject({ action: 'oom', size: workload.request });
    expect(last?.frames.some(({ filename }) => filename.endsWith('demo-workload.js'))).toBe(true);
    const { fidelity } = replayExactly(openRecording(snapshot));
    expect(fidelity).toMatchObject({ allocations: 3 * workload.batches, exact: 3 * workload.batches, conflicts: 0 });
  });

  it('puts it into a new folder for temporary files by default, and says where', async () => {
    const { stdout } = await cli(['demo', '--capacity', '1GiB', '--backend', 'mock']);
    const path = /^ {2}npx cudalloc analyze (\S+)$/m.exec(stdout)?.[1] ?? '';
    expect(dirname(dirname(path))).toBe(tmpdir());
    expect(readSnapshot(path).segments.length).toBeGreaterThan(0);
    rmSync(dirname(path), { recursive: true });
  });

  it('exits with 2 where it cannot be written', async () => {
    const { code, stdout, stderr } = await cli(['demo', '--capacity', '1GiB', '--backend', 'mock', '-o', scratch]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^cudalloc: .*EISDIR.*\n$/);
  });

  it('takes the backend of the environment with auto, and other capacities', async () => {
    const { code, stdout } = await cli(['demo', '--capacity', '3300MiB', '--json', '-o', SNAPSHOT], {
      env: { CUDALLOC_BACKEND: 'mock' },
    });
    expect(code).toBe(0);
    expect((JSON.parse(stdout) as DemoJson).checks.map(({ passed }) => passed)).toEqual(Array(8).fill(true));
  });
});

describe('demo on a CUDA device', () => {
  it('runs over the stand-in driver', async () => {
    buildStandIns();
    const { code, stdout } = await cli([...SMALL, '--backend', 'cuda', '--json'], { env: standInEnvironment() });
    expect(code).toBe(0);
    expect((JSON.parse(stdout) as DemoJson).backend).toBe('cuda');
  });

  it('exits with 1 where a check of its own fails: no virtual memory, no expandable segments', async () => {
    buildStandIns();
    const { code, stdout, stderr } = await cli([...SMALL, '--backend', 'cuda'], {
      env: standInEnvironment({ virtualMemory: false }),
    });
    expect({ code, stderr }).toEqual({ code: 1, stderr: '' });
    expect(stdout).toMatch(/^FAILED expandable segments do not run out$/m);
    expect(stdout).toMatch(/^FAILED paged memory does not run out$/m);
    expect(stdout).toMatch(/^ {2}not here: /m);
  });
});

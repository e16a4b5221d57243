import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { tune } from '../../lib/analysis/tune/tune.js';
import { traceWorkload } from '../../lib/analysis/tune/workload.js';
import type { TuneReport } from '../../lib/cli/render/tune.js';
import { readTrace } from '../../lib/snapshot/files.js';
import { ROOT, temporaryFolder } from '../support/child.js';
import { cli, rule } from '../support/cli.js';
import { sharedData } from '../support/shared-data.js';

const CLASSIC = rule('fragmentation-classic');
const WORKLOAD = join(ROOT, 'test/golden/data/workloads/llm-serve-2k/trace.txt.gz');
const EXPANDABLE = 'expandable_segments:True';

async function report(args: readonly string[], code = 0): Promise<TuneReport> {
  const ended = await cli(['tune', ...args, '--json']);
  expect({ code: ended.code, stderr: ended.stderr }).toEqual({ code, stderr: '' });
  return JSON.parse(ended.stdout) as TuneReport;
}

describe('cudalloc tune', () => {
  it('with worker threads finds what one thread finds, however many there are', async () => {
    const alone = tune(traceWorkload(readTrace(WORKLOAD)));
    for (const jobs of ['1', '3']) {
      const { settings, ...about } = await report([WORKLOAD, '--jobs', jobs]);
      expect(settings).toEqual(JSON.parse(JSON.stringify(alone)));
      expect(about).toEqual({
        file: WORKLOAD,
        kind: 'trace',
        allocations: 1041,
        recorded_conf: '',
        fidelity: null,
        capacity: null,
        figures_at: 'roomy',
      });
    }
  });

  it('prints the table, and the line to paste', async () => {
    const { code, stdout, stderr } = await cli(['tune', CLASSIC, '--capacity', '10GiB', '--top', '3']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^expandable_segments:True +10\.00 GiB +11\.99 GiB +1 +41 +[\d,]+ {2}yes$/m);
    expect(stdout).toMatch(/^none +12\.00 GiB .* no$/m);
    expect(stdout).toMatch(/^Best: fits on 10\.00 GiB, 2\.00 GiB less than without settings\. To use it:$/m);
    expect(stdout).toMatch(/^ {2}export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True$/m);
    expect(stdout).toMatch(/PYTORCH_ALLOC_CONF/);
    expect(stdout).toMatch(/^and \d+ more/m);
  });

  it('tries given settings, and says why they never triggered', async () => {
    const conf = 'garbage_collection_threshold:0.7';
    const { settings } = await report([CLASSIC, '--conf', conf, '--conf', 'max_split_size_mb:4000']);
    const row = (name: string) => settings.find((setting) => setting.conf === name);
    expect(row(conf)).toMatchObject({ triggered: false, reason: expect.stringMatching(/needs a memory fraction/) });
    expect(row('max_split_size_mb:4000')).toMatchObject({ triggered: false, reason: expect.stringMatching(/limit/) });
    const { stdout } = await cli(['tune', CLASSIC, '--conf', conf, '--top', '0']);
    expect(stdout).toMatch(/^Never triggered$/m);
    expect(stdout).toMatch(/^ {2}garbage_collection_threshold:0\.7: .*needs a memory fraction/m);
  });

  it('names the best without newer options where the best has some', async () => {
    const path = join(ROOT, 'test/golden/data/workloads/llm-train-2k/trace.txt.gz');
    const { stdout } = await cli(['tune', path]);
    expect(stdout).toMatch(/^ {2}export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,large_segment_size_mb:4$/m);
    expect(stdout).toMatch(
      /^With options that PyTorch 2\.4 knows already: fits on 6\.53 GiB\.\n {2}export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True$/m,
    );
  });

  const small = sharedData('snapshots/cuda-small-97-events.pickle');
  const stateOnly = sharedData('snapshots/state-only.pickle');
  it.skipIf(small === null)('of a snapshot says how far a replay can be trusted', async () => {
    const { kind, fidelity, settings } = await report([small as string, '--jobs', '2']);
    expect({ kind, fidelity }).toEqual({ kind: 'snapshot', fidelity: { allocations: 36, exact: 36 } });
    expect(settings.find(({ conf }) => conf === '')?.peak_reserved).toBe(3606 * 2 ** 20);
    const { stdout } = await cli(['tune', small as string]);
    expect(stdout).toMatch(/^fidelity: 36 of 36 recorded placements are reproduced \(100 %\)/m);
  });

  it.skipIf(stateOnly === null)('of a snapshot without history says why it cannot', async () => {
    const { code, stdout, stderr } = await cli(['tune', stateOnly as string]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^cudalloc: the snapshot records no allocation[^\n]*\n$/);
  });

  it('exits with 1 when nothing survives the capacity', async () => {
    const { settings } = await report([CLASSIC, '--capacity', '9GiB'], 1);
    expect(settings.length).toBeGreaterThan(10);
    expect(settings.every(({ survives }) => survives === false)).toBe(true);
    const { code, stdout } = await cli(['tune', CLASSIC, '--capacity', '9GiB']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^No setting survives 9\.00 GiB; the best needs 10\.00 GiB\.$/m);
  });

  it('takes our policy too, whose line names it', async () => {
    const { settings } = await report([CLASSIC, '--policy', 'both']);
    expect(new Set(settings.map(({ policy }) => policy))).toEqual(new Set(['pytorch', 'default']));
    const { stdout } = await cli(['tune', CLASSIC, '--policy', 'default']);
    expect(stdout).toMatch(/^ {2}export CUDALLOC_CONF=\S+ CUDALLOC_POLICY=default$/m);
  });

  it('tries paged memory, with the settings that concern pages, and names it', async () => {
    const { settings } = await report([CLASSIC, '--policy', 'paged']);
    expect(settings.length).toBeGreaterThan(3);
    for (const { conf, policy } of settings) {
      expect(policy).toBe('paged');
      expect(conf).not.toMatch(/expandable|max_split|garbage/);
    }
    const { stdout } = await cli(['tune', CLASSIC, '--policy', 'all']);
    expect(stdout).toMatch(/\(paged\)/);
  });

  it('writes the document to a file', async () => {
    const path = join(temporaryFolder(), 'tune.json');
    const { stdout } = await cli(['tune', CLASSIC, '-o', path]);
    expect(stdout).toMatch(/^Best:/m);
    const document = JSON.parse(readFileSync(path, 'utf8')) as TuneReport;
    expect(document.settings.find(({ conf }) => conf === EXPANDABLE)).toBeDefined();
  });

  it('says so where nothing is better', async () => {
    const path = join(temporaryFolder(), 'trace.txt');
    writeFileSync(path, `a 1 ${40 * 2 ** 20} 0\n`);
    expect((await cli(['tune', path])).stdout).toMatch(/^Nothing that was tried needs less than no settings\.$/m);
  });

  it.each([
    [['--conf', 'nonsense:1'], /unknown option 'nonsense'/],
    [['--conf', 'max_split_size_mb:3'], /max_split_size_mb/],
    [['--capacity', 'much'], /capacity/],
    [['--policy', 'best'], /policy/],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await cli(['tune', CLASSIC, ...args]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/^cudalloc: [^\n]*\n$/);
  });

  it('refuses a file that is missing, or no trace, in one line', async () => {
    const path = join(temporaryFolder(), 'foreign.txt');
    writeFileSync(path, '<html></html>\n');
    for (const file of ['/does/not/exist', path]) {
      const { code, stderr } = await cli(['tune', file]);
      expect(code).toBe(2);
      expect(stderr).toMatch(/^cudalloc: [^\n]*\n$/);
    }
  });
});

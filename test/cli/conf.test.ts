import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ConfReport } from '../../lib/cli/render/conf.js';
import { temporaryFolder } from '../support/child.js';
import { cli, rule } from '../support/cli.js';

const CLASSIC = rule('fragmentation-classic');

describe('cudalloc conf', () => {
  it('accepts and explains', async () => {
    const { code, stdout, stderr } = await cli(['conf', 'max_split_size_mb:128,expandable_segments:False']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Accepted\. In short: max_split_size_mb:128$/m);
    expect(stdout).toMatch(/^max_split_size_mb:128 \(PyTorch 1\.10 or later\)$/m);
  });

  it('refuses with a mark under the place', async () => {
    const { code, stdout } = await cli(['conf', 'expandable_segments:True,max_split_size_mb:20']);
    expect(code).toBe(1);
    const lines = stdout.split('\n');
    const at = lines.indexOf('  expandable_segments:True,max_split_size_mb:20');
    expect(at).toBeGreaterThan(0);
    expect(lines[at + 1]).toBe(`${' '.repeat(2 + 43)}^`);
    expect(lines[at + 2]).toMatch(/greater than 20/);
  });

  it('prints one JSON document, to a file too', async () => {
    const path = join(temporaryFolder(), 'conf.json');
    const { code, stdout, stderr } = await cli(['conf', 'a:', '--json', '-o', path]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({ accepted: false, conf: null, torch: null, trace: null });
    expect(readFileSync(path, 'utf8')).toBe(stdout);
  });

  it('asks a PyTorch release', async () => {
    const { code, stdout } = await cli(['conf', 'expandable_segments:True', '--torch', '2.0']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^Refused by PyTorch 2\.0\.$/m);
    expect(stdout).toMatch(/expandable_segments needs 2\.1 or later/);
    expect(stdout).toMatch(/accepts: max_split_size_mb, /);
    expect((await cli(['conf', 'expandable_segments:True', '--torch', '2.1'])).code).toBe(0);
    const unsure = await cli(['conf', 'large_segment_size_mb:12', '--torch', '2.12']);
    expect(unsure.code).toBe(0);
    expect(unsure.stdout).toMatch(/not verified/);
    expect((await cli(['conf', '', '--torch', 'new'])).code).toBe(2);
  });

  it('shows the effect on a trace', async () => {
    const { stdout } = await cli([
      'conf',
      'expandable_segments:True',
      '--trace',
      CLASSIC,
      '--capacity',
      '10GiB',
      '--json',
    ]);
    const { trace } = JSON.parse(stdout) as ConfReport;
    expect(trace).toMatchObject({
      file: CLASSIC,
      allocations: 81,
      without: { conf: '', survives: false, smallest_capacity: 12 * 2 ** 30 },
      with: { conf: 'expandable_segments:True', survives: true, smallest_capacity: 10 * 2 ** 30, triggered: true },
    });
    const people = await cli(['conf', 'garbage_collection_threshold:0.8', '--trace', CLASSIC]);
    expect(people.stdout).toMatch(/^smallest device +12\.00 GiB +12\.00 GiB$/m);
    expect(people.stdout).toMatch(/^Never triggered: garbage_collection_threshold: it needs a memory fraction/m);
  });

  it('with a trace that cannot be read is bad input', async () => {
    expect((await cli(['conf', 'expandable_segments:True', '--trace', '/does/not/exist'])).code).toBe(2);
  });
});

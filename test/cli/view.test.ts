import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decode } from 'fast-png';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeSnapshot } from '../../lib/snapshot/files.js';
import type { Snapshot } from '../../lib/snapshot/model.js';
import { deviceHistory } from '../../lib/viewer/device-history.js';
import { temporaryFolder } from '../support/child.js';
import { cli } from '../support/cli.js';
import { contentOf, pageAt, pickle, pickleOf } from '../support/page-content.js';
import { snapshotOf } from '../support/recordings.js';
import { smallSnapshot } from '../support/small-history.js';

const small = smallSnapshot();
const PEAK = deviceHistory(small, 0).peak;
const OOM = deviceHistory(small, 0).outOfMemories[0]!;
const LAST = small.deviceTraces[0]!.length - 1;

let folder: string;
let input: string;
beforeAll(() => {
  folder = temporaryFolder();
  input = join(folder, 'small.pickle');
  writeSnapshot(small, input);
});

interface Report {
  readonly inputs: string[];
  readonly device: number;
  readonly event: number | null;
  readonly salvaged: (string | null)[];
  readonly written: { readonly kind: string; readonly file: string; readonly bytes: number }[];
}

async function report(...args: string[]): Promise<Report> {
  const { code, stdout, stderr } = await cli(['view', ...args, '--json']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Report;
}

async function refused(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli(['view', ...args]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(/^cudalloc: [^\n]+\n$/);
  return stderr;
}

describe('the page', () => {
  it('is one file with the whole snapshot in it', async () => {
    const output = join(folder, 'a.html');
    expect(await report(input, '-o', output)).toEqual({
      inputs: [input],
      device: 0,
      event: null,
      salvaged: [null],
      written: [{ kind: 'page', file: output, bytes: readFileSync(output).length }],
    });
    const { names, snapshots, start, title } = pageAt(output);
    expect({ names, start, title }).toEqual({
      names: ['small.pickle'],
      start: '',
      title: 'small.pickle - cudalloc',
    });
    expect(pickle(snapshots[0]!).equals(pickleOf(input))).toBe(true);
  });

  it('takes several snapshots, and tells those of one name by their folders', async () => {
    const place = temporaryFolder();
    const paths = ['rank0', 'rank1', 'rank1'].map((name, i) =>
      join(place, name, i === 2 ? 'other.pickle' : 'a.pickle'),
    );
    for (const [i, path] of paths.entries()) {
      mkdirSync(join(path, '..'), { recursive: true });
      writeSnapshot(i === 1 ? snapshotOf([{ address: 2 ** 40, blocks: [[2 ** 21]] }], []) : small, path);
    }
    const output = join(place, 'ranks.html');
    const { code, stdout, stderr } = await cli(['view', ...paths, '-o', output]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/ranks\.html: page of 3 snapshots, [\d,]+ bytes\n$/);
    const { names, snapshots, title } = pageAt(output);
    expect(names).toEqual([paths[0], paths[1], 'other.pickle']);
    expect(title).toBe(`${paths[0]} and 2 more - cudalloc`);
    expect(snapshots.map(({ segments }) => segments.length)).toEqual([small.segments.length, 1, small.segments.length]);
  });

  it.each([
    ['end', ''],
    ['peak', `#cursor=${PEAK}`],
    ['oom', `#cursor=${OOM}`],
    ['1', '#cursor=1'],
  ])('shows what --at asks for: %s', async (at, start) => {
    const output = join(folder, `at-${at}.html`);
    const { event } = await report(input, '-o', output, '--at', at);
    expect(event).toBe(start === '' ? null : Number(start.split('=')[1]));
    expect(pageAt(output).start).toBe(start);
  });

  it('shows the device that is asked for, and that of the out of memory', async () => {
    const path = join(folder, 'two.json');
    // Device 1 does what device 0 did.
    const [trace] = small.deviceTraces;
    const two: Snapshot = { ...small, deviceTraces: [small.deviceTraces[0]!, trace!] };
    writeSnapshot(two, path);
    const output = join(folder, 'two.html');
    expect(await report(path, '-o', output, '--device', '1', '--at', '2')).toMatchObject({ device: 1, event: 2 });
    expect(pageAt(output).start).toBe('#device=1&cursor=2');
    expect(await report(path, '-o', output, '--at', 'oom')).toMatchObject({ device: 1, event: OOM });
    expect(await report(path, '-o', output, '--at', 'oom', '--device', '0')).toMatchObject({ device: 0, event: OOM });
    expect(await refused(path, '-o', output, '--device', '2')).toMatch(/--device: .* no device 2; it has 0, 1$/m);
  });

  it('escapes names that would be markup', async () => {
    const odd = join(folder, 'a"<b>&$&.pickle');
    writeFileSync(odd, readFileSync(input));
    const output = join(folder, 'odd.html');
    await report(odd, '-o', output);
    expect(pageAt(output)).toMatchObject({
      names: ['a&quot;&lt;b>&amp;$&amp;.pickle'],
      title: 'a&quot;&lt;b>&amp;$&amp;.pickle - cudalloc',
    });
  });
});

describe('where it is written', () => {
  it('beside the first input, never over another file', async () => {
    const place = temporaryFolder();
    const path = join(place, 'run.7.pickle.gz');
    writeSnapshot(small, path);
    const { code, stdout, stderr } = await cli(['view', path]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/run\.7\.html: page, [\d,]+ bytes\n$/);
    expect(readdirSync(place).sort()).toEqual(['run.7.html', 'run.7.pickle.gz']);
    expect(await refused(path)).toMatch(/run\.7\.html is there already; name it with -o to replace it/);
    await report(path, '-o', join(place, 'run.7.html'));
  });

  it('on standard output, and nothing else there', async () => {
    const { code, stdout, stderr } = await cli(['view', input, '-o', '-']);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^standard output: page, [\d,]+ bytes\n$/);
    expect(pickle(contentOf(stdout).snapshots[0]!).equals(pickleOf(input))).toBe(true);
    expect(await refused(input, '-o', '-', '--json')).toMatch(/--output: - is standard output, where --json/);
    expect(await refused(input, '--svg', '-', '--json')).toMatch(/--svg: - is standard output, where --json/);
  });
});

describe('pictures', () => {
  it('of the timeline and of the segments, without a page', async () => {
    const place = temporaryFolder();
    const [png, svg] = [join(place, 'timeline.png'), join(place, 'segments.svg')];
    const { event, written } = await report(
      input,
      '--png',
      png,
      '--svg',
      svg,
      '--width',
      '900',
      '--height',
      '600',
      '--at',
      'peak',
    );
    expect(event).toBe(PEAK);
    expect(written).toEqual([
      { kind: 'timeline', file: png, bytes: readFileSync(png).length },
      { kind: 'segments', file: svg, bytes: readFileSync(svg).length },
    ]);
    expect(decode(readFileSync(png))).toMatchObject({ width: 900, height: 600 });
    const atPeak = readFileSync(svg, 'utf8');
    expect(atPeak).toMatch(/^<svg [^>]*viewBox="0 0 900 \d+"/);
    expect(readdirSync(place).sort()).toEqual(['segments.svg', 'timeline.png']);
    await report(input, '--svg', svg, '--width', '900', '--height', '600', '--at', String(LAST));
    const atLast = readFileSync(svg, 'utf8');
    expect(atLast).not.toBe(atPeak);
    await report(input, '--svg', svg, '--width', '900', '--height', '600');
    expect(readFileSync(svg, 'utf8')).toBe(atLast);
  });

  it('and the page too, when -o names it', async () => {
    const place = temporaryFolder();
    const output = join(place, 'a.html');
    const { written } = await report(input, '--png', join(place, 'a.png'), '-o', output);
    expect(written.map(({ kind }) => kind)).toEqual(['timeline', 'page']);
    expect(pageAt(output).names).toEqual(['small.pickle']);
  });

  it('of a state without events', async () => {
    const place = temporaryFolder();
    const path = join(place, 'state.json');
    writeSnapshot(snapshotOf([{ address: 2 ** 40, blocks: [[2 ** 21]] }], []), path);
    const { written } = await report(path, '--png', join(place, 'a.png'), '--svg', join(place, 'a.svg'));
    expect(written).toHaveLength(2);
  });
});

describe('what is refused', () => {
  it('bad usage', async () => {
    const output = join(folder, 'never');
    expect(await refused()).toMatch(/missing required argument 'snapshot'/);
    expect(await refused(input, '--at', 'noon')).toMatch(/no event number, and none of peak, oom, end/);
    expect(await refused(input, '-o', output, '--at', '5000')).toMatch(
      /--at: there is no event 5000; .* numbered 0 to \d+$/m,
    );
    expect(await refused(input, '--width', '900')).toMatch(/--width: it means nothing without --png or --svg/);
    expect(await refused(input, '--png', output, '--width', '0')).toMatch(/not from 1 to 16384/);
    expect(await refused(input, '--png', output, '--width', '20')).toMatch(/20 x 900 pixels are too few/);
    expect(await refused(input, '--port', '8000')).toMatch(/--port: it means nothing without --serve/);
    expect(await refused(input, '--serve', '-o', output)).toMatch(/--output: --serve writes no file/);
    expect(await refused(input, '--serve', '--png', output)).toMatch(/--png: --serve writes no file/);
    expect(await refused(input, '--serve', '--port', '65536')).toMatch(/ports end at 65535/);
    expect(await refused(input, input, '--svg', output)).toMatch(/--svg: a picture shows one snapshot/);
    expect(existsSync(output)).toBe(false);
  });

  it('one file for two things, and the snapshot itself', async () => {
    const output = join(folder, 'same');
    expect(await refused(input, '--png', output, '--svg', join(folder, '.', 'same'))).toMatch(
      /--svg: .*same is what --png writes/,
    );
    expect(await refused(input, '--png', output, '-o', output)).toMatch(/--output: .*same is what --png writes/);
    expect(await refused(input, '-o', input)).toMatch(/--output: .*small\.pickle is the snapshot itself/);
    expect(pickleOf(input).equals(pickle(small))).toBe(true);
  });

  it('files that cannot be read, by name, or written', async () => {
    const text = join(folder, 'notes.txt');
    writeFileSync(text, 'hello');
    const output = join(folder, 'none.html');
    expect(await refused(input, text, '-o', output)).toMatch(/notes\.txt: byte 0: this is no memory snapshot/);
    expect(await refused(join(folder, 'missing.pickle'))).toMatch(/ENOENT.*missing\.pickle/);
    expect(existsSync(output)).toBe(false);
    expect(await refused(input, '-o', join(folder, 'missing', 'a.html'))).toMatch(
      /--output: .*a\.html can't be written: ENOENT: no such file or directory$/m,
    );
  });

  it('a snapshot without an out of memory, where that is asked for', async () => {
    const path = join(folder, 'state.json');
    writeSnapshot(snapshotOf([{ address: 2 ** 40, blocks: [[2 ** 21]] }], []), path);
    expect(await refused(path, '--at', 'oom', '-o', '-')).toMatch(/--at: the snapshot records no out of memory/);
    expect(await refused(path, '--at', '0', '-o', '-')).toMatch(/--at: there is no event 0; .* are none$/m);
  });

  it('a damaged input, unless --salvage says otherwise', async () => {
    const path = join(temporaryFolder(), 'cut.pickle');
    const whole = readFileSync(input);
    writeFileSync(path, whole.subarray(0, whole.length - 500));
    const output = `${path}.html`;
    expect(await refused(path, '-o', output)).toMatch(/cut\.pickle: byte \d+/);
    const { salvaged } = await report(path, '-o', output, '--salvage');
    expect(salvaged[0]).toMatch(/\w/);
    expect(pageAt(output).snapshots[0]!.salvaged).toBe(salvaged[0]);
    const { stdout } = await cli(['view', path, '-o', output, '--salvage']);
    expect(stdout).toContain(`${path} is not all there: ${salvaged[0]}`);
  });
});

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readSnapshot, writeSnapshot } from '../../lib/snapshot/files.js';
import { temporaryFolder } from '../support/child.js';
import { cli } from '../support/cli.js';
import { record } from '../support/recordings.js';

const { snapshot } = record({
  seed: 12,
  conf: '',
  capacity: 600 * 2 ** 20,
  late: false,
  ring: 10_000,
  events: false,
  stacks: true,
});

function written(name: string): { readonly folder: string; readonly path: string } {
  const folder = temporaryFolder();
  writeSnapshot(snapshot, join(folder, name));
  return { folder, path: join(folder, name) };
}

describe('a copy without names', () => {
  it('is written beside the input, never over another file', async () => {
    const { folder, path } = written('a.pickle');
    const { code, stdout, stderr } = await cli(['redact', path, '--json']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const output = join(folder, 'a.redacted.pickle');
    expect(JSON.parse(stdout)).toEqual({
      input: path,
      output,
      format: 'pickle',
      bytes: readFileSync(output).length,
      frames: snapshot.stacks.frameCount,
      stacks: readSnapshot(path).stacks.size,
      events: snapshot.deviceTraces[0]!.length,
      salvaged: null,
    });
    expect(readFileSync(path, 'latin1')).toContain('recordings.ts');
    expect(readFileSync(output, 'latin1')).not.toContain('recordings');
    const again = await cli(['redact', path]);
    expect(again).toMatchObject({ code: 2, stdout: '' });
    expect(again.stderr).toMatch(/a\.redacted\.pickle is there already/);
  });

  it('replays as the original does', async () => {
    const { folder, path } = written('a.pickle');
    await cli(['redact', path]);
    const [original, copy] = await Promise.all(
      [path, join(folder, 'a.redacted.pickle')].map((file) => cli(['replay', file, '--json'])),
    );
    expect(original!.code).toBe(0);
    expect(JSON.parse(original!.stdout)).toHaveProperty('fidelity.exact');
    expect(copy).toEqual(original);
  });

  it('is JSON where the input is, or its name says so', async () => {
    const { folder, path } = written('a.json.gz');
    expect(await cli(['redact', path])).toMatchObject({ code: 0, stderr: '' });
    expect(readdirSync(folder).sort()).toEqual(['a.json.gz', 'a.redacted.json']);
    expect(readFileSync(join(folder, 'a.redacted.json'), 'utf8')).toMatch(/^\{"format":"cudalloc-snapshot"/);
    const { stdout } = await cli(['redact', path, '-o', join(folder, 'b.pickle')]);
    expect(stdout).toMatch(/b\.pickle: pickle, [\d,]+ bytes\n[\d,]+ frames in [\d,]+ stacks have tokens for names/);
    expect(readFileSync(join(folder, 'b.pickle'))[0]).toBe(0x80);
  });

  it('goes to standard output where that is asked for', async () => {
    const { path } = written('a.json');
    const { code, stdout, stderr } = await cli(['redact', path, '-o', '-']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ format: 'cudalloc-snapshot' });
    expect(stdout).not.toContain('recordings');
    expect(stderr).toMatch(/^standard output: json/);
  });

  it('is not made of what is no snapshot', async () => {
    const { code, stderr } = await cli(['redact', join(import.meta.dirname, 'redact.test.ts')]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^cudalloc: byte 0: this is no memory snapshot/);
  });
});

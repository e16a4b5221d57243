import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readSnapshot, snapshotFormatOf, writePieces, writeSnapshot } from '../../lib/snapshot/files.js';
import { formatJsonSnapshot } from '../../lib/snapshot/json/write-json.js';
import { formatPickleSnapshot } from '../../lib/snapshot/pickle/write-pickle.js';
import { temporaryFolder } from '../support/child.js';
import { oddSnapshot } from '../support/odd-snapshot.js';

const json = (): string => [...formatJsonSnapshot(oddSnapshot())].join('');
const pickle = (): Buffer => Buffer.concat(formatPickleSnapshot(oddSnapshot()));

describe('the format', () => {
  it.each([
    ['a.json', 'json'],
    ['a.JSON.gz', 'json'],
    ['a.pickle', 'pickle'],
    ['a.pickle.gz', 'pickle'],
    ['a.json.pickle', 'pickle'],
    ['json', 'pickle'],
  ])('of %s is %s', (name, format) => {
    expect(snapshotFormatOf(name)).toBe(format);
  });

  it('is told by the name', () => {
    const folder = temporaryFolder();
    for (const name of ['a.pickle', 'a.json', 'a.pickle.gz', 'a.json.gz'])
      writeSnapshot(oddSnapshot(), join(folder, name));
    const read = (name: string): Buffer => readFileSync(join(folder, name));
    expect(read('a.pickle').equals(pickle())).toBe(true);
    expect(read('a.json').toString()).toBe(json());
    expect(gunzipSync(read('a.pickle.gz')).equals(pickle())).toBe(true);
    expect(gunzipSync(read('a.json.gz')).toString()).toBe(json());
    expect(readdirSync(folder).sort()).toEqual(['a.json', 'a.json.gz', 'a.pickle', 'a.pickle.gz']);
  });

  it('may be said', () => {
    const path = join(temporaryFolder(), 'state');
    writeSnapshot(oddSnapshot(), path, { format: 'json' });
    expect([...formatJsonSnapshot(readSnapshot(path))].join('')).toBe(json());
  });
});

describe('a file', () => {
  it('of many pieces is compressed piece by piece', () => {
    const path = join(temporaryFolder(), 'large.gz');
    const pieces = Array.from({ length: 40 }, (_, i) => `${i}`.repeat(100_000));
    const bytes = writePieces(pieces, path);
    expect(readFileSync(path)).toHaveLength(bytes);
    expect(gunzipSync(readFileSync(path)).toString()).toBe(pieces.join(''));
    // A member for each so many bytes, not one for each piece.
    expect(readFileSync(path).toString('latin1').split('\x1f\x8b\x08').length - 1).toBeLessThan(10);
  });

  it('that cannot be finished leaves the older one as it was, and nothing beside it', () => {
    const folder = temporaryFolder();
    const path = join(folder, 'state.json');
    writeFileSync(path, 'older');
    const failing = function* () {
      yield 'x'.repeat(3_000_000);
      throw new Error('no more');
    };
    expect(() => writePieces(failing(), path)).toThrow('no more');
    expect(() => writePieces(failing(), join(folder, 'new.json'))).toThrow('no more');
    expect(readdirSync(folder)).toEqual(['state.json']);
    expect(readFileSync(path, 'utf8')).toBe('older');
  });

  it('is there only when it is whole', () => {
    const path = join(temporaryFolder(), 'state.json');
    const seen: boolean[] = [];
    const watching = function* () {
      for (let i = 0; i < 3; i++) {
        yield 'x'.repeat(1_500_000);
        seen.push(existsSync(path));
      }
    };
    writePieces(watching(), path);
    expect(seen).toEqual([false, false, false]);
    expect(readFileSync(path)).toHaveLength(4_500_000);
  });

  it('that a link names is replaced, not the link', () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'real'), 'older');
    symlinkSync('real', join(folder, 'link'));
    writePieces(['newer'], join(folder, 'link'));
    expect(lstatSync(join(folder, 'link')).isSymbolicLink()).toBe(true);
    expect(readFileSync(join(folder, 'real'), 'utf8')).toBe('newer');
  });

  it.skipIf(!existsSync('/dev/full'))('that is a device is written to, not replaced; a full disk is an error', () => {
    writePieces(['something'], '/dev/null');
    expect(lstatSync('/dev/null').isCharacterDevice()).toBe(true);
    expect(() => writePieces(['something'], '/dev/full')).toThrow(/ENOSPC/);
  });

  it("that cannot be made is the system's error", () => {
    const folder = temporaryFolder();
    expect(() => writeSnapshot(oddSnapshot(), join(folder, 'missing', 'a.json'))).toThrow(/ENOENT/);
    mkdirSync(join(folder, 'folder'));
    expect(() => writeSnapshot(oddSnapshot(), join(folder, 'folder'))).toThrow(/EISDIR/);
    expect(readdirSync(folder)).toEqual(['folder']);
  });
});

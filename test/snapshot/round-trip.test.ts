// Pickle in, pickle out, with and without our JSON in between: Python reads equal objects, keys in the same order, frames included.

import { statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readSnapshot, writeSnapshot } from '../../lib/snapshot/files.js';
import { formatJsonSnapshot } from '../../lib/snapshot/json/write-json.js';
import type { Snapshot } from '../../lib/snapshot/model.js';
import { redact } from '../../lib/snapshot/redact.js';
import { temporaryFolder } from '../support/child.js';
import { oddSnapshot } from '../support/odd-snapshot.js';
import { COMPARE_PICKLES, hasPython, python } from '../support/python.js';
import { record } from '../support/recordings.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';

const json = (snapshot: Snapshot): string => [...formatJsonSnapshot(snapshot)].join('');

/** Writes what is read from a pickle as a pickle, as JSON, and that as a pickle again; the two pickles. */
function thereAndBack(path: string): [pickle: string, throughJson: string] {
  const folder = temporaryFolder();
  const base = join(folder, basename(path));
  const snapshot = readSnapshot(path);
  writeSnapshot(snapshot, `${base}.pickle`);
  writeSnapshot(snapshot, `${base}.json`);
  const again = readSnapshot(`${base}.json`);
  expect(json(again)).toBe(json(snapshot));
  writeSnapshot(again, `${base}.2.pickle`);
  return [`${base}.pickle`, `${base}.2.pickle`];
}

const different = (...paths: string[]): unknown => JSON.parse(python(COMPARE_PICKLES, paths));

describe.skipIf(SHARED_SNAPSHOTS.length === 0 || !hasPython)('real files, read by Python', () => {
  it.each(SHARED_SNAPSHOTS)('$name', ({ path }) => {
    const [pickle, throughJson] = thereAndBack(path);
    expect(different(path, pickle, path, throughJson)).toEqual([]);
    // PyTorch writes a frame again for each of its objects; ours are written once.
    expect(statSync(pickle).size).toBeLessThan(statSync(path).size);
  });

  it('tells files apart', () => {
    const [first, second] = SHARED_SNAPSHOTS;
    expect(different(first!.path, first!.path, first!.path, second!.path)).toEqual([1]);
    const folder = temporaryFolder();
    const snapshot = readSnapshot(first!.path);
    const changed = redact(snapshot);
    writeSnapshot(changed, join(folder, 'changed.pickle'));
    expect(different(first!.path, join(folder, 'changed.pickle'))).toEqual([0]);
  });
});

describe.skipIf(!hasPython)('ours, read by Python', () => {
  it.each([
    ['with everything', oddSnapshot()],
    [
      'of the simulated device',
      record({ seed: 9, conf: '', capacity: 2 ** 29, late: true, ring: 200, events: true, stacks: true }).snapshot,
    ],
  ])('%s', (_, snapshot) => {
    const path = join(temporaryFolder(), 'ours.pickle');
    writeSnapshot(snapshot, path);
    const [pickle, throughJson] = thereAndBack(path);
    expect(different(path, pickle, path, throughJson)).toEqual([]);
  });
});

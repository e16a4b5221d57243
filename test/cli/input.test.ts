import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readInput, workloadOf } from '../../lib/cli/input.js';
import { readTrace, writeSnapshot } from '../../lib/snapshot/files.js';
import { temporaryFolder } from '../support/child.js';
import { rule } from '../support/cli.js';
import { record } from '../support/recordings.js';

const CLASSIC = rule('fragmentation-classic');
const folder = temporaryFolder();
const { snapshot } = record({
  seed: 3,
  conf: '',
  capacity: 2 ** 40,
  late: false,
  ring: 10_000,
  events: false,
  stacks: true,
});

function written(name: string, bytes: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

describe('an input', () => {
  it.each([
    ['plain', CLASSIC],
    ['gzip, whatever its name', written('trace.pickle', gzipSync(readFileSync(CLASSIC)))],
    ['with comments first', written('comments.txt', `# a trace\n\n# of nothing\n${readFileSync(CLASSIC, 'utf8')}`)],
    ['of one letter', written('letter.txt', 'e')],
    ['longer than what is looked at', written('long.txt', `${'# a comment\n'.repeat(9999)}a 1 1 0\n`)],
  ])('is a trace: %s', (_, path) => {
    const input = readInput(path);
    expect(input).toEqual({ kind: 'trace', trace: readTrace(path) });
  });

  it.each(['snapshot.pickle', 'snapshot.pickle.gz', 'snapshot.json', 'snapshot.json.gz', 'snapshot.txt'])(
    'is a snapshot: %s',
    (name) => {
      const path = join(folder, name);
      writeSnapshot(snapshot, path);
      const input = readInput(path);
      expect(input.kind).toBe('snapshot');
      const workload = workloadOf(input);
      expect(workload.allocations).toBeGreaterThan(100);
      expect(workload.fidelity?.exact).toBe(workload.fidelity?.allocations);
    },
  );

  it.each([
    ['empty', ''],
    ['HTML', '<html></html>'],
    ['a word', 'address'],
    ['damaged gzip', new Uint8Array([0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8])],
  ])('is neither: %s', (name, bytes) => {
    expect(() => readInput(written(`${name}.bin`, bytes))).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/^ERR_CUDALLOC_(SNAPSHOT|TRACE)_FORMAT$/) }),
    );
  });

  it('that is missing, or a folder, is the system that says it', () => {
    expect(() => readInput(join(folder, 'missing'))).toThrow(/ENOENT/);
    expect(() => readInput(folder)).toThrow(/EISDIR/);
  });
});

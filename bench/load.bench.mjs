// How long loading a snapshot takes and how much memory, beside CPython's pickle.load (its collector on) on the same file, and beside the same
// snapshot in our binary form: each in a process of its own, in turns.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { readSnapshot, writeSnapshot } from '../dist/snapshot/files.js';
import { parseSnapshot } from '../dist/snapshot/read-snapshot.js';
import { writeSnapshotFile } from './snapshot-files.mjs';
import { machine, SMOKE } from './support.mjs';

/** Peak memory of the process in bytes and milliseconds of the loading alone. */
const PYTHON = `
import pickle, resource, sys, time
begin = time.perf_counter()
with open(sys.argv[1], 'rb') as file: value = pickle.load(file)
took = time.perf_counter() - begin
print(took * 1000, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, len(value['device_traces'][0]))
`;

if (process.argv[2] === '--load') {
  const begin = performance.now();
  const snapshot = parseSnapshot(readFileSync(process.argv[3]));
  const took = performance.now() - begin;
  console.log(took, process.resourceUsage().maxRSS * 1024, snapshot.deviceTraces[0].length);
} else {
  compare();
}

function compare() {
  const folder = mkdtempSync(join(tmpdir(), 'cudalloc-load-'));
  const hasPython = spawnSync('python3', ['--version']).status === 0;
  if (!hasPython) console.log('python3 is not here: no comparison');
  console.log(machine());
  try {
    const plans = [
      { stacks: 'shared', events: SMOKE ? 3000 : 1_000_000 },
      { stacks: 'own', events: SMOKE ? 3000 : 1_000_000 },
      { stacks: 'distinct', events: SMOKE ? 300 : 100_000 },
    ];
    for (const plan of plans) {
      const path = join(folder, 'snapshot.pickle');
      const bytes = writeSnapshotFile(path, plan);
      console.log(`${plan.events} events, ${plan.stacks} stacks: ${(bytes / 2 ** 20).toFixed(1)} MiB`);
      const binaryPath = join(folder, 'snapshot.cudalloc');
      writeSnapshot(readSnapshot(path), binaryPath);
      const rounds = SMOKE ? 1 : 3;
      const ours = [];
      const theirs = [];
      const binary = [];
      for (let round = 0; round < rounds; round++) {
        if (hasPython) theirs.push(run('python3', ['-c', PYTHON, path], plan.events));
        ours.push(run(process.execPath, [import.meta.filename, '--load', path], plan.events));
        binary.push(run(process.execPath, [import.meta.filename, '--load', binaryPath], plan.events));
      }
      print('ours', ours, bytes);
      print('our binary', binary, statSync(binaryPath).size);
      const [small, large] = [binaryPath, path].map((file) => gzipSync(readFileSync(file)).length);
      console.log(
        `  binary to pickle: time ${(best(binary) / best(ours)).toFixed(2)}, gzip ${(small / large).toFixed(2)}`,
      );
      if (!hasPython) continue;
      print('pickle.load', theirs, bytes);
      console.log(`  time ratio  ${(best(ours) / best(theirs)).toFixed(2)}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function run(command, args, events) {
  const { stdout, stderr, status } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  const [ms, rss, found] = stdout.trim().split(' ').map(Number);
  if (found !== events) throw new Error(`${command} found ${found} events of ${events}`);
  return { ms, rss };
}

function best(runs) {
  return Math.min(...runs.map(({ ms }) => ms));
}

function print(name, runs, bytes) {
  const rss = Math.max(...runs.map((run) => run.rss));
  const times = runs.map(({ ms }) => ms.toFixed(0)).join(', ');
  console.log(
    `  ${name.padEnd(12)}${times} ms; peak ${(rss / 2 ** 20).toFixed(0)} MiB, ${(rss / bytes).toFixed(1)} x the file`,
  );
}

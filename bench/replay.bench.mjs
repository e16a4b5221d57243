// How fast does a recorded workload run through the allocator? Nanoseconds an operation of the golden traces of 200,000 operations on the
// simulated device, history off, placements kept. `node bench/replay.bench.mjs [folder of golden/pytorch/workloads]`

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TraceRunner } from '../dist/analysis/replay/trace-runner.js';
import { openDevice, readTrace } from '../dist/index.js';
import { machine, nanoseconds, SMOKE, twoCrossings } from './support.mjs';

const TARGET = 130;
const ROUNDS = SMOKE ? 1 : 7;
const shared = process.env.CUDALLOC_SHARED ?? fileURLToPath(new URL('../../shared', import.meta.url));
const folder = process.argv[2] ?? join(shared, 'golden/pytorch/workloads');

function casesOf(workload) {
  const path = join(folder, workload);
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => JSON.parse(readFileSync(join(path, entry.name, 'meta.json'), 'utf8')));
}

function runOnce(trace, { config, capacity }) {
  const device = openDevice({ backend: 'sim', capacity });
  const runner = new TraceRunner(trace, { device, conf: config, policy: 'pytorch' });
  const time = nanoseconds((count) => {
    for (let op = 0; op < count; op++) {
      try {
        runner.apply(op);
      } catch (error) {
        if (error.code !== 'ERR_CUDALLOC_OUT_OF_MEMORY') throw error;
      }
    }
  }, trace.ops);
  runner.close();
  return time;
}

let workloads;
try {
  workloads = readdirSync(folder).filter((name) => name.endsWith('-200k'));
} catch {
  console.error(`the golden workloads are not at ${folder}; name their folder as the argument`);
  process.exit(2);
}
console.log(machine());
console.log(
  `replay, policy pytorch, history off; nanoseconds an operation, best of ${ROUNDS} (target ${TARGET}; PyTorch's own takes 250)\n`,
);
twoCrossings(1_000_000);
for (const workload of workloads) {
  const trace = await readTrace(join(folder, workload, 'trace.txt.gz'));
  for (const meta of casesOf(workload)) {
    const times = Array.from({ length: ROUNDS }, () => runOnce(trace, meta));
    const best = Math.min(...times);
    const ratio = best / nanoseconds(twoCrossings, 1_000_000);
    console.log(
      `${`${workload} ${meta.name}`.padEnd(45)} ${best.toFixed(1).padStart(7)}  two crossings x ${ratio.toFixed(2)}`,
    );
  }
}

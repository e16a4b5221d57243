// How fast a snapshot is replayed exactly, and analysed: one of a million events, recorded here on the simulated device.

import { CachingAllocator } from '../dist/allocator/caching-allocator.js';
import { openRecording, replayExactly } from '../dist/analysis/replay/snapshot-replay.js';
import { analyze } from '../dist/analysis/report/report.js';
import { SimDevice } from '../dist/device/sim.js';
import { machine, randomNumbers, SMOKE } from './support.mjs';

const EVENTS = SMOKE ? 3000 : 1_000_000;
const LIVE = 4000;

/** Random sizes of both pools, about 4,000 blocks live; the recording starts when they are. */
function recorded() {
  const random = randomNumbers(20261201);
  const allocator = new CachingAllocator({ device: new SimDevice({ capacity: 2 ** 40 }), conf: '', policy: 'pytorch' });
  const live = [];
  const step = () => {
    if (live.length < LIVE || random(2) === 0)
      live.push(allocator.malloc(1 + random(random(4) === 0 ? 2 ** 24 : 2 ** 19)));
    else allocator.free(live.splice(random(live.length), 1)[0]);
  };
  for (let i = 0; i < 2 * LIVE; i++) step();
  allocator.recordMemoryHistory({ maxEntries: Number.POSITIVE_INFINITY });
  while (allocator.history.total < EVENTS) step();
  return allocator.memorySnapshot();
}

function timed(name, events, run) {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < (SMOKE ? 1 : 3); round++) {
    const begin = performance.now();
    run();
    best = Math.min(best, performance.now() - begin);
  }
  console.log(
    `  ${name.padEnd(34)}${best.toFixed(0).padStart(6)} ms, ${((best * 1e6) / events).toFixed(0)} ns an event`,
  );
}

const snapshot = recorded();
const events = snapshot.deviceTraces[0].length;
const recording = openRecording(snapshot);
const { fidelity } = replayExactly(recording);
console.log(machine());
console.log(
  `${events} events, ${snapshot.segments.length} segments; ${fidelity.exact} of ${fidelity.allocations} placed as recorded`,
);
timed('start state, rebuilt', events, () => openRecording(snapshot));
timed('exact replay with its report', events, () => replayExactly(recording));
timed('analyze', events, () => analyze(snapshot, { advise: false }));

// What does a malloc and a free cost that the cache serves? Against two calls into an addon, which is what a native allocator would cost before
// it does anything. `node bench/hot-path.bench.mjs [--json]`

import { CachingAllocator, openDevice } from '../dist/index.js';
import { machine, measure, randomNumbers } from './support.mjs';

const MIB = 2 ** 20;
const LIVE = 10_000;

function oneSize(allocator) {
  return (count) => {
    for (let i = 0; i < count; i++) allocator.free(allocator.malloc(1024));
  };
}

/** 64 sizes up to 256 KiB, allocated, then freed in reverse. */
function stackOrder(allocator) {
  const sizes = Array.from({ length: 64 }, (_, i) => 512 * (1 + ((i * 37) % 64) * 8));
  const held = new Float64Array(64);
  return (count) => {
    for (let done = 0; done < count; done += 64) {
      for (let i = 0; i < 64; i++) held[i] = allocator.malloc(sizes[i]);
      for (let i = 63; i >= 0; i--) allocator.free(held[i]);
    }
  };
}

/** One of 10,000 live blocks is freed, another size up to 1 MiB allocated. */
function randomOrder(allocator) {
  const random = randomNumbers(12345);
  const size = () => 512 + random(MIB - 512);
  const live = Float64Array.from({ length: LIVE }, () => allocator.malloc(size()));
  return (count) => {
    for (let i = 0; i < count; i++) {
      const at = random(LIVE);
      allocator.free(live[at]);
      live[at] = allocator.malloc(size());
    }
  };
}

const SHAPES = [
  { name: 'one size', target: 2, count: 500_000, make: oneSize },
  { name: '64 sizes, stack order', target: 2.75, count: 500_032, make: stackOrder },
  { name: '10,000 live, random order', target: 10, count: 200_000, make: randomOrder },
];

const subjects = [];
for (const history of [false, true]) {
  for (const { name, target, count, make } of SHAPES) {
    const device = openDevice({ backend: 'sim', capacity: 80 * 1024 * MIB });
    const allocator = new CachingAllocator({ device, conf: '', policy: 'pytorch' });
    if (history) allocator.recordMemoryHistory({ maxEntries: 100_000 });
    subjects.push({
      name: history ? `${name}, history on` : name,
      target: history ? null : target,
      count,
      run: make(allocator),
    });
  }
}

const results = measure(subjects).map((result, i) => ({ ...result, target: subjects[i - 1]?.target ?? null }));
if (process.argv.includes('--json')) {
  console.log(JSON.stringify({ machine: machine(), results }));
} else {
  console.log(machine());
  console.log('a malloc and free that hit the cache, statistics on, policy pytorch; nanoseconds a pair\n');
  for (const { name, best, median, ratio, target } of results) {
    const aim = target === null ? '' : `  (target ${target})`;
    console.log(
      `${name.padEnd(40)} best ${best.toFixed(1).padStart(7)}  median ${median.toFixed(1).padStart(7)}  ratio ${ratio.toFixed(2).padStart(6)}${aim}`,
    );
  }
}

// What does a malloc and a free cost that the cache serves? Against two calls into an addon, which is what a native allocator would cost before
// it does anything. `node bench/hot-path.bench.mjs [--json]`

import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { CachingAllocator, openDevice } from '../dist/index.js';
import { machine, measure, randomNumbers, SMOKE } from './support.mjs';

const MIB = 2 ** 20;
const LIVE = 10_000;
const DRAWN = 2 ** 18;

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
  // Drawn beforehand: the divisions would count as the allocator's time.
  const places = Int32Array.from({ length: DRAWN }, () => random(LIVE));
  const sizes = Int32Array.from({ length: DRAWN }, size);
  let next = 0;
  return (count) => {
    for (let i = 0; i < count; i++) {
      const at = places[next];
      allocator.free(live[at]);
      live[at] = allocator.malloc(sizes[next]);
      next = (next + 1) & (DRAWN - 1);
    }
  };
}

const SHAPES = [
  { name: 'one size', target: 2, count: 500_000, make: oneSize },
  { name: '64 sizes, stack order', target: 2.75, count: 500_032, make: stackOrder },
  { name: '10,000 live, random order', target: 10, count: 200_000, make: randomOrder },
];

/** One shape, with and without history, and the yardstick, in this process. */
function measureShape({ name, target, count, make }) {
  const subjects = [false, true].map((history) => {
    const device = openDevice({ backend: 'sim', capacity: 80 * 1024 * MIB });
    const allocator = new CachingAllocator({ device, conf: '', policy: 'pytorch' });
    if (history) allocator.recordMemoryHistory({ maxEntries: 100_000 });
    return { name: history ? `${name}, history on` : name, count: SMOKE ? count / 10 : count, run: make(allocator) };
  });
  const [crossings, off, on] = measure(subjects);
  return { crossings, off: { ...off, target }, on: { ...on, target: 2 * off.ratio } };
}

/** Each shape has a process of its own, as a program has that allocates in this way. */
function inProcesses() {
  const script = fileURLToPath(import.meta.url);
  return SHAPES.map((_, i) =>
    JSON.parse(execFileSync(process.execPath, [script, '--shape', String(i)], { encoding: 'utf8' })),
  );
}

function print(results) {
  console.log(machine());
  console.log('a malloc and free that hit the cache, statistics on, policy pytorch; nanoseconds a pair\n');
  for (const { crossings, off, on } of results) {
    for (const { name, best, median, ratio, target } of [crossings, off, on]) {
      const aim = target === undefined ? '' : `  (target ${target.toFixed(2)})`;
      const figures = `best ${best.toFixed(1).padStart(7)}  median ${median.toFixed(1).padStart(7)}  ratio ${ratio.toFixed(2).padStart(6)}`;
      console.log(`${name.padEnd(40)} ${figures}${aim}`);
    }
  }
}

const shape = process.argv.indexOf('--shape');
if (shape !== -1) console.log(JSON.stringify(measureShape(SHAPES[Number(process.argv[shape + 1])])));
else if (process.argv.includes('--json')) console.log(JSON.stringify({ machine: machine(), results: inProcesses() }));
else print(inProcesses());

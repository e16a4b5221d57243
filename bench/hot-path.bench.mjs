// What does a malloc and a free cost that the cache serves? Against two calls into an addon, which is what a native allocator would cost before
// it does anything; and the policy `paged` against PyTorch's. `node bench/hot-path.bench.mjs [--json]`

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

/** 60 MiB again and again, on a device where they fit only in pieces of what others have left: under `paged` a stitched range. */
function inPieces(allocator) {
  const held = Array.from({ length: 6 }, () => allocator.malloc(30 * MIB));
  for (const i of [0, 2, 4]) allocator.free(held[i]);
  return (count) => {
    for (let i = 0; i < count; i++) allocator.free(allocator.malloc(60 * MIB));
  };
}

const ROOMY = 80 * 1024 * MIB;
const SHAPES = [
  { name: 'one size', target: 2, count: 500_000, make: oneSize, capacity: ROOMY },
  { name: '64 sizes, stack order', target: 2.75, count: 500_032, make: stackOrder, capacity: ROOMY },
  { name: '10,000 live, random order', target: 10, count: 200_000, make: randomOrder, capacity: ROOMY },
];
/** For the policies only, so no target of its own. */
const IN_PIECES = { name: '60 MiB in pieces', target: undefined, count: 200_000, make: inPieces, capacity: 182 * MIB };
/** The policies side by side, in one process and in turn. */
const POLICIES = [
  { name: 'pytorch', policy: 'pytorch', conf: '' },
  { name: 'pytorch, expandable segments', policy: 'pytorch', conf: 'expandable_segments:True' },
  { name: 'paged', policy: 'paged', conf: '' },
];

/** One shape, with and without history, and the yardstick, in this process. */
function measureShape({ name, target, count, make }) {
  const subjects = [false, true].map((history) => {
    const allocator = allocatorOf(POLICIES[0], ROOMY);
    if (history) allocator.recordMemoryHistory({ maxEntries: 100_000 });
    return { name: history ? `${name}, history on` : name, count: counted(count), run: make(allocator) };
  });
  const [crossings, off, on] = measure(subjects);
  return { crossings, off: { ...off, target }, on: { ...on, target: 2 * off.ratio } };
}

/** One shape under every policy, in turn; the ratio is to the first. */
function comparePolicies({ name, count, make, capacity }) {
  const subjects = POLICIES.map((policy) => {
    const run = make(allocatorOf(policy, capacity));
    return { name: `${name}: ${policy.name}`, count: counted(count), run };
  });
  const [, ...results] = measure(subjects);
  return results.map((result) => ({ ...result, ratio: result.best / results[0].best }));
}

function allocatorOf({ policy, conf }, capacity) {
  return new CachingAllocator({ device: openDevice({ backend: 'sim', capacity }), conf, policy });
}

function counted(count) {
  return SMOKE ? Math.ceil(count / 10) : count;
}

/** Each measurement has a process of its own, as a program has that allocates in this way. */
function inProcess(...args) {
  return JSON.parse(execFileSync(process.execPath, [fileURLToPath(import.meta.url), ...args], { encoding: 'utf8' }));
}

function measureAll() {
  return {
    machine: machine(),
    results: SHAPES.map((_, i) => inProcess('--shape', String(i))),
    policies: [...SHAPES, IN_PIECES].map((_, i) => inProcess('--policies', String(i))),
  };
}

function print({ machine: name, results, policies }) {
  console.log(name);
  console.log('a malloc and free that hit the cache, statistics on, policy pytorch; nanoseconds a pair\n');
  for (const { crossings, off, on } of results) for (const subject of [crossings, off, on]) printSubject(subject);
  console.log('\nthe same under each policy; ratios to the first\n');
  for (const subject of policies.flat()) printSubject(subject);
}

function printSubject({ name, best, median, ratio, target }) {
  const aim = target === undefined ? '' : `  (target ${target.toFixed(2)})`;
  const figures = `best ${best.toFixed(1).padStart(7)}  median ${median.toFixed(1).padStart(7)}  ratio ${ratio.toFixed(2).padStart(6)}`;
  console.log(`${name.padEnd(52)} ${figures}${aim}`);
}

const [mode, index] = process.argv.slice(2);
const shape = [...SHAPES, IN_PIECES][Number(index)];
if (mode === '--shape') console.log(JSON.stringify(measureShape(shape)));
else if (mode === '--policies') console.log(JSON.stringify(comparePolicies(shape)));
else if (mode === '--json') console.log(JSON.stringify(measureAll()));
else print(measureAll());

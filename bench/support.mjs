// What the benchmarks share: timing in rounds, so that a noisy machine disturbs a measurement and its yardstick alike, and the machine's name.

import { cpus, release } from 'node:os';
import { loadAddon } from '../dist/device/native-addon.js';

/** Nanoseconds a repetition of `fn(count)`. */
export function nanoseconds(fn, count) {
  const start = process.hrtime.bigint();
  fn(count);
  return Number(process.hrtime.bigint() - start) / count;
}

/** Set by the checks, which only want to see that the benchmarks run. */
export const SMOKE = process.env.CUDALLOC_BENCH_SMOKE === '1';

const { identity } = loadAddon();

/**
 * The yardstick: what two calls into an addon cost that take and return a number (raw Node-API, one double in, one double out). Takes an
 * address-like number, as malloc and free would.
 */
export function twoCrossings(count) {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += identity(identity(0x7f0000000000 + i));
  return sum;
}

/**
 * Measures every subject and the yardstick in each of `rounds` rounds after a warm-up round.
 * @param subjects `{ name, count, run(count) }`
 * @returns for each: best and median nanoseconds, and the ratio of the bests to the yardstick
 */
export function measure(subjects, rounds = SMOKE ? 1 : 15) {
  const all = [{ name: 'two crossings', count: 1_000_000, run: twoCrossings }, ...subjects];
  const times = all.map(() => []);
  for (let round = 0; round <= rounds; round++) {
    all.forEach(({ run, count }, i) => {
      const time = nanoseconds(run, count);
      if (round > 0) times[i].push(time);
    });
  }
  const best = times.map((list) => Math.min(...list));
  return all.map(({ name }, i) => ({
    name,
    best: best[i],
    median: times[i].sort((a, b) => a - b)[Math.floor(rounds / 2)],
    ratio: best[i] / best[0],
  }));
}

export function machine() {
  const list = cpus();
  return `${list[0].model.trim()}, ${list.length} cores, Linux ${release()}, Node ${process.versions.node}`;
}

/** A small fast generator, so that every run sees the same sequence. */
export function randomNumbers(seed) {
  let x = seed;
  return (below) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) % below;
  };
}

// Call sites whose memory grows from iteration to iteration and never comes back. The rule: the least that a site holds within an
// iteration (its floor) rises in every iteration after the first, which may fill caches. Sites that fluctuate have a steady floor; caches
// that stop growing stop rising. What it cannot tell: growth that pauses, a program that is still warming up when it ends, and, without
// annotations, fewer than about ten iterations or what is not a loop at all, such as a model that is being loaded.

import { type Config, DEFAULT_CONFIG } from '../../allocator/config.js';
import { roundSize } from '../../allocator/rounding.js';
import { ALLOC, type DeviceTrace, FREE_REQUESTED, type Snapshot } from '../../snapshot/model.js';
import type { Growth } from './format.js';
import { reportFrames } from './frames.js';
import { iterationsOf } from './iterations.js';

/** With fewer iterations nothing can be said. */
const FEWEST_ITERATIONS = 4;
/** With fewer events a part is no iteration of anything. */
const FEWEST_EVENTS = 50;

/** Most bytes first. Linear in events, and in call sites for each iteration. */
export function growthOf(snapshot: Snapshot, device: number, config: Config = DEFAULT_CONFIG): Growth[] {
  const trace = snapshot.deviceTraces[device];
  if (trace === undefined || trace.length < FEWEST_EVENTS) return [];
  const { starts } = iterationsOf(snapshot, device, trace);
  if (starts.length + 1 < FEWEST_ITERATIONS) return [];
  const floors = new Floors(trace, snapshot.stacks.size, config);
  starts.forEach((start, i) => {
    floors.advance(start, i);
  });
  floors.advance(trace.length, starts.length);
  const iterations = starts.length;
  return floors
    .risen(iterations)
    .map(({ stack, bytes, count }) => ({
      device,
      frames: reportFrames(snapshot.stacks, stack),
      bytes_per_iteration: Math.round(bytes / iterations),
      count_per_iteration: count / iterations,
      iterations,
      bytes,
    }))
    .sort((a, b) => b.bytes - a.bytes);
}

class Floors {
  readonly #trace: DeviceTrace;
  readonly #config: Config;
  readonly #live = new Map<number, { readonly stack: number; readonly size: number }>();
  readonly #bytes: Float64Array;
  readonly #counts: Float64Array;
  /** The least since the present iteration began. */
  readonly #floors: Float64Array;
  readonly #countFloors: Float64Array;
  readonly #previous: Float64Array;
  /** At the end of the first iteration. */
  readonly #first: Float64Array;
  readonly #firstCounts: Float64Array;
  /** How often a floor has risen in a row. */
  readonly #rises: Uint32Array;
  #next = 0;

  constructor(trace: DeviceTrace, stacks: number, config: Config) {
    this.#trace = trace;
    this.#config = config;
    this.#bytes = new Float64Array(stacks);
    this.#counts = new Float64Array(stacks);
    this.#floors = new Float64Array(stacks);
    this.#countFloors = new Float64Array(stacks);
    this.#previous = new Float64Array(stacks);
    this.#first = new Float64Array(stacks);
    this.#firstCounts = new Float64Array(stacks);
    this.#rises = new Uint32Array(stacks);
  }

  /** Takes in the events up to `end`, the end of an iteration. */
  advance(end: number, iteration: number): void {
    for (; this.#next < end; this.#next++) this.#take(this.#next);
    if (iteration === 0) {
      this.#first.set(this.#floors);
      this.#firstCounts.set(this.#countFloors);
    } else {
      for (let stack = 0; stack < this.#rises.length; stack++) {
        if ((this.#floors[stack] as number) > (this.#previous[stack] as number)) (this.#rises[stack] as number)++;
        else this.#rises[stack] = 0;
      }
    }
    this.#previous.set(this.#floors);
    // The last iteration's floors are the result.
    if (end < this.#trace.length) {
      this.#floors.set(this.#bytes);
      this.#countFloors.set(this.#counts);
    }
  }

  /** Stacks whose floor has risen so many times in a row. */
  risen(times: number): { readonly stack: number; readonly bytes: number; readonly count: number }[] {
    const found: { stack: number; bytes: number; count: number }[] = [];
    // Stack 0 has no frames: it names no call site.
    for (let stack = 1; stack < this.#rises.length; stack++) {
      if ((this.#rises[stack] as number) < times) continue;
      const bytes = (this.#floors[stack] as number) - (this.#first[stack] as number);
      const count = (this.#countFloors[stack] as number) - (this.#firstCounts[stack] as number);
      found.push({ stack, bytes, count });
    }
    return found;
  }

  #take(event: number): void {
    const { actions, addresses, sizes, stacks } = this.#trace;
    const address = addresses[event] as number;
    if (actions[event] === ALLOC) {
      const stack = stacks[event] as number;
      const size = roundSize(sizes[event] as number, this.#config);
      this.#live.set(address, { stack, size });
      (this.#bytes[stack] as number) += size;
      (this.#counts[stack] as number)++;
    } else if (actions[event] === FREE_REQUESTED) {
      const block = this.#live.get(address);
      if (block === undefined) return;
      this.#live.delete(address);
      const { stack, size } = block;
      (this.#bytes[stack] as number) -= size;
      (this.#counts[stack] as number)--;
      this.#floors[stack] = Math.min(this.#floors[stack] as number, this.#bytes[stack] as number);
      this.#countFloors[stack] = Math.min(this.#countFloors[stack] as number, this.#counts[stack] as number);
    }
  }
}

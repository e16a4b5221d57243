// Lifetimes made up by hand or at random, for tests of what is drawn of them.

import fc from 'fast-check';
import type { Lifetimes } from '../../lib/analysis/recording/lifetimes.js';

export interface Life {
  readonly start: number;
  readonly freed: number;
  readonly end: number;
  readonly size: number;
}

/** @param lives in any order */
export function lifetimesOf(lives: readonly Life[], events: number): Lifetimes {
  const rows = [...lives].sort((a, b) => a.start - b.start);
  const at = (moment: number, pick: (life: Life) => boolean): number =>
    rows.reduce((sum, life) => (life.start <= moment && pick(life) ? sum + life.size : sum), 0);
  const along = (pick: (life: Life, moment: number) => boolean): Float64Array =>
    Float64Array.from({ length: events + 1 }, (_, i) => at(i - 1, (life) => pick(life, i - 1)));
  const active = along(({ end }, moment) => moment < end);
  return {
    device: 0,
    events,
    blocks: {
      length: rows.length,
      addresses: Float64Array.from(rows, (_, i) => 0x7f0000000000 + i * 2 ** 21),
      sizes: Float64Array.from(rows, ({ size }) => size),
      requested: Float64Array.from(rows, ({ size }) => size),
      streams: new Float64Array(rows.length),
      stacks: new Uint32Array(rows.length),
      starts: Int32Array.from(rows, ({ start }) => start),
      freed: Int32Array.from(rows, ({ freed }) => freed),
      ends: Int32Array.from(rows, ({ end }) => end),
      ranges: new Int32Array(rows.length).fill(-1),
    },
    ranges: {
      length: 0,
      addresses: new Float64Array(0),
      sizes: new Float64Array(0),
      streams: new Float64Array(0),
      stacks: new Uint32Array(0),
      starts: new Int32Array(0),
      ends: new Int32Array(0),
      expandable: new Uint8Array(0),
      poolOf: new Uint16Array(0),
      pools: [],
    },
    allocated: along(({ freed }, moment) => moment < freed),
    active,
    reserved: active.map((bytes) => bytes * 2),
  };
}

/** Random ones: start before free before end, the last two possibly never. */
export const anyLives: fc.Arbitrary<{ readonly lives: readonly Life[]; readonly events: number }> = fc
  .integer({ min: 0, max: 120 })
  .chain((events) =>
    fc
      .array(
        fc
          .tuple(
            fc.integer({ min: -1, max: Math.max(-1, events - 1) }),
            fc.nat(events),
            fc.nat(events),
            fc.integer({ min: 1, max: 5000 }),
          )
          .map(([start, a, b, size]) => {
            const freed = Math.min(events, Math.max(start + 1, Math.min(a, b)));
            return { start, freed, end: Math.min(events, Math.max(freed, a, b)), size };
          }),
        { maxLength: 80 },
      )
      .map((lives) => ({ lives, events })),
  );

// The highest value of a stretch: compared with looking through it.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HighestIn } from '../../../lib/viewer/timeline/highest-in.js';

function firstHighest(values: readonly number[], from: number, to: number): number {
  let best = from;
  for (let i = from; i < to; i++) if ((values[i] as number) > (values[best] as number)) best = i;
  return best;
}

test('is the first of the highest, whatever the stretch', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 20 }), { minLength: 1, maxLength: 700 }),
      fc.array(fc.tuple(fc.nat(), fc.nat()), { minLength: 20, maxLength: 20 }),
      (values, stretches) => {
        const highest = new HighestIn(Float64Array.from(values));
        for (const [a, b] of stretches) {
          const from = a % values.length;
          const to = from + 1 + (b % (values.length - from));
          expect(highest.at(from, to)).toBe(firstHighest(values, from, to));
        }
      },
    ),
  );
});

test('of one value it is that one', () => {
  expect(new HighestIn(new Float64Array([7])).at(0, 1)).toBe(0);
});

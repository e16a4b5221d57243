// The state of the page in its address: there and back, and what an address says wrongly is left out.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { COLOURINGS, formatState, parseState, START, VIEWS } from '../../lib/viewer/page/store.js';

test('there and back is the same', () => {
  const moment = fc.option(fc.integer({ min: -1, max: 1e7 }));
  fc.assert(
    fc.property(
      fc.record({
        view: fc.constantFrom(...VIEWS),
        axis: fc.constantFrom('events' as const, 'time' as const),
        from: fc.option(fc.double({ min: -1, max: 1e6, noNaN: true })),
        cursor: moment,
        other: moment,
        pinned: fc.option(fc.nat()),
        search: fc.string(),
        stream: fc.option(fc.nat()),
        pool: fc.option(fc.string()),
        colouring: fc.constantFrom(...COLOURINGS),
        highlight: fc.constantFrom('stuck' as const, 'pending' as const, null),
        address: fc.option(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER })),
      }),
      (part) => {
        const from = part.from === null || Object.is(part.from, -0) ? null : part.from;
        const state = { ...START, ...part, from };
        expect(parseState(`#${formatState(state)}`)).toEqual(state);
      },
    ),
  );
});

test('the start is an empty address', () => {
  expect(formatState(START)).toBe('');
  expect(parseState('')).toEqual(START);
});

test('what is wrong in an address is as if it were not there', () => {
  expect(parseState('#view=nonsense&cursor=abc&pinned=-3&colouring=&unknown=1&__proto__=1&axis=time')).toEqual({
    ...START,
    axis: 'time',
  });
});

// Playing a recording: moments along events and along time.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import { momentAtShare, shareOfMoment } from '../../lib/viewer/play.js';

/** Times that stand still now and then. */
const anyTimes = fc
  .array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 60 })
  .map((steps) =>
    Float64Array.from(steps, (_, i) => 1e15 + steps.slice(0, i + 1).reduce((sum, step) => sum + step, 0)),
  );

test('by events, a moment is as far along as it is, and back', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2_000_000 }), fc.double({ min: 0, max: 1, noNaN: true }), (events, at) => {
      const moment = Math.floor(at * events) - 1;
      const share = shareOfMoment({ events, times: null }, 'events', moment);
      expect(share).toBe((moment + 1) / events);
      expect(momentAtShare({ events, times: null }, 'events', share)).toBe(moment);
    }),
  );
});

test('by time, what is shown is the last moment that is not later', () => {
  fc.assert(
    fc.property(anyTimes, fc.double({ min: 0, max: 1, noNaN: true }), (times, share) => {
      fc.pre(times[0]! < times.at(-1)!);
      const history = { events: times.length, times };
      const moment = momentAtShare(history, 'time', share);
      const time = times[0]! + share * (times.at(-1)! - times[0]!);
      expect(times[moment]).toBeLessThanOrEqual(time);
      if (moment + 1 < times.length) expect(times[moment + 1]).toBeGreaterThan(time);
    }),
  );
});

test('it goes from the start to the end and never back', () => {
  fc.assert(
    fc.property(anyTimes, fc.constantFrom('events' as const, 'time' as const), (times, axis) => {
      const history = { events: times.length, times };
      const moments = Array.from({ length: 101 }, (_, i) => momentAtShare(history, axis, i / 100));
      expect(moments).toEqual([...moments].sort((a, b) => a - b));
      expect(moments.at(-1)).toBe(times.length - 1);
      expect(momentAtShare(history, 'events', 0)).toBe(-1);
      expect(momentAtShare(history, axis, 1.5)).toBe(times.length - 1);
    }),
  );
});

test('without events it is at its end', () => {
  expect(shareOfMoment({ events: 0, times: null }, 'time', -1)).toBe(1);
  expect(momentAtShare({ events: 0, times: null }, 'events', 0.5)).toBe(-1);
});

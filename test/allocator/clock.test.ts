// Times of the history: close to the clock's, and never running backwards, however few readings they come from.

import { expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { Clock } from '../../lib/allocator/clock.js';
import { MIB, open } from '../support/devices.js';

const nowUs = (): number => (performance.timeOrigin + performance.now()) * 1000;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test('never runs backwards, whichever way it is read', () => {
  const clock = new Clock();
  const readings = Array.from({ length: 2000 }, (_, i) => (i % 7 === 0 ? clock.now() : clock.recent()));
  expect(readings.every((reading, i) => i === 0 || reading >= (readings[i - 1] as number))).toBe(true);
  expect(new Set(readings).size).toBeGreaterThan(1);
});

test('a reading serves four operations at most, and only within a turn of the event loop', async () => {
  const clock = new Clock();
  const first = clock.recent();
  const before = nowUs();
  while (nowUs() - before < 2000) {
    // Time passes while operations follow one another.
  }
  const next = [clock.recent(), clock.recent(), clock.recent()];
  expect(next).toEqual([first, first, first]);
  expect(clock.recent()).toBeGreaterThanOrEqual(before + 2000);
  await sleep(5);
  const later = nowUs();
  expect(clock.recent()).toBeGreaterThanOrEqual(later);
});

test('the entries of a history have ascending times', async () => {
  const allocator = new CachingAllocator({ device: open('sim') });
  allocator.recordMemoryHistory();
  const stream = allocator.device.createStream();
  const start = nowUs();
  for (let i = 0; i < 50; i++) {
    const address = allocator.malloc(1000 + i);
    if (i % 3 === 0) allocator.recordStream(address, stream);
    allocator.free(address);
    if (i % 10 === 0) allocator.free(allocator.malloc((i % 20) * MIB + 1));
    if (i % 17 === 0) await sleep(1);
  }
  const times = allocator.history?.entries().map((entry) => entry.timeUs) ?? [];
  expect(times.length).toBeGreaterThan(150);
  expect(times.every((time, i) => time >= (times[i - 1] ?? start))).toBe(true);
  expect(times.at(-1)).toBeLessThanOrEqual(nowUs());
});

// The course of a recording under given settings: it is what the allocator itself reports along the way, and no peak is lost in few points.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { lifetimesOf } from '../../../lib/analysis/recording/lifetimes.js';
import { COURSE_POINTS, courseOfBytes, courseOfRequests } from '../../../lib/analysis/replay/course.js';
import {
  openRecording,
  ROOMY_CAPACITY,
  replayUnder,
  requestsOf,
} from '../../../lib/analysis/replay/snapshot-replay.js';
import { SimDevice } from '../../../lib/device/sim.js';
import { ConfigError } from '../../../lib/errors.js';
import { MIB } from '../../../lib/units.js';
import { CONFS, programs, SEED, watchedProgram } from '../../support/programs.js';

const highest = (bytes: Float64Array): number => bytes.reduce((most, value) => Math.max(most, value), 0);

test('its figures are those of the replay that people call', () => {
  for (const { name, snapshot } of programs(8)) {
    const recording = openRecording(snapshot);
    for (const conf of CONFS) {
      for (const capacity of [ROOMY_CAPACITY, 400 * MIB]) {
        const course = courseOfRequests(requestsOf(recording), recording.trace.length, {
          conf,
          policy: 'pytorch',
          capacity,
        });
        const device = new SimDevice({ capacity });
        const { report } = replayUnder(recording, { device, conf, policy: 'pytorch' });
        const what = `${name} under "${conf}" in ${capacity}`;
        expect(course.outcome, what).toMatchObject({
          peakReserved: report.stats.reserved_bytes.all.peak,
          peakAllocated: report.stats.allocated_bytes.all.peak,
          retries: report.stats.num_alloc_retries,
          outOfMemories: report.ooms,
          segments: report.stats.num_device_alloc,
        });
        expect(course.failures, what).toHaveLength(report.ooms);
        expect(highest(course.allocated), what).toBe(report.stats.allocated_bytes.all.peak);
        // What a request takes and loses again in one attempt lies within an operation.
        if (report.ooms === 0) expect(highest(course.reserved), what).toBe(report.stats.reserved_bytes.all.peak);
        for (let i = 0; i < course.moments.length; i++)
          expect(course.allocated[i], what).toBeLessThanOrEqual(course.reserved[i] as number);
      }
    }
  }
});

test('a complete recording under its own settings takes what was recorded, after every event', () => {
  for (const conf of CONFS) {
    const { snapshot } = watchedProgram(SEED, conf);
    const recording = openRecording(snapshot, { conf });
    const events = recording.trace.length;
    expect(events).toBeLessThan(COURSE_POINTS);
    const options = { conf, policy: 'pytorch', capacity: ROOMY_CAPACITY } as const;
    const course = courseOfRequests(requestsOf(recording), events, options);
    const { allocated, reserved } = lifetimesOf(snapshot, 0, parseConfig(conf));
    const recorded = courseOfBytes(allocated, reserved);
    expect(course.moments).toEqual(recorded.moments);
    expect(course.allocated, conf).toEqual(recorded.allocated);
    // A segment has an event before the one of the request that it is made for.
    expect(highest(course.reserved)).toBe(highest(reserved));
    expect(course.reserved.at(-1)).toBe(reserved.at(-1));
  }
});

describe('in stretches', () => {
  test('each has the highest of its moments, and all are as long', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3 * COURSE_POINTS }), fc.integer({ min: 1, max: 1e6 }), (length, seed) => {
        const bytes = Float64Array.from({ length }, (_, i) => Math.imul(i + 1, seed) >>> 8);
        const course = courseOfBytes(bytes, bytes);
        const step = Math.ceil(length / COURSE_POINTS);
        expect(course.moments.length).toBeLessThanOrEqual(COURSE_POINTS);
        course.moments.forEach((moment, i) => {
          expect(moment).toBe(i * step - 1);
          expect(course.reserved[i]).toBe(highest(bytes.subarray(i * step, (i + 1) * step)));
        });
      }),
      { numRuns: 12 },
    );
  });
});

test('refuses wrong settings, and a device of no size', () => {
  const [{ snapshot }] = programs(1) as [ReturnType<typeof programs>[number]];
  const recording = openRecording(snapshot);
  const requests = requestsOf(recording);
  const run = (conf: string, capacity: number) =>
    courseOfRequests(requests, recording.trace.length, { conf, policy: 'pytorch', capacity });
  expect(() => run('max_split_size_mb:1', ROOMY_CAPACITY)).toThrow(ConfigError);
  expect(() => run('', 0)).toThrow(ConfigError);
});

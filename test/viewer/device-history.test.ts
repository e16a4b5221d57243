// What the views share of a device: moments, times, regions.

import { describe, expect, test } from 'vitest';
import { analyze } from '../../lib/analysis/report/report.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { OOM } from '../../lib/snapshot/model.js';
import { deviceHistory } from '../../lib/viewer/device-history.js';
import { programs } from '../support/programs.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';
import { annotated, smallSnapshot } from '../support/small-history.js';

test('the peak is that of the report', () => {
  for (const { name, snapshot } of programs(20)) {
    const { peak } = analyze(snapshot, { advise: false }).devices[0]!;
    expect(deviceHistory(snapshot, 0).peak, name).toBe(peak!.event);
  }
});

test.each(SHARED_SNAPSHOTS)('the peak of the real $name too', ({ path }) => {
  const snapshot = readSnapshot(path);
  const peak = analyze(snapshot, { advise: false }).devices[0]!.peak?.event;
  const history = deviceHistory(snapshot, 0);
  // Files whose history was off have one event and no peak of their own.
  if (peak !== undefined) expect(history.peak).toBe(peak);
  else expect(history.events).toBeLessThan(2);
});

test('out of memories are the events that say so', () => {
  const { outOfMemories, trace } = deviceHistory(smallSnapshot(), 0);
  expect(outOfMemories).toHaveLength(1);
  expect(trace.actions[outOfMemories[0]!]).toBe(OOM);
});

describe('regions', () => {
  const snapshot = smallSnapshot();
  const { times } = snapshot.deviceTraces[0]!;
  const at = (event: number): number => times[event]!;

  test('begin and end where their times are', () => {
    const { annotations, events } = deviceHistory(
      annotated(snapshot, [
        { name: 'outer', stage: 'START', time: at(0) - 1 },
        { name: 'inner', stage: 'START', time: at(2) },
        { name: 'inner', stage: 'END', time: at(2) + 1 },
        { name: 'elsewhere', stage: 'START', time: at(0), device: 1 },
        { name: 'never begun', stage: 'END', time: at(0) },
      ]),
      0,
    );
    expect(annotations.map(({ name }) => name)).toEqual(['outer', 'inner']);
    expect(annotations[0]).toMatchObject({ from: 0, to: events });
    expect(annotations[1]!.from).toBeLessThanOrEqual(annotations[1]!.to);
  });

  test('that are nested under one name end from the inside', () => {
    const { annotations, events } = deviceHistory(
      annotated(snapshot, [
        { name: 'step', stage: 'START', time: at(0) - 2 },
        { name: 'step', stage: 'START', time: at(0) - 1 },
        { name: 'step', stage: 'END', time: at(0) - 1 },
      ]),
      0,
    );
    expect(annotations.map(({ from, to }) => [from, to])).toEqual([
      [0, events],
      [0, 0],
    ]);
  });
});

test('times never fall, and events without one have that of the event before', () => {
  const snapshot = smallSnapshot();
  const trace = snapshot.deviceTraces[0]!;
  const times = Float64Array.from({ length: trace.length }, (_, i) => [Number.NaN, 100, 90, Number.NaN, 120][i % 5]!);
  const changed = Object.assign(Object.create(Object.getPrototypeOf(trace)), trace, { times });
  const found = deviceHistory({ ...snapshot, deviceTraces: [changed] }, 0).times!;
  expect([...found.subarray(0, 5)]).toEqual([100, 100, 100, 100, 120]);
  times.fill(Number.NaN);
  expect(deviceHistory({ ...snapshot, deviceTraces: [changed] }, 0).times).toBeNull();
});

// Events as requests: each kind of event, worked out by hand, and that segments are ordered by the recorded addresses.

import { describe, expect, test } from 'vitest';
import { DEFAULT_CONFIG } from '../../../lib/allocator/config.js';
import { snapshotTrace } from '../../../lib/analysis/recording/snapshot-trace.js';
import { rebuildStart } from '../../../lib/analysis/recording/start-state.js';
import { openRecording, replayExactly } from '../../../lib/analysis/replay/snapshot-replay.js';
import { type DeviceTrace, DeviceTraceBuilder, type Snapshot } from '../../../lib/snapshot/model.js';
import { formatTrace } from '../../../lib/snapshot/trace.js';
import { MIB } from '../../support/devices.js';
import { type Event, snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;
const SMALL = { address: A, blocks: [[2 * MIB] as const] };

/** With the number of a stack behind each event; the stacks themselves do not matter. */
function withStacks(snapshot: Snapshot, stacks: readonly number[]): Snapshot {
  const [trace] = snapshot.deviceTraces as [DeviceTrace];
  const builder = new DeviceTraceBuilder();
  for (let event = 0; event < trace.length; event++) {
    builder.push(
      trace.actions[event] as number,
      trace.addresses[event] as number,
      trace.sizes[event] as number,
      trace.streams[event] as number,
      Number.NaN,
      stacks[event] ?? 0,
    );
  }
  return { ...snapshot, deviceTraces: [builder.build()] };
}

function operations(snapshot: Snapshot, start: 'restored' | 'allocated' = 'restored'): string[] {
  const { trace } = snapshotTrace(snapshot, 0, rebuildStart(snapshot), { config: DEFAULT_CONFIG, start });
  return formatTrace(trace).trim().split('\n');
}

describe('operations', () => {
  test('a free that completes at once is one, one that another stream delays waits for a stream of its own', () => {
    const events: Event[] = [
      ['alloc', A, 1000],
      ['free_requested', A, 1000],
      ['free_completed', A, 1000],
      ['alloc', A, 700],
      ['free_requested', A, 700],
      ['alloc', A + 1024, 300],
      ['free_completed', A, 700],
      ['free_requested', A + 1024, 300],
      ['free_completed', A + 1024, 300],
    ];
    expect(operations(snapshotOf([SMALL], events))).toEqual([
      'a 1 1000 0',
      'f 1',
      'a 2 700 0',
      'h',
      'r 2 1',
      'f 2',
      'a 3 300 0',
      's 1',
      'f 3',
    ]);
  });

  test('a completion that follows its request directly, but has the stack of the next one, comes of that', () => {
    const events: Event[] = [
      ['alloc', A, 1000],
      ['free_requested', A, 1000],
      ['free_completed', A, 1000],
      ['alloc', A, 700],
      ['free_requested', A, 700],
      ['free_completed', A, 700],
    ];
    const snapshot = withStacks(snapshotOf([SMALL], events), [1, 2, 3, 3, 2, 2]);
    expect(operations(snapshot)).toEqual(['a 1 1000 0', 'h', 'r 1 1', 'f 1', 's 1', 'a 2 700 0', 'f 2']);
  });

  test('what was there before is a number only, or is allocated first', () => {
    const events: Event[] = [
      ['free_requested', A, 1000],
      ['free_completed', A, 1000],
    ];
    expect(operations(snapshotOf([SMALL], events))).toEqual(['f 1']);
    expect(operations(snapshotOf([SMALL], events), 'allocated')).toEqual(['a 1 1000 0', 'f 1']);
  });

  test('an emptied cache is repeated, what a request released is not where others run short', () => {
    const events: Event[] = [
      ['alloc', A, 1000],
      ['free_requested', A, 1000],
      ['free_completed', A, 1000],
      ['segment_free', A, 2 * MIB],
      ['segment_alloc', A + 4 * MIB, 12 * MIB],
      ['alloc', A + 4 * MIB, 12 * MIB],
    ];
    const end = [{ address: A + 4 * MIB, blocks: [[12 * MIB, 12 * MIB] as const] }];
    const byProgram = withStacks(snapshotOf(end, events), [1, 2, 2, 3, 1, 1]);
    const byRequest = withStacks(snapshotOf(end, events), [1, 2, 2, 1, 1, 1]);
    const emptied = ['a 1 1000 0', 'f 1', 'e', `a 2 ${12 * MIB} 0`];
    expect(operations(byProgram)).toEqual(emptied);
    expect(operations(byProgram, 'allocated')).toEqual(emptied);
    expect(operations(byRequest, 'allocated')).toEqual(emptied.filter((line) => line !== 'e'));
    const { shortages } = snapshotTrace(byRequest, 0, rebuildStart(byRequest), {
      config: DEFAULT_CONFIG,
      start: 'restored',
    });
    // 12 MiB were taken when 2 MiB had come back.
    expect([...shortages.values()]).toEqual([10 * MIB]);
  });

  test('a request that ran out of memory is made, and given back where it fits', () => {
    expect(operations(snapshotOf([SMALL], [['oom', 4096, 30 * MIB]]))).toEqual([`a 1 ${30 * MIB} 0`, 'f 1']);
  });

  test('streams are numbered in their order, the default one first', () => {
    const events: Event[] = [
      ['alloc', A, 512, 900],
      ['alloc', A + 512, 512, 30],
      ['alloc', A + 1024, 512],
    ];
    const segments = [{ address: A, blocks: [[512, 512], [512, 512], [512, 512], [2 * MIB - 1536]] as const }];
    expect(operations(snapshotOf(segments, events))).toEqual(['a 1 512 2', 'a 2 512 1', 'a 3 512 0']);
  });

  test('frees of what nobody allocated are left out and counted', () => {
    const snapshot = snapshotOf([SMALL], [['free_requested', A + 512, 512]]);
    const trace = snapshotTrace(snapshot, 0, rebuildStart(snapshot), { config: DEFAULT_CONFIG, start: 'restored' });
    expect(trace).toMatchObject({ unknownFrees: 1, trace: { ops: 0 } });
  });
});

test('of equal blocks the one at the lower recorded address is taken, though its segment is younger', () => {
  const high = A + 64 * MIB;
  const events: Event[] = [
    ['segment_alloc', high, 12 * MIB],
    ['alloc', high, 12 * MIB],
    ['segment_alloc', A, 12 * MIB],
    ['alloc', A, 12 * MIB],
    ['free_requested', high, 12 * MIB],
    ['free_completed', high, 12 * MIB],
    ['free_requested', A, 12 * MIB],
    ['free_completed', A, 12 * MIB],
    ['alloc', A, 12 * MIB],
  ];
  const segments = [
    { address: A, blocks: [[12 * MIB, 12 * MIB] as const] },
    { address: high, blocks: [[12 * MIB] as const] },
  ];
  expect(replayExactly(openRecording(snapshotOf(segments, events))).fidelity).toMatchObject({
    allocations: 3,
    exact: 3,
  });
});

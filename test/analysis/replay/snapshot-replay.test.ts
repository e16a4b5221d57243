// A replay of a snapshot places every block where the recording says, by itself: for random programs on our own allocator under all
// kinds of settings, and for the real files. A recording that was tampered with is found out.

import { describe, expect, test } from 'vitest';
import { replay } from '../../../lib/analysis/replay/input.js';
import { openRecording, replayExactly, replayUnder } from '../../../lib/analysis/replay/snapshot-replay.js';
import { snapshotWorkload } from '../../../lib/analysis/tune/snapshot-workload.js';
import { SimDevice } from '../../../lib/device/sim.js';
import { UnsupportedError } from '../../../lib/errors.js';
import { ALLOC, type DeviceTrace, type Snapshot } from '../../../lib/snapshot/model.js';
import { parseTrace } from '../../../lib/snapshot/trace.js';
import { MIB } from '../../support/devices.js';
import { type RecordingPlan, record, snapshotOf } from '../../support/recordings.js';

const CONFS = [
  '',
  'expandable_segments:True',
  'roundup_power2_divisions:4',
  'max_split_size_mb:32',
  'max_split_size_mb:64,roundup_power2_divisions:[256:1,512:2,>:4]',
];
const SEED = Number(process.env.CUDALLOC_SEED ?? 20261201);
const RUNS = 6;

/**
 * Every combination; stacks are what tells a request's releases from the program's. With a private pool only where memory does not run
 * out: the pool of a segment that is gone is not recorded.
 */
const plans: readonly Omit<RecordingPlan, 'seed'>[] = CONFS.flatMap((conf) =>
  [1024 ** 4, 600 * MIB].flatMap((capacity) =>
    [false, true].flatMap((late) =>
      [Number.POSITIVE_INFINITY, 150].flatMap((ring) =>
        [false, true].map((events) => ({
          conf,
          capacity,
          late,
          ring,
          events,
          stacks: true,
          pool: late && events && capacity > 1e12 && !conf.includes('split'),
        })),
      ),
    ),
  ),
);

function withAddress(snapshot: Snapshot, device: number, event: number, address: number): Snapshot {
  const trace = snapshot.deviceTraces[device] as DeviceTrace;
  const addresses = trace.addresses.slice();
  addresses[event] = address;
  const changed = Object.assign(Object.create(Object.getPrototypeOf(trace)), trace, { addresses }) as DeviceTrace;
  return { ...snapshot, deviceTraces: snapshot.deviceTraces.with(device, changed) };
}

/** Where everything is recorded that decides. Otherwise a block's unsplit rest or the moment of a free may have to be inferred. */
const isWhole = ({ late, ring, events }: Omit<RecordingPlan, 'seed'>): boolean =>
  !late && ring === Number.POSITIVE_INFINITY && !events;

describe('random programs', () => {
  test.each(CONFS)('settings "%s": allocations at their recorded addresses', (conf) => {
    const inferred = { allocations: 0, exact: 0 };
    let outOfMemories = 0;
    let unknown = 0;
    for (const plan of plans.filter((other) => other.conf === conf)) {
      for (let seed = SEED; seed < SEED + RUNS; seed++) {
        const program = record({ ...plan, seed });
        const { fidelity, report } = replayExactly(openRecording(program.snapshot));
        const what = `seed ${seed} ${JSON.stringify(plan)}`;
        expect(fidelity.conflicts, what).toBe(0);
        outOfMemories += program.outOfMemories;
        if (!isWhole(plan)) {
          inferred.allocations += fidelity.allocations;
          inferred.exact += fidelity.exact;
          unknown += fidelity.unknown_blocks;
          continue;
        }
        expect(fidelity, what).toMatchObject({ exact: fidelity.allocations, first_difference: null });
        // What is left at the end is what the snapshot shows.
        const { segments } = program.snapshot;
        expect(report.stats.reserved_bytes.all.current, what).toBe(segments.reduce((sum, s) => sum + s.totalSize, 0));
        expect(report.stats.allocated_bytes.all.current, what).toBe(
          segments.reduce((sum, s) => sum + s.allocatedSize, 0),
        );
        expect(report.ooms, what).toBe(program.outOfMemories);
      }
    }
    expect(outOfMemories).toBeGreaterThan(50);
    expect(unknown).toBeGreaterThan(100);
    expect(inferred.allocations).toBeGreaterThan(5000);
    expect(inferred.exact / inferred.allocations).toBeGreaterThan(0.99);
  });

  test('without stacks, where nothing is given back in between, too', () => {
    for (const conf of CONFS) {
      const plan = { conf, capacity: 1024 ** 4, late: true, ring: 150, events: false, stacks: false, seed: SEED };
      const { snapshot } = record({ ...plan, emptyCache: false });
      const { fidelity } = replayExactly(openRecording(snapshot));
      expect(fidelity, conf).toMatchObject({ exact: fidelity.allocations, conflicts: 0 });
    }
  });

  test('a changed address of one allocation is found out', () => {
    const plan = { conf: '', capacity: 1024 ** 4, late: false, ring: Infinity, events: false, stacks: true };
    const { snapshot } = record({ ...plan, seed: SEED });
    const trace = snapshot.deviceTraces[0] as DeviceTrace;
    const allocs = [...trace.actions.keys()].filter((event) => event < trace.length && trace.actions[event] === ALLOC);
    for (let i = 0; i < allocs.length; i += 17) {
      const event = allocs[i] as number;
      const recorded = (trace.addresses[event] as number) + 512;
      const { fidelity } = replayExactly(openRecording(withAddress(snapshot, 0, event, recorded), { conf: '' }));
      expect(fidelity.exact, `event ${event}`).toBeLessThan(fidelity.allocations);
      expect(fidelity.first_difference).not.toBeNull();
      expect(fidelity.conflicts).toBeGreaterThan(0);
    }
  });

  test('a changed address of the last allocation is the first difference', () => {
    const A = 0x7f0000000000;
    const segments = [{ address: A, blocks: [[512, 500] as const, [2 * MIB - 512] as const] }];
    const snapshot = snapshotOf(segments, [
      ['segment_alloc', A, 2 * MIB],
      ['alloc', A + 512, 500],
    ]);
    const { fidelity } = replayExactly(openRecording(snapshot));
    expect(fidelity).toMatchObject({
      allocations: 1,
      exact: 0,
      first_difference: { index: 0, event: 1, recorded: A + 512 },
    });
  });

  test('under other settings nothing is lost', () => {
    for (const conf of CONFS) {
      const { snapshot } = record({
        conf,
        capacity: 1024 ** 4,
        late: true,
        ring: 200,
        events: true,
        stacks: true,
        seed: SEED,
      });
      const recording = openRecording(snapshot, { conf });
      const requested = snapshot.segments
        .flatMap(({ blocks }) => blocks)
        .reduce((sum, block) => sum + (block.state === 'inactive' ? 0 : block.requestedSize), 0);
      for (const other of CONFS) {
        const device = new SimDevice({ capacity: 1024 ** 4 });
        const { report } = replayUnder(recording, { device, conf: other, policy: 'pytorch' });
        expect(report.errors_total).toBe(0);
        expect(report.stats.requested_bytes.all.current).toBe(requested);
      }
    }
  });

  test('as a workload it says how far it can be trusted', () => {
    const plan = { conf: '', capacity: 1024 ** 4, late: true, ring: Infinity, events: true, stacks: true, seed: SEED };
    const { snapshot, peakReserved } = record(plan);
    const workload = snapshotWorkload(openRecording(snapshot, { conf: '' }));
    expect(workload.fidelity?.exact).toBe(workload.fidelity?.allocations);
    const outcome = workload.run({ conf: '', policy: 'pytorch', capacity: 1024 ** 4 });
    expect(outcome.survived).toBe(true);
    expect(outcome.peakReserved).toBeGreaterThanOrEqual(outcome.peakAllocated);
    expect(outcome.peakReserved).toBeLessThan(peakReserved * 1.1);
    expect(workload.run({ conf: '', policy: 'pytorch', capacity: outcome.peakAllocated / 2 }).survived).toBe(false);
  });
});

test('one function replays traces and snapshots', () => {
  const plan = { conf: '', capacity: 1024 ** 4, late: false, ring: Infinity, events: false, stacks: true, seed: SEED };
  const { snapshot, peakReserved } = record(plan);
  const device = new SimDevice({ capacity: 1024 ** 4 });
  const result = replay(snapshot, { device });
  expect(result.fidelity).toMatchObject({ exact: result.fidelity.allocations });
  expect(result.report.stats.reserved_bytes.all.peak).toBe(peakReserved);
  expect(replay(parseTrace('a 1 512 0\n'), { device }).report.allocs).toEqual([[expect.any(Number), 0]]);
});

test('a snapshot without allocations is refused with the reason', () => {
  const snapshot = snapshotOf([{ address: 0x7f0000000000, blocks: [[2 * MIB]] }], [['snapshot', 0, 0]]);
  expect(() => openRecording(snapshot)).toThrow(UnsupportedError);
  expect(() => openRecording(snapshot)).toThrow(/records no allocation.*nothing to replay.*_record_memory_history/);
});

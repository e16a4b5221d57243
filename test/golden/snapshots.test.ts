// The real PyTorch snapshots beside the repository: every one that records allocations is replayed at the recorded addresses, all of
// them, from the command line; the others say why they cannot.

import { describe, expect, test } from 'vitest';
import { openRecording, replayExactly } from '../../lib/analysis/replay/snapshot-replay.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { ALLOC, type DeviceTrace, type Snapshot } from '../../lib/snapshot/model.js';
import { cli } from '../support/cli.js';
import { sharedData } from '../support/shared-data.js';

const REPLAYABLE = [
  ['cuda-small-97-events', 36, 0],
  ['cuda-forward-bf16', 937, 137],
  ['cuda-inference-medium', 1280, 223],
  ['cuda-training-fragmented', 7591, 664],
] as const;
const STATE_ONLY = ['cuda-old-layout-oom', 'cuda-old-layout-1.3b', 'state-only'];

const folder = sharedData('snapshots');
const pathOf = (name: string): string => `${folder}/${name}.pickle`;

function withAddress(snapshot: Snapshot, event: number, address: number): Snapshot {
  const trace = snapshot.deviceTraces[0] as DeviceTrace;
  const addresses = trace.addresses.slice();
  addresses[event] = address;
  const changed = Object.assign(Object.create(Object.getPrototypeOf(trace)), trace, { addresses }) as DeviceTrace;
  return { ...snapshot, deviceTraces: [changed] };
}

describe.skipIf(folder === null)('real snapshots (../shared/snapshots)', () => {
  test.each(REPLAYABLE)('%s: %i of %i allocations at the recorded address', async (name, allocations, before) => {
    const { code, stdout, stderr } = await cli(['replay', pathOf(name), '--json']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { fidelity, ooms, errors_total: errors } = JSON.parse(stdout);
    expect(fidelity).toMatchObject({
      allocations,
      exact: allocations,
      first_difference: null,
      incomplete_history: before,
      conflicts: 0,
    });
    expect({ ooms, errors }).toEqual({ ooms: 0, errors: 0 });
  });

  test.each(REPLAYABLE)('%s: a changed address is found out', (name) => {
    const snapshot = readSnapshot(pathOf(name));
    const trace = snapshot.deviceTraces[0] as DeviceTrace;
    const allocs = [...trace.actions.keys()].filter((event) => event < trace.length && trace.actions[event] === ALLOC);
    for (const event of [allocs[0], allocs[Math.floor(allocs.length / 2)], allocs.at(-1)] as number[]) {
      const moved = withAddress(snapshot, event, (trace.addresses[event] as number) + 512);
      const { fidelity } = replayExactly(openRecording(moved));
      expect(fidelity.exact).toBeLessThan(fidelity.allocations);
      expect(fidelity.first_difference).not.toBeNull();
    }
  });

  test.each(STATE_ONLY)('%s: says that there is nothing to replay', async (name) => {
    const { code, stdout, stderr } = await cli(['replay', pathOf(name)]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^cudalloc: the snapshot records no allocation[^\n]*nothing to replay[^\n]*\n$/);
  });

  test('under other settings the answer comes with the fidelity it rests on', async () => {
    const path = pathOf('cuda-training-fragmented');
    const { stdout } = await cli(['replay', path, '--conf', 'expandable_segments:True', '--capacity', '24GiB']);
    expect(stdout).toMatch(/^fidelity +7,591 of 7,591 allocations at the recorded address \(100 %\)$/m);
    expect(stdout).toMatch(/^history +incomplete: 664 live blocks without an event, 438 of them of inferred size$/m);
    expect(stdout).toMatch(/^recorded +peak reserved 23\.45 GiB under no settings$/m);
  });

  test('a part of the events, a device that is not there', async () => {
    const path = pathOf('cuda-forward-bf16');
    const part = JSON.parse((await cli(['replay', path, '--from', '300', '--to', '600', '--json'])).stdout);
    expect(part.allocs.length).toBeGreaterThan(50);
    expect(part.fidelity.allocations).toBe(937);
    const { code, stderr } = await cli(['replay', path, '--device', '3']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/--device: 3: the snapshot's devices are numbered from 0 to 0/);
  });
});

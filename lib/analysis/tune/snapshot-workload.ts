// A snapshot as a workload: its requests, to be run under other settings, and how far a replay of it can be trusted.

import type { Recording } from '../replay/snapshot-replay.js';
import { replayExactly, requestsOf } from '../replay/snapshot-replay.js';
import { traceWorkload, type Workload } from './workload.js';

/**
 * The requests of a recording, the blocks of its start state first. Its streams are numbered in ascending order, the default stream first.
 * Replays the recording once for the fidelity. Linear in events.
 */
export function snapshotWorkload(recording: Recording): Workload {
  const { trace, pools, poolOf } = requestsOf(recording);
  const { allocations, exact } = replayExactly(recording).fidelity;
  return {
    ...traceWorkload(trace, { poolUse: { pools: pools.length, poolOf } }),
    conf: recording.conf,
    fidelity: { allocations, exact },
  };
}

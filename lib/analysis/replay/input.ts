// Replays whatever was recorded: a trace, or a snapshot, whose answer comes with the fidelity it rests on.

import type { Snapshot } from '../../snapshot/model.js';
import type { Trace } from '../../snapshot/trace.js';
import { type ReplayOptions, type ReplayResult, replay as replayTrace } from './replay.js';
import { type Fidelity, openRecording, replayExactly, replayUnder } from './snapshot-replay.js';

/** What the requests of a snapshot come to, and how far a replay of it does what was recorded. */
export interface SnapshotReplayResult extends ReplayResult {
  readonly fidelity: Fidelity;
}

/**
 * Runs a recording through an allocator of its own on `options.device`. Of a snapshot `from` and `to` are events, the settings are those it was
 * recorded with where `conf` is left out, and what was there before its first event is allocated first. Linear in the operations.
 * @throws DriverError when the device fails in another way than running out of memory
 * @throws UnsupportedError when the device cannot do what the recording needs, or a snapshot records no allocation
 */
export function replay(input: Trace, options: ReplayOptions): ReplayResult;
export function replay(input: Snapshot, options: ReplayOptions): SnapshotReplayResult;
export function replay(input: Trace | Snapshot, options: ReplayOptions): ReplayResult | SnapshotReplayResult {
  if ('codes' in input) return replayTrace(input, options);
  const recording = openRecording(input);
  const { conf = recording.conf, policy = 'pytorch', ...rest } = options;
  const { fidelity } = replayExactly(recording);
  return { ...replayUnder(recording, { ...rest, conf, policy }), fidelity };
}

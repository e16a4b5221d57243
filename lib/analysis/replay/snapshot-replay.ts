// Replays a snapshot: first exactly as it was recorded, which shows how far this allocator's decisions are the recorded ones, then under
// whatever settings are asked about. Must not know files or terminals.

import { type Config, completeConfig } from '../../allocator/config.js';
import { parseConfig } from '../../allocator/config-parser.js';
import type { PolicyName } from '../../allocator/policy.js';
import { SimDevice } from '../../device/sim.js';
import type { Device } from '../../device/types.js';
import { UnsupportedError } from '../../errors.js';
import { ALLOC, type DeviceTrace, type Snapshot } from '../../snapshot/model.js';
import { TraceOp } from '../../snapshot/trace.js';
import { recordedCapacity } from '../recording/recorded-capacity.js';
import { recordedConf, recordedPolicy, recordedTotal } from '../recording/recorded-config.js';
import { RecordedPlaces } from '../recording/recorded-places.js';
import { rangesOf, restorationOf } from '../recording/restoration.js';
import { type SnapshotTrace, snapshotTrace } from '../recording/snapshot-trace.js';
import { rebuildStart, type StartState } from '../recording/start-state.js';
import type { ReplayReport } from './format.js';
import { type ReplayResult, replay } from './replay.js';

/** Bytes of a device on which nothing runs out. */
export const ROOMY_CAPACITY = 1024 ** 4;

/** How far a replay under the recorded settings does what was recorded. Snake case: it is printed as it is. */
export interface Fidelity {
  /** Recorded allocations. */
  readonly allocations: number;
  /** Of these, the ones placed at the recorded address. */
  readonly exact: number;
  readonly first_difference: {
    /** Number of the allocation among the recorded ones, from 0. */
    readonly index: number;
    /** Number of the event. */
    readonly event: number;
    readonly recorded: number;
    /** Null when it failed, or came to lie in a segment that the recording does not have. */
    readonly replayed: number | null;
  } | null;
  /** Live blocks without an event: they were allocated before the recording, or their event was overwritten. */
  readonly incomplete_history: number;
  /** Of these, the ones whose size the file does not state. */
  readonly unknown_blocks: number;
  /** Events that contradict the others or the final state. */
  readonly conflicts: number;
}

/** A recording prepared for replays: operations, start state, settings. Memory linear in its events. */
export interface Recording {
  readonly snapshot: Snapshot;
  readonly device: number;
  readonly trace: DeviceTrace;
  readonly start: StartState;
  /** The settings string it was recorded under. */
  readonly conf: string;
  readonly policy: PolicyName;
  /** Bytes that the allocator could have; null where the recording does not tell. */
  readonly capacity: number | null;
  /** Bytes of the device; null where the recording does not tell. */
  readonly total: number | null;
}

export interface RecordingOptions {
  /** Default: the first that has events. */
  readonly device?: number;
  /** Settings it was recorded under, where they are known better than the file says. */
  readonly conf?: string;
}

/** @throws UnsupportedError when the snapshot records no allocation. Linear in events. */
export function openRecording(snapshot: Snapshot, options: RecordingOptions = {}): Recording {
  const device = options.device ?? firstRecorded(snapshot);
  if (options.device !== undefined && snapshot.deviceTraces[device] === undefined) {
    throw new UnsupportedError(
      `the snapshot has no device ${device}; its devices are numbered from 0 to ${snapshot.deviceTraces.length - 1}`,
    );
  }
  const trace = snapshot.deviceTraces[device];
  if (trace === undefined || !recordsAllocations(trace)) {
    const what = snapshot.deviceTraces.length > 1 ? `device ${device} of the snapshot` : 'the snapshot';
    throw new UnsupportedError(
      `${what} records no allocation, only the state at its end: there is nothing to replay; record the history first ` +
        '(torch.cuda.memory._record_memory_history(), or recordMemoryHistory() here)',
    );
  }
  const conf = options.conf ?? recordedConf(snapshot);
  const config = configOf(conf);
  const start = rebuildStart(snapshot, device, config);
  const total = recordedTotal(snapshot);
  const allowed = total === null ? null : Math.trunc(total * (config.perProcessMemoryFraction ?? 1));
  const capacity = allowed ?? recordedCapacity(trace, start, config);
  return { snapshot, device, trace, start, conf, policy: recordedPolicy(snapshot), capacity, total };
}

/** Repeats a recording under its own settings, from its own start state. Linear in events. */
export function replayExactly(recording: Recording, options: ReplayPart = {}): ExactReplay {
  const { snapshot, device: index, trace: events, start, capacity, total, conf, policy } = recording;
  const config = configOf(conf);
  const trace = snapshotTrace(snapshot, index, start, { config, start: 'restored' });
  const streamOf = (id: number): number => trace.streams[id] ?? 0;
  const ranges = rangesOf(start, events, config);
  const places = new RecordedPlaces(
    events,
    ranges.map(({ address }) => address),
    { streamOf, config },
  );
  const count = new Placements(trace, places);
  // A memory fraction is one of the device, which is larger than what the allocator could have.
  const known = config.perProcessMemoryFraction === null ? capacity : null;
  const device = new SimDevice({ capacity: total ?? known ?? ROOMY_CAPACITY });
  const shortage = new Shortage(trace, device);
  try {
    const result = replay(trace.trace, {
      device,
      conf,
      policy,
      restore: restorationOf(ranges, trace, places.order),
      poolUse: { pools: trace.pools.length, poolOf: trace.poolOf },
      onOperation: (op) => {
        places.advance(trace.events[op] as number);
        shortage.begin(op);
      },
      onPlaced: (op, range, offset) => count.add(op, range, offset),
      ...part(trace, options),
    });
    return { ...result, fidelity: count.fidelity(start) };
  } finally {
    device.close();
  }
}

export interface ExactReplay extends ReplayResult {
  readonly fidelity: Fidelity;
}

/** Which part of a replay is reported, and who is told of it. */
export interface ReplayPart {
  /** First event of the results, default 0. What was before it is carried out, unreported. */
  readonly from?: number;
  /** Event to stop before. Default: all. */
  readonly to?: number;
  readonly onProgress?: (done: number, total: number) => void;
}

export interface WhatIf extends ReplayPart {
  readonly device: Device;
  readonly conf: string;
  readonly policy: PolicyName;
  readonly checkData?: boolean;
}

/**
 * Gives a recording's requests to an allocator under other settings or on another device. What was there before the first event is
 * allocated first, by address. Linear in events.
 */
export function replayUnder(recording: Recording, options: WhatIf): ReplayResult {
  const trace = requestsOf(recording);
  const { device, conf, policy, checkData = false } = options;
  const poolUse = { pools: trace.pools.length, poolOf: trace.poolOf };
  return replay(trace.trace, { device, conf, policy, checkData, poolUse, ...part(trace, options) });
}

/** The requests of a recording, the blocks of its start state first. */
export function requestsOf({ snapshot, device, start, conf }: Recording): SnapshotTrace {
  return snapshotTrace(snapshot, device, start, { config: configOf(conf), start: 'allocated' });
}

/** What `cudalloc replay <snapshot> --json` prints. */
export type SnapshotReplayReport = ReplayReport & { readonly fidelity: Fidelity };

/** Makes the device as short of memory as it was at a recorded request, and as roomy as before afterwards. */
class Shortage {
  readonly #shortages: ReadonlyMap<number, number>;
  readonly #device: SimDevice;
  #short = false;

  constructor(trace: SnapshotTrace, device: SimDevice) {
    this.#shortages = trace.shortages;
    this.#device = device;
  }

  begin(op: number): void {
    const { mock } = this.#device;
    const free = this.#shortages.get(op);
    if (this.#short) mock.takeByOthers(-Number.MAX_SAFE_INTEGER);
    this.#short = free !== undefined;
    if (free === undefined) return;
    mock.takeByOthers(Number.MAX_SAFE_INTEGER);
    mock.takeByOthers(-free);
  }
}

class Placements {
  readonly #trace: SnapshotTrace;
  readonly #places: RecordedPlaces;
  /** By number of the allocation: its address in terms of the recording; NaN when there is none. */
  readonly #replayed: Float64Array;

  constructor(trace: SnapshotTrace, places: RecordedPlaces) {
    this.#trace = trace;
    this.#places = places;
    this.#replayed = new Float64Array(trace.addresses.length).fill(Number.NaN);
  }

  add(op: number, range: number, offset: number): void {
    this.#replayed[this.#trace.trace.slots[op] as number] = this.#places.addressOf(range, offset) ?? Number.NaN;
  }

  fidelity(start: StartState): Fidelity {
    const { trace, events, addresses, unknownFrees } = this.#trace;
    let allocations = 0;
    let exact = 0;
    let first: Fidelity['first_difference'] = null;
    for (let op = 0; op < trace.ops; op++) {
      const slot = trace.slots[op] as number;
      if (trace.codes[op] !== TraceOp.Allocate || (addresses[slot] as number) < 0) continue;
      const recorded = addresses[slot] as number;
      const replayed = this.#replayed[slot] as number;
      if (recorded === replayed) exact++;
      else
        first ??= {
          index: allocations,
          event: events[op] as number,
          recorded,
          replayed: Number.isNaN(replayed) ? null : replayed,
        };
      allocations++;
    }
    return {
      allocations,
      exact,
      first_difference: first,
      incomplete_history: start.liveWithoutEvent,
      unknown_blocks: start.unknownBlocks,
      conflicts: start.conflictsTotal + unknownFrees,
    };
  }
}

/** The part in operations instead of events. */
function part({ events }: SnapshotTrace, { from = 0, to, onProgress }: ReplayPart): ReplayPart {
  const operationOf = (event: number): number => {
    const op = events.findIndex((other) => other >= event);
    return op === -1 ? events.length : op;
  };
  return {
    from: from === 0 ? 0 : operationOf(from),
    ...(to !== undefined && { to: operationOf(to) }),
    ...(onProgress !== undefined && { onProgress }),
  };
}

function firstRecorded(snapshot: Snapshot): number {
  const index = snapshot.deviceTraces.findIndex(recordsAllocations);
  return index === -1 ? 0 : index;
}

function recordsAllocations(trace: DeviceTrace): boolean {
  return trace.actions.subarray(0, trace.length).includes(ALLOC);
}

function configOf(conf: string): Config {
  return conf === '' ? completeConfig({}) : parseConfig(conf);
}

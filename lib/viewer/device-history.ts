// What the views of one device share: its lifetimes, who allocated what, and the moments worth showing. Made once for a snapshot; the views
// only read it. Must not know how anything is drawn.

import { parseConfig } from '../allocator/config-parser.js';
import { type Lifetimes, lifetimesOf } from '../analysis/recording/lifetimes.js';
import { recordedConf } from '../analysis/recording/recorded-config.js';
import { type DeviceTrace, DeviceTraceBuilder, OOM, type PyDict, type Snapshot } from '../snapshot/model.js';
import { CallSites } from './call-sites.js';
import { firstAtOrAfter } from './sorted.js';

export interface DeviceHistory {
  readonly snapshot: Snapshot;
  readonly device: number;
  readonly trace: DeviceTrace;
  readonly lifetimes: Lifetimes;
  readonly sites: CallSites;
  /** Number of events. A moment is the number of an event and means the state after it; -1 is the state before the first. */
  readonly events: number;
  /** Microseconds since the epoch of each event, never falling; null where the events have no times. */
  readonly times: Float64Array | null;
  /** Events. */
  readonly outOfMemories: readonly number[];
  readonly annotations: readonly Annotation[];
  /** The moment with most allocated, after an event; of equal ones the earliest. */
  readonly peak: number;
}

/** A region that the program named. */
export interface Annotation {
  readonly name: string;
  /** First event of it. */
  readonly from: number;
  /** First event after it. */
  readonly to: number;
}

/** Linear in events and blocks. */
export function deviceHistory(snapshot: Snapshot, device: number): DeviceHistory {
  const trace = snapshot.deviceTraces[device] ?? new DeviceTraceBuilder(1).build();
  const lifetimes = lifetimesOf(snapshot, device, parseConfig(recordedConf(snapshot)));
  const times = timesOf(trace);
  const outOfMemories: number[] = [];
  for (let event = 0; event < trace.length; event++) if (trace.actions[event] === OOM) outOfMemories.push(event);
  return {
    snapshot,
    device,
    trace,
    lifetimes,
    sites: new CallSites(snapshot.stacks),
    events: trace.length,
    times,
    outOfMemories,
    annotations: times === null ? [] : annotationsOf(snapshot, device, times),
    peak: peakOf(lifetimes),
  };
}

/** As the report has it: of the moments after events; where there are none, what is there. */
function peakOf({ allocated, events }: Lifetimes): number {
  let peak = events - 1;
  for (let moment = events - 1; moment >= 0; moment--)
    if ((allocated[moment + 1] as number) >= (allocated[peak + 1] as number)) peak = moment;
  return peak;
}

/** Clocks of several threads may differ by a little: an event is never earlier than the one before. */
function timesOf({ times, length }: DeviceTrace): Float64Array | null {
  const ascending = new Float64Array(length);
  let latest = Number.NEGATIVE_INFINITY;
  for (let event = 0; event < length; event++) {
    const time = times[event] as number;
    if (!Number.isNaN(time)) latest = Math.max(latest, time);
    ascending[event] = latest;
  }
  const first = ascending.findIndex((time) => time !== Number.NEGATIVE_INFINITY);
  if (first === -1) return null;
  return ascending.fill(ascending[first] as number, 0, first);
}

/** Regions that never end last to the end; ends without a beginning are left out. */
function annotationsOf(snapshot: Snapshot, device: number, times: Float64Array): Annotation[] {
  const marks = snapshot.extra?.get('external_annotations');
  if (!Array.isArray(marks)) return [];
  const open = new Map<string, number[]>();
  const found: Annotation[] = [];
  for (const mark of marks) {
    if (!(mark instanceof Map)) continue;
    const dict = mark as PyDict;
    const [name, time] = [dict.get('name'), dict.get('time_us')];
    if (typeof name !== 'string' || typeof time !== 'number' || (dict.get('device') ?? device) !== device) continue;
    const event = firstAtOrAfter(times, time);
    if (dict.get('stage') === 'START') open.set(name, [...(open.get(name) ?? []), event]);
    else {
      const from = open.get(name)?.pop();
      if (from !== undefined) found.push({ name, from, to: event });
    }
  }
  for (const [name, starts] of open) for (const from of starts) found.push({ name, from, to: times.length });
  return found.sort((a, b) => a.from - b.from || b.to - a.to);
}

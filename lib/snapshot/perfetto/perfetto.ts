// A snapshot as a trace of events that Perfetto (ui.perfetto.dev) and chrome://tracing open: JSON of the Trace Event Format, in pieces.
// Must not know files.

import { type DeviceTrace, DeviceTraceBuilder, type PyDict, type Snapshot } from '../model.js';
import { MemoryCounters } from './memory-counters.js';
import { MemorySlices, type Period } from './memory-slices.js';
import { TrackWriter } from './track-writer.js';

const COUNTERS = ['reserved', 'allocated', 'active'] as const;

/**
 * The trace in pieces. Each device is a process with the counters `reserved`, `allocated` and `active` (bytes; see MemoryCounters for how
 * exact they are), a slice for the life of each block and of each segment, an instant for each out of memory, and the external annotations
 * as slices. Times are microseconds as recorded. An event without one has the time before it; where none has any, they follow each other
 * by one microsecond.
 *
 * What was there before the first event begins with it, and what is there at the end ends with the last.
 *
 * Linear in events; memory linear in what is alive at a time. Source of the format: "Trace Event Format", Google, 2016.
 */
export function* formatPerfettoTrace(snapshot: Snapshot): Generator<string, void, undefined> {
  const recorded = snapshot.deviceTraces.flatMap(({ length }, device) => (length > 0 ? [device] : []));
  const devices = new Set([...snapshot.segments.map(({ device }) => device), ...recorded]);
  let separator = '{"displayTimeUnit":"ms","traceEvents":[\n';
  for (const device of [...devices].sort((a, b) => a - b)) {
    for (const line of deviceLines(snapshot, device)) {
      yield separator + line;
      separator = ',\n';
    }
  }
  yield devices.size === 0 ? '{"traceEvents":[]}\n' : '\n]}\n';
}

function* deviceLines(snapshot: Snapshot, device: number): Generator<string, void, undefined> {
  const trace = snapshot.deviceTraces[device] ?? new DeviceTraceBuilder(1).build();
  const segments = snapshot.segments.filter((segment) => segment.device === device);
  const tracks = new TrackWriter(device);
  const times = new EventTimes(trace);
  const counters = new MemoryCounters(trace, segments);
  const slices = new MemorySlices(trace, snapshot.stacks, tracks, times);
  yield* counterLines(counters, null, tracks, times.startUs);
  for (let event = 0; event < trace.length; event++) {
    const nowUs = times.next(event);
    const { reserved, allocated, active } = counters;
    counters.take(event);
    yield* counterLines(counters, { reserved, allocated, active }, tracks, nowUs);
    yield* slices.take(event, nowUs);
  }
  yield* slices.finish(segments);
  if (times.areRecorded) {
    for (const { name, startUs, endUs } of annotationsOf(snapshot, device, times))
      yield tracks.slice('annotations', tracks.freshLane('annotations'), name, startUs, Math.max(startUs, endUs), {});
  }
  yield* tracks.names();
}

type Figures = Pick<MemoryCounters, (typeof COUNTERS)[number]>;

/** @param before null for all counters, else only those that changed. */
function* counterLines(now: Figures, before: Figures | null, tracks: TrackWriter, timeUs: number): Generator<string> {
  for (const name of COUNTERS) if (now[name] !== before?.[name]) yield tracks.counter(name, timeUs, now[name]);
}

/** The times of events, never going back: threads read the clock before it is their turn to record. */
class EventTimes implements Period {
  readonly #times: Float64Array;
  readonly areRecorded: boolean;
  readonly startUs: number;
  readonly endUs: number;
  #nowUs: number;

  constructor({ times, length }: DeviceTrace) {
    this.#times = times;
    const first = times.subarray(0, length).findIndex((time) => !Number.isNaN(time));
    this.areRecorded = first !== -1;
    this.startUs = this.areRecorded ? (times[first] as number) : 0;
    this.#nowUs = this.startUs;
    for (let event = 0; event < length; event++) this.next(event);
    // Longer than nothing, so that the state of a recording of one event is seen.
    this.endUs = Math.max(this.#nowUs, this.startUs + 1);
    this.#nowUs = this.startUs;
  }

  /** Time of the next event. */
  next(event: number): number {
    const time = this.areRecorded ? (this.#times[event] as number) : event;
    if (time > this.#nowUs) this.#nowUs = time;
    return this.#nowUs;
  }
}

/** PyTorch's annotations come as a start and an end with the same name; of several, the latest start ends first. */
function annotationsOf(snapshot: Snapshot, device: number, period: Period): ({ name: string } & Period)[] {
  const list = snapshot.extra?.get('external_annotations');
  const open = new Map<string, number[]>();
  const annotations: ({ name: string } & Period)[] = [];
  for (const item of Array.isArray(list) ? (list as readonly unknown[]) : []) {
    if (!(item instanceof Map)) continue;
    const entry = item as PyDict;
    const [name, stage, timeUs] = [entry.get('name'), entry.get('stage'), entry.get('time_us')];
    if (typeof name !== 'string' || typeof timeUs !== 'number' || (entry.get('device') ?? device) !== device) continue;
    const starts = open.get(name) ?? [];
    if (stage === 'START') open.set(name, [...starts, timeUs]);
    else if (stage === 'END') annotations.push({ name, startUs: starts.pop() ?? period.startUs, endUs: timeUs });
  }
  for (const [name, starts] of open)
    for (const startUs of starts) annotations.push({ name, startUs, endUs: period.endUs });
  return annotations;
}

// Why a request of a recorded program failed, or would, and what to change: the figures of that moment, judged as the allocator judges its
// own failures, and settings that were tried by replay. Must not know how it is printed.

import type { Config } from '../../allocator/config.js';
import { parseConfig } from '../../allocator/config-parser.js';
import { judge, type Verdict } from '../../allocator/verdict.js';
import { UnsupportedError } from '../../errors.js';
import { type DeviceTrace, OOM, type Snapshot } from '../../snapshot/model.js';
import { formatSize } from '../../units.js';
import { recordedConf, recordedTotal } from '../recording/recorded-config.js';
import { streamsOf } from '../recording/snapshot-trace.js';
import { type StartSegment, stateBefore } from '../recording/start-state.js';
import { openRecording, type Recording } from '../replay/snapshot-replay.js';
import { type Advice, advise } from '../tune/advice.js';
import { snapshotWorkload } from '../tune/snapshot-workload.js';
import type { VerdictReport } from './format.js';
import { liveBlocks } from './live-blocks.js';
import { failureFigures, type RecordedRequest, type RequestFigures, requestFigures } from './request-figures.js';

export interface VerdictOptions {
  /** Bytes of a request that is asked about, made at the end. Without it: the last out of memory of the file. */
  readonly request?: number;
  /** Its stream. Default: that of the last out of memory, else the default stream. */
  readonly stream?: number;
  /** Bytes of the device. Default: what an out of memory in the file tells. */
  readonly capacity?: number;
  /** Device the request is for. Default: that of the out of memory, else the one with most reserved. */
  readonly device?: number;
  /** Look for settings that help, by replay. Costs some dozens of replays. */
  readonly advise?: boolean;
}

interface Moment {
  readonly device: number;
  /** The event of the failure; null: the end. */
  readonly event: number | null;
  readonly request: RecordedRequest;
  readonly source: 'event' | 'option';
  /** The recorded failure that is judged; null for a request that is asked about. */
  readonly failure: Failure | null;
}

/** Linear in events and blocks, but for the advice. */
export function judgeSnapshot(snapshot: Snapshot, options: VerdictOptions = {}): VerdictReport {
  const conf = recordedConf(snapshot);
  const config = parseConfig(conf);
  const failure = lastFailure(snapshot, options.device);
  const moment = momentOf(snapshot, options, failure);
  if (moment === null) return none(snapshot, options);
  const { device, event, request } = moment;
  const segments = stateAt(event, snapshot, device, config);
  const figures = requestFigures(segments, request, config);
  const capacity = options.capacity ?? capacityOf(snapshot, failure, config);
  const verdict =
    moment.failure === null
      ? hypothetical(request, figures, capacity)
      : failed(request, figures, { ...moment.failure, total: options.capacity ?? recordedTotal(snapshot), config });
  const report = {
    kind: verdict.kind,
    short_by: verdict.shortBy,
    advice: [],
    sentence: verdict.sentence,
    device,
    request: { ...request, rounded: figures.rounded, source: moment.source, event },
    capacity,
  };
  const helped = ['fragmented', 'pending', 'other_stream'].includes(verdict.kind);
  if (!helped || capacity === null || options.advise === false) return report;
  return { ...report, ...withAdvice(snapshot, moment, { conf, capacity, sentence: verdict.sentence }) };
}

function momentOf(snapshot: Snapshot, options: VerdictOptions, failure: Failure | null): Moment | null {
  const { request, stream } = options;
  if (request !== undefined) {
    const device = options.device ?? failure?.device ?? largestDevice(snapshot);
    const on = stream ?? failure?.stream ?? 0;
    return { device, event: null, request: { bytes: request, stream: on }, source: 'option', failure: null };
  }
  if (failure === null) return null;
  const { device, event, size } = failure;
  return { device, event, request: { bytes: size, stream: failure.stream }, source: 'event', failure };
}

/** A request that ran out of memory. Bytes. */
export interface Failure {
  readonly device: number;
  readonly event: number;
  readonly size: number;
  readonly stream: number;
  readonly deviceFree: number;
}

/** The state at an event that changes nothing; null: at the end. Sizes that the file does not state are those of the blocks placed along the events. */
function stateAt(event: number | null, snapshot: Snapshot, device: number, config: Config): readonly StartSegment[] {
  if (event === null) return stateBefore(snapshot.deviceTraces[device]?.length ?? 0, snapshot, device, config).segments;
  const sizes = new Map(liveBlocks(snapshot, device, event, config).map(({ address, size }) => [address, size]));
  return stateBefore(event, snapshot, device, config).segments.map((segment) => ({
    ...segment,
    blocks: segment.blocks.map((block) => ({ ...block, size: sizes.get(block.address) ?? block.size })),
  }));
}

/** The last out of memory among the events, of all devices or one; null when there is none. Linear in events. */
export function lastFailure(snapshot: Snapshot, only?: number): Failure | null {
  let last: Failure | null = null;
  let lastTime = Number.NEGATIVE_INFINITY;
  snapshot.deviceTraces.forEach((trace: DeviceTrace, device) => {
    if (only !== undefined && device !== only) return;
    const event = trace.actions.subarray(0, trace.length).lastIndexOf(OOM);
    const time = trace.times[event] ?? 0;
    if (event === -1 || (last !== null && time < lastTime)) return;
    lastTime = time;
    last = {
      device,
      event,
      size: trace.sizes[event] as number,
      stream: trace.streams[event] as number,
      deviceFree: trace.addresses[event] as number,
    };
  });
  return last;
}

/** What the file says of the device; else what the allocator held at the failure, and what the device reported as free. */
function capacityOf(snapshot: Snapshot, failure: Failure | null, config: Config): number | null {
  const total = recordedTotal(snapshot);
  if (total !== null) return Math.trunc(total * (config.perProcessMemoryFraction ?? 1));
  if (failure === null) return null;
  const segments = stateAt(failure.event, snapshot, failure.device, config);
  return segments.reduce((sum, { size }) => sum + size, 0) + failure.deviceFree;
}

function none(snapshot: Snapshot, options: VerdictOptions): VerdictReport {
  return {
    kind: 'none',
    short_by: null,
    advice: [],
    sentence:
      'The file records no request that ran out of memory; ask about one with a size (--request 2GiB), or give the text of the error ' +
      '(--message).',
    device: options.device ?? largestDevice(snapshot),
    request: null,
    capacity: options.capacity ?? null,
  };
}

/** The request did fail; the device reported what it had. What it has beyond that and this allocator's is held by others. */
function failed(
  request: RecordedRequest,
  figures: RequestFigures,
  device: { readonly deviceFree: number; readonly total: number | null; readonly config: Config },
): Verdict {
  const free = device.deviceFree;
  const total = device.total ?? figures.reserved + free;
  const fraction = device.total === null ? 1 : (device.config.perProcessMemoryFraction ?? 1);
  return judge(failureFigures(request, figures, { free, total, limit: Math.trunc(total * fraction) }));
}

/** Whether it would succeed now, and how; if not, why not. */
function hypothetical(request: RecordedRequest, figures: RequestFigures, capacity: number | null): Verdict {
  const { rounded, wanted, largestFree, reserved } = figures;
  const served = (how: string): Verdict => ({
    kind: 'none',
    shortBy: null,
    advice: null,
    sentence: `It would succeed now: ${how}.`,
  });
  if (largestFree >= rounded) return served(`a free block of ${formatSize(largestFree)} serves it`);
  const releasable = figures.ownReleasable + figures.otherReleasable;
  const room = capacity === null ? 0 : capacity - reserved;
  if (wanted <= room) return served(`the device has room for a segment of ${formatSize(wanted)}`);
  // Whatever its size, the device has what is held of it.
  if (wanted <= room + releasable) {
    return served(`once ${formatSize(releasable)} of cached memory are given back, which the allocator does by itself`);
  }
  if (capacity === null) {
    return {
      kind: 'unknown',
      shortBy: null,
      advice: null,
      sentence:
        `No free block of its stream and pool has ${formatSize(rounded)} (the largest has ${formatSize(largestFree)}), so the device would ` +
        `be asked for ${formatSize(wanted)}; the file does not say how large it is: give --capacity.`,
    };
  }
  return judge(failureFigures(request, figures, { free: capacity - reserved, total: capacity, limit: capacity }));
}

function withAdvice(
  snapshot: Snapshot,
  { device, request, source }: Moment,
  { conf, capacity, sentence }: { readonly conf: string; readonly capacity: number; readonly sentence: string },
): { readonly advice: readonly Advice[]; readonly sentence: string } {
  try {
    const recording = openRecording(snapshot, { device });
    const workload = snapshotWorkload(recording);
    // A request that failed is among the recorded ones.
    const following =
      source === 'option' ? { request: { bytes: request.bytes, stream: streamNumber(recording, request.stream) } } : {};
    const advice = advise(workload, { ...following, capacity, conf });
    return { advice, sentence: `${sentence} ${adviceSentence(advice)}` };
  } catch (error) {
    if (!(error instanceof UnsupportedError)) throw error;
    return { advice: [], sentence: `${sentence} Settings cannot be tried: the file records no allocations to replay.` };
  }
}

function adviceSentence(advice: readonly Advice[]): string {
  const [best] = advice;
  if (best === undefined) return 'No setting that was tried helps: free what pins the pieces, or use less memory.';
  const what = `${best.conf} (replayed: peak ${formatSize(best.predicted_peak)} reserved)`;
  return best.survives
    ? `It would have been served with ${what}.`
    : `No setting that was tried serves it; least short is ${what}.`;
}

/** One that the recording does not have is a further one. */
function streamNumber({ trace, start }: Recording, stream: number): number {
  const streams = streamsOf(start, trace);
  const number = streams.indexOf(stream);
  return number === -1 ? streams.length : number;
}

function largestDevice(snapshot: Snapshot): number {
  const reserved = new Map<number, number>();
  for (const { device, totalSize } of snapshot.segments) reserved.set(device, (reserved.get(device) ?? 0) + totalSize);
  return [...reserved].reduce((most, other) => (other[1] > most[1] ? other : most), [0, -1] as [number, number])[0];
}

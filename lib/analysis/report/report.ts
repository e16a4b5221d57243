// The report on a snapshot: puts the figures together, and says what is not known and why. Each figure is made elsewhere. Must not know
// files or terminals.

import type { Config } from '../../allocator/config.js';
import { parseConfig } from '../../allocator/config-parser.js';
import { roundSize } from '../../allocator/rounding.js';
import { OOM, type Snapshot } from '../../snapshot/model.js';
import { recordedConf } from '../recording/recorded-config.js';
import { rebuildStart } from '../recording/start-state.js';
import { type DeviceReport, type Holder, type Report, TIMELINE_FIELDS } from './format.js';
import { devicesOf, memoryFigures, poolReports, type UsableBy } from './gap.js';
import { growthOf } from './growth.js';
import { holdersOf } from './holders.js';
import { largestOnDevice } from './largest-request.js';
import { liveBlocks } from './live-blocks.js';
import { notesOn } from './notes.js';
import { courseOf } from './peak.js';
import { pinningOf } from './pinning.js';
import { judgeSnapshot, lastFailure, type VerdictOptions } from './snapshot-verdict.js';

export interface AnalyzeOptions extends VerdictOptions {
  /** Name of the file; several reports are told apart by it. */
  readonly file?: string;
  /** The moment that `holders` shows: an event, or one of the words. Default `end`. */
  readonly at?: number | 'end' | 'peak' | 'oom';
  /** Keep this many entries of each list. Default: all. */
  readonly top?: number;
}

/**
 * What holds the memory, how fragmented it is and where, what grows, and why an out of memory happened or would. Linear in events and
 * blocks; with `advise` (the default) some dozens of replays when memory is fragmented.
 * @throws RangeError when `at` is an event that is not there
 */
export function analyze(snapshot: Snapshot, options: AnalyzeOptions = {}): Report {
  const config = parseConfig(recordedConf(snapshot));
  const devices = devicesOf(snapshot);
  const starts = new Map(devices.map((device) => [device, rebuildStart(snapshot, device, config)]));
  const verdict = judgeSnapshot(snapshot, options);
  const { request } = verdict;
  const usableBy = request === null ? null : { rounded: roundSize(request.bytes, config), stream: request.stream };
  const reports = devices.map((device) => {
    const capacity = verdict.device === device ? verdict.capacity : (options.capacity ?? null);
    return deviceReport(snapshot, device, {
      capacity,
      request: verdict.device === device ? usableBy : null,
      course: courseOf(snapshot, device, config, starts.get(device)),
      config,
    });
  });
  const moment = momentOf(snapshot, options, reports, verdict.device);
  const holders = devices.flatMap((device) => {
    const event = moment.event !== null && moment.device === device ? moment.event : null;
    if (moment.event !== null && moment.device !== device) return [];
    return holdersOf(snapshot, device, liveBlocks(snapshot, device, event, config));
  });
  const cut = <T>(list: readonly T[]): readonly T[] => (options.top === undefined ? list : list.slice(0, options.top));
  const report: Report = {
    files: options.file === undefined ? [] : [options.file],
    devices: reports,
    pinning: cut(pinningOf(snapshot)),
    holders: cut(holders.sort((a: Holder, b: Holder) => b.bytes - a.bytes)),
    at: { moment: moment.moment, event: moment.event },
    growth: cut(devices.flatMap((device) => growthOf(snapshot, device, config))),
    verdict,
    notes: notesOn(snapshot, starts),
  };
  return report;
}

interface Moment {
  readonly moment: Report['at']['moment'];
  readonly device: number;
  readonly event: number | null;
}

function momentOf(
  snapshot: Snapshot,
  { at = 'end' }: AnalyzeOptions,
  reports: readonly DeviceReport[],
  verdictDevice: number,
): Moment {
  if (at === 'end') return { moment: 'end', device: verdictDevice, event: null };
  if (typeof at === 'number') {
    // Of the device that the verdict is about, else of the first that has events.
    const has = (device: number): boolean => (snapshot.deviceTraces[device]?.length ?? 0) > 0;
    const device = has(verdictDevice)
      ? verdictDevice
      : Math.max(
          0,
          snapshot.deviceTraces.findIndex((t) => t.length > 0),
        );
    return { moment: 'event', device, event: at };
  }
  if (at === 'peak') {
    const highest = [...reports].sort((a, b) => (b.peak?.allocated ?? -1) - (a.peak?.allocated ?? -1))[0];
    return { moment: 'peak', device: highest?.device ?? 0, event: highest?.peak?.event ?? null };
  }
  const failure = lastFailure(snapshot);
  if (failure === null) throw new RangeError('the file records no out of memory');
  return { moment: 'oom', device: failure.device, event: failure.event };
}

function deviceReport(
  snapshot: Snapshot,
  device: number,
  {
    capacity,
    request,
    course,
    config,
  }: {
    readonly capacity: number | null;
    readonly request: UsableBy | null;
    readonly course: ReturnType<typeof courseOf>;
    readonly config: Config;
  },
): DeviceReport {
  const segments = snapshot.segments.filter((segment) => segment.device === device);
  const trace = snapshot.deviceTraces[device];
  const figures = memoryFigures(segments, request);
  return {
    device,
    ...figures,
    segments: segments.length,
    blocks: segments.reduce((sum, { blocks }) => sum + blocks.length, 0),
    capacity,
    largest_request: capacity === null ? null : largestOnDevice(segments, capacity, config),
    pools: poolReports(segments, request, config),
    events: trace?.length ?? 0,
    out_of_memories: trace?.actions.subarray(0, trace.length).filter((action) => action === OOM).length ?? 0,
    peak: course.peak,
    pending_peak: course.pending_peak,
    timeline_fields: TIMELINE_FIELDS,
    timeline: course.timeline,
  };
}

/**
 * Several reports, one per rank, as one: each entry names its file, the worst comes first (one whose request fails before others,
 * then an out of memory before none, then by the gap between reserved and allocated), and the verdict is that of the worst.
 */
export function mergeReports(reports: readonly Report[]): Report {
  const [only] = reports;
  if (only !== undefined && reports.length === 1) return only;
  const gapOf = (report: Report): number =>
    Math.max(0, ...report.devices.map(({ reserved, allocated }) => reserved - allocated));
  const failures = (report: Report): number => report.devices.reduce((sum, device) => sum + device.out_of_memories, 0);
  const worstFirst = [...reports].sort(
    (a, b) =>
      Number(b.verdict.kind !== 'none') - Number(a.verdict.kind !== 'none') ||
      Number(failures(b) > 0) - Number(failures(a) > 0) ||
      gapOf(b) - gapOf(a),
  );
  const worst = worstFirst[0];
  if (worst === undefined) throw new RangeError('there is no report to merge');
  const all = <T>(pick: (report: Report) => readonly T[]): T[] =>
    worstFirst.flatMap((report) => pick(report).map((entry) => ({ ...entry, file: report.files[0] ?? '' })));
  return {
    files: worstFirst.flatMap(({ files }) => files),
    devices: all((report) => report.devices),
    pinning: all((report) => report.pinning).sort((a, b) => b.pinned_bytes - a.pinned_bytes),
    holders: all((report) => report.holders).sort((a, b) => b.bytes - a.bytes),
    at: worst.at,
    growth: all((report) => report.growth).sort((a, b) => b.bytes - a.bytes),
    verdict: { ...worst.verdict, file: worst.files[0] ?? '' },
    notes: worstFirst.flatMap((report) => report.notes.map((note) => `${report.files[0] ?? ''}: ${note}`)),
  };
}

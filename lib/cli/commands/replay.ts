// `cudalloc replay`: runs a trace file or a snapshot through the allocator and prints what came out. Knows options and wording; the
// replay itself is analysis/replay.ts and analysis/snapshot-replay.ts.

import { writeFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { POLICIES, type PolicyName } from '../../allocator/policy.js';
import type { ReplayReport } from '../../analysis/replay/format.js';
import { type ReplayResult, replay } from '../../analysis/replay/replay.js';
import {
  type Fidelity,
  openRecording,
  type Recording,
  ROOMY_CAPACITY,
  replayExactly,
  replayUnder,
} from '../../analysis/replay/snapshot-replay.js';
import { openDevice } from '../../device/open.js';
import type { Device } from '../../device/types.js';
import { ConfigError } from '../../errors.js';
import type { Snapshot } from '../../snapshot/model.js';
import type { Trace } from '../../snapshot/trace.js';
import { readInput } from '../input.js';
import { countOption, sizeOption } from '../options.js';
import { startProgress } from '../render/progress.js';
import { type ReplayedSnapshot, renderReplay } from '../render/replay.js';

interface Options {
  readonly conf?: string;
  readonly capacity?: number;
  readonly policy: PolicyName;
  readonly backend: 'sim' | 'mock' | 'cuda';
  readonly device?: number;
  readonly from?: number;
  readonly to?: number;
  readonly failOnOom?: boolean;
  readonly salvage?: boolean;
  readonly json?: boolean;
  readonly output?: string;
}

interface Replayed {
  readonly result: ReplayResult;
  /** Operations of the whole input. */
  readonly operations: number;
  readonly snapshot: ReplayedSnapshot | null;
}

const HELP = `
A trace has one operation a line (a <id> <bytes> <stream>, f <id>, ...), plain or gzip.

A snapshot (PyTorch's pickle, or ours) is first replayed exactly: from the state before its first event, under the settings it was
recorded with. "fidelity" says how many allocations were placed at the recorded address. With --conf, --capacity, another --policy
or --backend its requests are then run under those; what was there before the first event is allocated first.

With --from and --to the results are those of a part (operations of a trace, events of a snapshot): what is before --from is carried
out, unreported, and peak and accumulated statistics are reset there.

On the mock and on CUDA every block is filled when it is allocated (its first and last 64 bytes and every 2 MiB; all of it
on devices of up to 2 GiB) and compared when it is freed and at the end.

Exit status: 0 done; 1 with --fail-on-oom when memory ran out, or when data did not come back as written; 2 bad input.`;

export function register(program: Command): void {
  program
    .command('replay')
    .description('runs a recording through the allocator: placements, statistics, out of memory, driver calls')
    .argument('<trace or snapshot>', 'trace file, or memory snapshot')
    .option('--conf <settings>', "the allocator's settings, as in PYTORCH_CUDA_ALLOC_CONF (which is not read)")
    .option(
      '--capacity <size>',
      "bytes of the device (default: 1TiB, so that nothing runs out; cuda: the card's)",
      sizeOption,
    )
    .addOption(new Option('--policy <policy>', 'whose decisions').choices(POLICIES).default('pytorch'))
    .addOption(new Option('--backend <backend>', 'what it runs on').choices(['sim', 'mock', 'cuda']).default('sim'))
    .option('--device <number>', 'device of the snapshot (default: the first with events)', countOption)
    .option('--from <operation>', 'first operation of the results', countOption)
    .option('--to <operation>', 'operation to stop before', countOption)
    .option('--fail-on-oom', 'exit with status 1 when an out of memory occurs')
    .option('--salvage', 'of a damaged snapshot, use what can be read')
    .option('--json', 'print one JSON document on stdout')
    .option('-o, --output <file>', 'write the JSON document to a file')
    .addHelpText('after', HELP)
    .action((path: string, options: Options) => {
      process.exitCode = runReplay(path, options);
    });
}

function runReplay(path: string, options: Options): number {
  const input = readInput(path, { salvage: options.salvage ?? false });
  const { result, operations, snapshot } =
    input.kind === 'trace' ? replayTrace(input.trace, options) : replaySnapshot(input.snapshot, options);
  const document = snapshot === null ? result.report : { ...result.report, fidelity: snapshot.fidelity };
  if (options.output !== undefined) writeFileSync(options.output, `${JSON.stringify(document)}\n`);
  process.stdout.write(
    options.json ? `${JSON.stringify(document)}\n` : `${renderReplay(path, operations, result, snapshot)}\n`,
  );
  return exitStatus(result.report, options.failOnOom ?? false);
}

/** 1 when data did not come back as written, or memory ran out and that is asked about. */
export function exitStatus(report: Pick<ReplayReport, 'ooms' | 'data_checks'>, failOnOom: boolean): 0 | 1 {
  const damaged = (report.data_checks?.mismatches_total ?? 0) > 0;
  return damaged || (failOnOom && report.ooms > 0) ? 1 : 0;
}

function replayTrace(trace: Trace, options: Options): Replayed {
  const part = checkedPart(options, trace.ops, 'operation');
  if (options.device !== undefined) {
    throw new ConfigError('--device: a trace is of one device', { key: 'device', value: String(options.device) });
  }
  const result = onDevice(options, (device, onProgress) =>
    replay(trace, { ...settingsOf(options), ...part, device, checkData: device.features.copies.works, onProgress }),
  );
  return { result, operations: trace.ops, snapshot: null };
}

function replaySnapshot(snapshot: Snapshot, options: Options): Replayed {
  if (options.device !== undefined && options.device >= snapshot.deviceTraces.length) {
    const why = `the snapshot's devices are numbered from 0 to ${snapshot.deviceTraces.length - 1}`;
    throw new ConfigError(`--device: ${options.device}: ${why}`, { key: 'device', value: String(options.device) });
  }
  const recording = openRecording(snapshot, options.device === undefined ? {} : { device: options.device });
  const part = checkedPart(options, recording.trace.length, 'event');
  const { fidelity, exact } = replayedExactly(recording, part);
  const { conf, policy, backend, capacity } = options;
  const asRecorded = conf === undefined && capacity === undefined && policy === 'pytorch' && backend === 'sim';
  const result = asRecorded
    ? exact
    : onDevice(options, (device, onProgress) =>
        replayUnder(recording, {
          conf: conf ?? recording.conf,
          policy,
          ...part,
          device,
          checkData: device.features.copies.works,
          onProgress,
        }),
      );
  const operations = recording.trace.length;
  return { result, operations, snapshot: { fidelity, recording, asRecorded, recordedPeak: peakReserved(exact) } };
}

function peakReserved({ report }: ReplayResult): number {
  return report.stats.reserved_bytes.all.peak;
}

function replayedExactly(
  recording: Recording,
  part: { readonly from: number; readonly to: number },
): { readonly fidelity: Fidelity; readonly exact: ReplayResult } {
  const progress = startProgress('replay');
  try {
    const { fidelity, ...exact } = replayExactly(recording, { ...part, onProgress: progress.update });
    return { fidelity, exact };
  } finally {
    progress.stop();
  }
}

function checkedPart(options: Options, length: number, what: string): { readonly from: number; readonly to: number } {
  const { from = 0, to = length } = options;
  const refuse = (key: string, value: number, why: string) =>
    new ConfigError(`--${key}: ${value} ${why}`, { key, value: String(value) });
  if (to > length) throw refuse('to', to, `is beyond the ${length} ${what}s there are`);
  if (from > to) throw refuse('from', from, `is beyond ${what} ${to}, where the results end`);
  return { from, to };
}

function settingsOf({ conf = '', policy }: Options): { readonly conf: string; readonly policy: Options['policy'] } {
  return { conf, policy };
}

/** Runs a replay on a device of its own, with a progress bar. */
function onDevice(
  options: Options,
  run: (device: Device, onProgress: (done: number, total: number) => void) => ReplayResult,
): ReplayResult {
  const { backend } = options;
  const capacity = options.capacity ?? (backend === 'cuda' ? undefined : ROOMY_CAPACITY);
  const device = openDevice({ backend, ...(capacity !== undefined && { capacity }) });
  const progress = startProgress('replay');
  try {
    return run(device, progress.update);
  } finally {
    progress.stop();
    device.close();
  }
}

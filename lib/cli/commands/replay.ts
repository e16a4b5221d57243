// `cudalloc replay`: runs a trace file through the allocator and prints what came out. Knows options and wording; the replay
// itself is analysis/replay.ts.

import { writeFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { type ReplayResult, replay } from '../../analysis/replay.js';
import type { ReplayReport } from '../../analysis/replay-format.js';
import { openDevice } from '../../device/open.js';
import { ConfigError } from '../../errors.js';
import { readTrace } from '../../snapshot/files.js';
import type { Trace } from '../../snapshot/trace.js';
import { countOption, sizeOption } from '../options.js';
import { startProgress } from '../render/progress.js';
import { renderReplay } from '../render/replay.js';

/** Without --capacity on a device that is not real: more than any trace needs, so that nothing runs out. */
const ROOMY_CAPACITY = 1024 ** 4;

interface Options {
  readonly conf?: string;
  readonly capacity?: number;
  readonly policy: 'pytorch' | 'default';
  readonly backend: 'sim' | 'mock' | 'cuda';
  readonly from?: number;
  readonly to?: number;
  readonly failOnOom?: boolean;
  readonly json?: boolean;
  readonly output?: string;
}

const HELP = `
The trace has one operation a line (a <id> <bytes> <stream>, f <id>, ...), plain or gzip.

With --from and --to the results are those of a part: operations before --from are carried out, unreported, and peak and
accumulated statistics are reset there.

On the mock and on CUDA every block is filled when it is allocated (its first and last 64 bytes and every 2 MiB; all of it
on devices of up to 2 GiB) and compared when it is freed and at the end.

Exit status: 0 done; 1 with --fail-on-oom when memory ran out, or when data did not come back as written; 2 bad input.`;

export function register(program: Command): void {
  program
    .command('replay')
    .description('runs a recorded trace through the allocator: placements, statistics, out of memory, driver calls')
    .argument('<trace>', 'trace file')
    .option('--conf <settings>', "the allocator's settings, as in PYTORCH_CUDA_ALLOC_CONF (which is not read)")
    .option(
      '--capacity <size>',
      "bytes of the device (default: 1TiB, so that nothing runs out; cuda: the card's)",
      sizeOption,
    )
    .addOption(new Option('--policy <policy>', 'whose decisions').choices(['pytorch', 'default']).default('pytorch'))
    .addOption(new Option('--backend <backend>', 'what it runs on').choices(['sim', 'mock', 'cuda']).default('sim'))
    .option('--from <operation>', 'first operation of the results', countOption)
    .option('--to <operation>', 'operation to stop before', countOption)
    .option('--fail-on-oom', 'exit with status 1 when an out of memory occurs')
    .option('--json', 'print one JSON document on stdout')
    .option('-o, --output <file>', 'write the JSON document to a file')
    .addHelpText('after', HELP)
    .action((path: string, options: Options) => {
      process.exitCode = runReplay(path, options);
    });
}

function runReplay(path: string, options: Options): number {
  const trace = readTrace(path);
  const from = options.from ?? 0;
  const to = options.to ?? trace.ops;
  checkPart(from, to, trace);
  const result = replayOnDevice(trace, { ...options, from, to });
  const { report } = result;
  if (options.output !== undefined) writeFileSync(options.output, `${JSON.stringify(report)}\n`);
  process.stdout.write(options.json ? `${JSON.stringify(report)}\n` : `${renderReplay(path, trace, result)}\n`);
  return exitStatus(report, options.failOnOom ?? false);
}

/** 1 when data did not come back as written, or memory ran out and that is asked about. */
export function exitStatus(report: Pick<ReplayReport, 'ooms' | 'data_checks'>, failOnOom: boolean): 0 | 1 {
  const damaged = (report.data_checks?.mismatches_total ?? 0) > 0;
  return damaged || (failOnOom && report.ooms > 0) ? 1 : 0;
}

function checkPart(from: number, to: number, trace: Trace): void {
  const refuse = (key: string, value: number, why: string) =>
    new ConfigError(`--${key}: ${value} ${why}`, { key, value: String(value) });
  if (to > trace.ops) throw refuse('to', to, `is beyond the trace's ${trace.ops} operations`);
  if (from > to) throw refuse('from', from, `is beyond operation ${to}, where the results end`);
}

function replayOnDevice(trace: Trace, options: Options & { readonly from: number; readonly to: number }): ReplayResult {
  const { backend, conf = '', policy, from, to } = options;
  const capacity = options.capacity ?? (backend === 'cuda' ? undefined : ROOMY_CAPACITY);
  const device = openDevice({ backend, ...(capacity !== undefined && { capacity }) });
  const progress = startProgress('replay');
  try {
    return replay(trace, {
      device,
      conf,
      policy,
      from,
      to,
      checkData: device.features.copies.works,
      onProgress: progress.update,
    });
  } finally {
    progress.stop();
    device.close();
  }
}

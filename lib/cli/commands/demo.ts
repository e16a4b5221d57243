// `cudalloc demo`: the package's main job in a minute. The same workload on fixed segments, on expandable ones and on paged memory;
// the first runs out of memory with gigabytes free, the others do not. Knows options, checks and exit status.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { openDevice } from '../../device/open.js';
import type { Device } from '../../device/types.js';
import { GIB } from '../../units.js';
import { type DemoPlan, type DemoRun, planDemo, runDemo } from '../demo-workload.js';
import { sizeOption } from '../options.js';
import { type DemoCheck, type DemoRuns, renderDemo } from '../render/demo.js';
import { startProgress } from '../render/progress.js';

const EXPANDABLE = 'expandable_segments:True';

interface Options {
  readonly backend: 'auto' | 'cuda' | 'mock';
  readonly capacity: number;
  readonly json?: boolean;
  readonly output?: string;
}

export function register(program: Command): void {
  program
    .command('demo')
    .description('runs out of memory with gigabytes free, explains it, and does the same twice without running out')
    .addOption(
      new Option('--backend <backend>', 'what it runs on; auto: a GPU if there is one')
        .choices(['auto', 'cuda', 'mock'])
        .default('auto'),
    )
    .addOption(
      new Option('--capacity <size>', 'bytes of the device to use (at least 1GiB)')
        .argParser(sizeOption)
        .default(8 * GIB, '8GiB'),
    )
    .option('--json', 'print one JSON document on stdout')
    .option('-o, --output <file>', 'where the snapshot of the failure goes; default: a new folder for temporary files')
    .addHelpText(
      'after',
      '\nWithout a GPU it runs on the CPU mock: real bytes in the memory of this machine, about 2.5 GiB of it.\n' +
        '\nExit status: 0 all checks passed; 1 one failed; 2 bad input.',
    )
    .action((options: Options) => {
      process.exitCode = demo(options);
    });
}

function demo({ backend, capacity, json, output }: Options): number {
  const plan = planDemo(capacity);
  const device = openDevice({ backend, capacity });
  const progress = startProgress('demo');
  try {
    let steps = 0;
    const total = 3 * (5 * plan.batches + 3);
    const onStep = () => progress.update(++steps, total);
    const snapshot = output ?? join(mkdtempSync(join(tmpdir(), 'cudalloc-demo-')), 'out-of-memory.pickle');
    const fixed = runDemo(device, plan, { policy: 'default', conf: '', snapshot, onStep });
    const expandable = runDemo(device, plan, { policy: 'default', conf: EXPANDABLE, snapshot, onStep });
    const paged = device.features.virtualMemory.works
      ? runDemo(device, plan, { policy: 'paged', conf: '', snapshot, onStep })
      : null;
    progress.stop();
    const runs = { fixed, expandable, paged };
    const checks = check(plan, runs);
    const text = json
      ? JSON.stringify(
          toJson(device, plan, paged === null ? [fixed, expandable] : [fixed, expandable, paged], checks),
          null,
          2,
        )
      : renderDemo({ device, plan, ...runs, checks });
    process.stdout.write(`${text}\n`);
    return checks.every(({ passed }) => passed) ? 0 : 1;
  } finally {
    progress.stop();
    device.close();
  }
}

function check(plan: DemoPlan, { fixed, expandable, paged }: DemoRuns): DemoCheck[] {
  const free = fixed.reservedBefore - fixed.allocatedBefore;
  const bytes = plan.batches * plan.result;
  return [
    { name: 'fixed segments run out of memory', passed: fixed.error !== null },
    { name: 'more than the request was free', passed: free > plan.request },
    { name: 'the error says that memory is fragmented', passed: fixed.error?.verdict.kind === 'fragmented' },
    { name: 'the error names the setting that helps', passed: fixed.error?.verdict.advice === EXPANDABLE },
    { name: 'expandable segments do not run out', passed: expandable.error === null },
    { name: 'paged memory does not run out', passed: paged?.error === null },
    { name: 'the snapshot of the failure is written', passed: fixed.snapshot !== null },
    {
      name: 'all bytes came back as written',
      passed:
        fixed.bytesCompared === bytes &&
        [expandable, paged].every((run) => run === null || run.bytesCompared === bytes + plan.request) &&
        [fixed, expandable, paged].every((run) => run === null || run.bytesWrong === 0),
    },
  ];
}

function toJson(device: Device, plan: DemoPlan, runs: readonly DemoRun[], checks: readonly DemoCheck[]): unknown {
  return {
    backend: device.backend,
    device: device.name,
    capacity: plan.capacity,
    workload: {
      batches: plan.batches,
      long_batch: plan.longBatch,
      short_batch: plan.shortBatch,
      result: plan.result,
      request: plan.request,
    },
    snapshot: runs.find(({ snapshot }) => snapshot !== null)?.snapshot ?? null,
    runs: runs.map((run) => ({
      policy: run.policy,
      conf: run.conf,
      out_of_memory: run.error !== null,
      message: run.error?.message ?? null,
      verdict: run.error?.verdict.kind ?? null,
      advice: run.error?.verdict.advice ?? null,
      reserved_before: run.reservedBefore,
      allocated_before: run.allocatedBefore,
      free_pieces: run.pieces,
      largest_free_piece: run.largestPiece,
      reserved_peak: run.reservedPeak,
      bytes_compared: run.bytesCompared,
      bytes_wrong: run.bytesWrong,
      elapsed_ms: Math.round(run.elapsedMs),
    })),
    checks,
  };
}

// `cudalloc tune`: tries settings on a recorded workload and prints which need the least memory. Knows options, threads and wording; what is
// tried is analysis/tune.ts.

import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseConfig } from '../../allocator/config-parser.js';
import { formatConfig } from '../../allocator/format-config.js';
import { POLICIES, type PolicyName } from '../../allocator/policy.js';
import { searchSettings, type TunedSetting } from '../../analysis/tune/tune.js';
import { CudallocError } from '../../errors.js';
import { readInput, workloadOf } from '../input.js';
import { countOption, sizeOption } from '../options.js';
import { startProgress } from '../render/progress.js';
import { renderTune, type TuneReport } from '../render/tune.js';
import { TunePool } from '../tune-pool.js';

interface Options {
  readonly capacity?: number;
  readonly policy: PolicyName | 'both' | 'all';
  readonly conf: readonly string[];
  readonly jobs?: number;
  readonly top: number;
  readonly salvage?: boolean;
  readonly json?: boolean;
  readonly output?: string;
}

const HELP = `
--policy both: pytorch and default; all: paged too, which few settings concern.

Each setting is tried by running the recorded requests on a simulated device: with room for everything, and on ever smaller
devices until memory runs out (in steps of 2 MiB; retries are allowed). Best first: the smallest device, then the least
reserved, the fewest driver calls, the shortest string. Whether a workload survives is not monotone in the capacity: the
printed one was run and survived.

Retries, segments and driver calls are those with --capacity, or with room for everything. Settings that a trace makes itself
are left out; those of a snapshot are tried too.

Exit status: 0 done; 1 no setting survives --capacity; 2 bad input.`;

export function register(program: Command): void {
  program
    .command('tune')
    .description('searches for the settings under which a recorded workload needs the least memory')
    .argument('<file>', 'trace or snapshot')
    .option('--capacity <size>', 'bytes of the device it has to fit on', sizeOption)
    .addOption(
      new Option('--policy <policy>', 'whose decisions').choices([...POLICIES, 'both', 'all']).default('pytorch'),
    )
    .option('--conf <settings>', 'also try these settings; may be given several times', collectConf, [])
    .option('--jobs <count>', 'worker threads (default: one for each core)', countOption)
    .option('--top <count>', 'print the best so many; 0 prints all', countOption, 12)
    .option('--salvage', 'use what can be read of a damaged snapshot')
    .option('--json', 'print one JSON document on stdout')
    .option('-o, --output <file>', 'write the JSON document to a file')
    .addHelpText('after', HELP)
    .action(async (path: string, options: Options) => {
      process.exitCode = await runTune(path, options);
    });
}

function collectConf(text: string, before: readonly string[]): string[] {
  try {
    parseConfig(text);
  } catch (error) {
    if (error instanceof CudallocError) throw new InvalidArgumentError(error.message);
    throw error;
  }
  return [...before, text];
}

async function runTune(path: string, options: Options): Promise<number> {
  const { capacity = null, salvage = false } = options;
  const input = readInput(path, { salvage });
  const workload = workloadOf(input);
  const policies = policiesOf(options.policy);
  const search = searchSettings(workload, { policies, extra: options.conf });
  const jobs = Math.max(1, options.jobs ?? availableParallelism());
  const settings = await drive(search, new TunePool({ path, salvage, capacity }, jobs));
  const report: TuneReport = {
    file: path,
    kind: input.kind,
    allocations: workload.allocations,
    recorded_conf: formatConfig(parseConfig(workload.conf)),
    fidelity: workload.fidelity,
    capacity,
    figures_at: capacity === null ? 'roomy' : 'capacity',
    settings,
  };
  const document = `${JSON.stringify(report)}\n`;
  if (options.output !== undefined) writeFileSync(options.output, document);
  process.stdout.write(options.json ? document : `${renderTune(report, options.top)}\n`);
  return capacity !== null && !settings.some(({ survives }) => survives) ? 1 : 0;
}

function policiesOf(chosen: Options['policy']): readonly PolicyName[] {
  if (chosen === 'all') return POLICIES;
  return chosen === 'both' ? ['pytorch', 'default'] : [chosen];
}

async function drive(search: ReturnType<typeof searchSettings>, pool: TunePool): Promise<TunedSetting[]> {
  const progress = startProgress('tune');
  // The cursor comes back, and the threads end with the process.
  const interrupted = (): void => {
    progress.stop();
    process.exit(130);
  };
  process.once('SIGINT', interrupted);
  try {
    let before = 0;
    let step = search.next();
    while (step.done !== true) {
      const batch = step.value;
      const done = before;
      const values = await pool.evaluate(batch, (count) => progress.update(done + count, done + batch.length));
      before += batch.length;
      step = search.next(values);
    }
    return step.value;
  } finally {
    progress.stop();
    process.off('SIGINT', interrupted);
    await pool.close();
  }
}

// `cudalloc conf`: checks and explains a settings string, and shows what it does to a recorded workload. Knows options and wording; the checks
// are analysis/settings-check.ts.

import { writeFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { POLICIES, type PolicyName } from '../../allocator/policy.js';
import { checkSettings } from '../../analysis/conf/settings-check.js';
import { evaluateSettings } from '../../analysis/tune/tune.js';
import { readInput, workloadOf } from '../input.js';
import { sizeOption } from '../options.js';
import { type ConfReport, renderConf, type SettingsOnWorkload } from '../render/conf.js';

interface Options {
  readonly torch?: string;
  readonly trace?: string;
  readonly capacity?: number;
  readonly policy: PolicyName;
  readonly json?: boolean;
  readonly output?: string;
}

const HELP = `
Without --torch the string is checked against all options known here. With it, against what is known of that PyTorch release;
what could not be verified of a release is called so, and is no refusal.

With --trace the recorded requests are run without and with these settings.

Exit status: 0 accepted; 1 refused; 2 bad input.`;

export function register(program: Command): void {
  program
    .command('conf')
    .description('checks and explains a settings string (PYTORCH_CUDA_ALLOC_CONF)')
    .argument('<settings>', 'key:value,key:value')
    .option('--torch <version>', 'a PyTorch release, as 2.1')
    .option('--trace <file>', 'a trace or a snapshot to show the effect on')
    .option('--capacity <size>', 'bytes of the device for --trace (default: room for everything)', sizeOption)
    .addOption(new Option('--policy <policy>', 'whose decisions, for --trace').choices(POLICIES).default('pytorch'))
    .option('--json', 'print one JSON document on stdout')
    .option('-o, --output <file>', 'write the JSON document to a file')
    .addHelpText('after', HELP)
    .action((settings: string, options: Options) => {
      process.exitCode = runConf(settings, options);
    });
}

function runConf(settings: string, options: Options): number {
  const check = checkSettings(settings, options.torch === undefined ? {} : { torch: options.torch });
  const effect =
    options.trace === undefined || check.conf === null ? null : effectOn(options.trace, check.conf, options);
  const report: ConfReport = { ...check, trace: effect };
  const document = `${JSON.stringify(report)}\n`;
  if (options.output !== undefined) writeFileSync(options.output, document);
  process.stdout.write(options.json ? document : `${renderConf(report)}\n`);
  return check.accepted ? 0 : 1;
}

/** @throws when the file cannot be read: an accepted string is no answer to what it does there */
function effectOn(path: string, conf: string, options: Options): SettingsOnWorkload {
  const { policy } = options;
  const capacity = options.capacity ?? null;
  const workload = workloadOf(readInput(path));
  return {
    file: path,
    allocations: workload.allocations,
    fidelity: workload.fidelity,
    capacity,
    without: evaluateSettings(workload, { conf: '', policy }, capacity),
    with: evaluateSettings(workload, { conf, policy }, capacity),
  };
}

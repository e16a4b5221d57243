// `cudalloc diff`: what grew from one snapshot to another, by call site. Knows options and wording.

import { writeFileSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { diffSnapshots } from '../../analysis/report/diff.js';
import { readSnapshot } from '../../snapshot/files.js';
import { countOption } from '../options.js';
import { renderDiff } from '../render/diff.js';

interface Options {
  readonly at: 'end' | 'peak';
  readonly top: number;
  readonly salvage?: boolean;
  readonly json?: boolean;
  readonly output?: string;
}

export function register(program: Command): void {
  program
    .command('diff')
    .description('what grew and what shrank from one snapshot to another, by call site')
    .argument('<a>', 'the earlier snapshot')
    .argument('<b>', 'the later one')
    .addOption(
      new Option('--at <moment>', 'compare the ends, or each at its own peak').choices(['end', 'peak']).default('end'),
    )
    .option('--top <number>', 'call sites to print; 0: all', countOption, 10)
    .option('--salvage', 'of a damaged snapshot, use what can be read')
    .option('--json', 'print one JSON document on stdout')
    .option('-o, --output <file>', 'write the JSON document to a file')
    .addHelpText('after', '\nExit status: 0 done; 2 bad input.')
    .action((a: string, b: string, options: Options) => runDiff(a, b, options));
}

function runDiff(a: string, b: string, { at, top, salvage = false, json, output }: Options): void {
  const difference = diffSnapshots(readSnapshot(a, { salvage }), readSnapshot(b, { salvage }), at);
  const document = { a, b, ...difference };
  if (output !== undefined) writeFileSync(output, `${JSON.stringify(document)}\n`);
  process.stdout.write(json ? `${JSON.stringify(document)}\n` : `${renderDiff(a, b, difference, top)}\n`);
}

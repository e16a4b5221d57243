// `cudalloc analyze`: what holds the memory, how fragmented it is, and why memory ran out. Knows options and wording; the figures are
// made in analysis/report.ts.

import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { Command } from 'commander';
import { flamegraphSvg, foldedStacks } from '../../analysis/report/flamegraph.js';
import type { Report } from '../../analysis/report/format.js';
import { type OutOfMemoryMessage, parseOutOfMemoryMessage } from '../../analysis/report/oom-message.js';
import { judgeMessage } from '../../analysis/report/oom-message-verdict.js';
import { type AnalyzeOptions, analyze, mergeReports } from '../../analysis/report/report.js';
import { ConfigError } from '../../errors.js';
import { readSnapshot } from '../../snapshot/files.js';
import { countOption, momentOption, sizeOption } from '../options.js';
import { startProgress } from '../render/progress.js';
import { renderMessage, renderReport } from '../render/report.js';

interface Options {
  readonly at?: AnalyzeOptions['at'];
  readonly request?: number;
  readonly capacity?: number;
  readonly stream?: number;
  readonly message?: string;
  readonly flamegraph?: string;
  readonly top?: number;
  readonly advice: boolean;
  readonly salvage?: boolean;
  readonly json?: boolean;
  readonly output?: string;
}

const HELP = `
Every byte of reserved - allocated is in one part of the gap: pending (freed, another stream may still use it), other stream (free, but
not for the request), wholly free (in segments without a live block), stuck (free, in segments that a live block pins).

The verdict is on the last out of memory in the file, or on a request that is asked about (--request, with --capacity where the file
does not say how large the device is), or on the text of an error (--message; no file is needed then). Settings are advised only when
a replay of the file shows that they help; the replay's fidelity is printed with them.

Several files (one per rank) become one report, the worst first.

Exit status: 0 done; 2 bad input.`;

export function register(program: Command): void {
  program
    .command('analyze')
    .description(
      'what holds the memory of a snapshot, how fragmented it is and where, why memory ran out, what to change',
    )
    .argument('[snapshot...]', "PyTorch's pickle, or ours; plain or gzip")
    .option(
      '--at <event>',
      'holders after this event, at the peak, at the last oom, or at the end (default)',
      momentOption,
    )
    .option('--request <size>', 'would a request of this size succeed at the end', sizeOption)
    .option('--stream <id>', 'stream of the request', countOption)
    .option('--capacity <size>', 'bytes of the device', sizeOption)
    .option('--message <text>', 'judge the text of an out-of-memory error')
    .option('--flamegraph <file>', 'write the holders as a flame graph: .svg, else folded text')
    .option('--top <number>', 'entries of each list (default: 10 for people, all for --json)', countOption)
    .option('--no-advice', 'do not look for settings that help')
    .option('--salvage', 'of a damaged snapshot, use what can be read')
    .option('--json', 'print one JSON document on stdout')
    .option('-o, --output <file>', 'write the JSON document to a file')
    .addHelpText('after', HELP)
    .action((paths: string[], options: Options) => runAnalyze(paths, options));
}

function runAnalyze(paths: readonly string[], options: Options): void {
  const message = options.message === undefined ? null : readMessage(options.message);
  if (paths.length === 0 && message === null) {
    throw new ConfigError('a snapshot is missing, or the text of an error (--message)', { key: 'snapshot' });
  }
  const report = paths.length === 0 ? null : reportOn(paths, options);
  const document = message === null ? report : { ...report, message: messageDocument(message) };
  if (options.output !== undefined) writeFileSync(options.output, `${JSON.stringify(document)}\n`);
  if (options.flamegraph !== undefined) writeFlamegraph(report, options.flamegraph);
  if (options.json) return void process.stdout.write(`${JSON.stringify(document)}\n`);
  const parts = [
    ...(message === null ? [] : [renderMessage(message, judgeMessage(message))]),
    ...(report === null ? [] : [renderReport(report, options.top ?? 10)]),
  ];
  process.stdout.write(`${parts.join('\n\n')}\n`);
}

function reportOn(paths: readonly string[], options: Options): Report {
  const { at, request, capacity, stream, top, salvage = false, json } = options;
  const progress = startProgress('analyze');
  const reports = paths.map((path, i) => {
    progress.update(i, paths.length);
    return analyze(readSnapshot(path, { salvage }), {
      file: path,
      advise: options.advice,
      ...(at !== undefined && { at }),
      ...(request !== undefined && { request }),
      ...(capacity !== undefined && { capacity }),
      ...(stream !== undefined && { stream }),
      ...(json && top !== undefined && top > 0 && { top }),
    });
  });
  progress.stop();
  return mergeReports(reports);
}

function readMessage(text: string): OutOfMemoryMessage {
  const message = parseOutOfMemoryMessage(text);
  if (message === null) {
    throw new ConfigError(
      '--message: this is no text of an out-of-memory error ("CUDA out of memory. Tried to allocate ...")',
      {
        key: 'message',
      },
    );
  }
  return message;
}

function messageDocument(message: OutOfMemoryMessage): object {
  const { kind, shortBy, precision, fragmentation, sentence } = judgeMessage(message);
  return { kind, short_by: shortBy, precision, fragmentation, sentence };
}

function writeFlamegraph(report: Report | null, path: string): void {
  if (report === null) throw new ConfigError('--flamegraph: needs a snapshot', { key: 'flamegraph', value: path });
  const title = `${report.files.map((file) => basename(file)).join(', ')}: live bytes at the ${report.at.moment}`;
  writeFileSync(path, path.endsWith('.svg') ? flamegraphSvg(report.holders, title) : foldedStacks(report.holders));
}

// `cudalloc convert`: a snapshot in another format. Knows options, names and wording; the formats are under snapshot/ and analysis/.

import { type Command, Option } from 'commander';
import { openRecording, requestsOf } from '../../analysis/replay/snapshot-replay.js';
import { formatSnapshot, readSnapshot, SNAPSHOT_ENDINGS } from '../../snapshot/files.js';
import type { Snapshot } from '../../snapshot/model.js';
import { formatPerfettoTrace } from '../../snapshot/perfetto/perfetto.js';
import { formatTrace, type TraceComment } from '../../snapshot/trace.js';
import { countOption } from '../options.js';
import { outputOf, STDOUT, writeOutput } from '../output-file.js';
import { formatCount } from '../render/style.js';

const FORMATS = ['pickle', 'json', 'binary', 'trace', 'perfetto'] as const;
type Format = (typeof FORMATS)[number];

/** What the name of a file ends in where none is given. */
const ENDINGS: Readonly<Record<Format, string>> = {
  ...SNAPSHOT_ENDINGS,
  trace: '.trace.txt',
  perfetto: '.perfetto.json',
};

interface Options {
  readonly to: Format;
  readonly output?: string;
  readonly device?: number;
  readonly salvage?: boolean;
  readonly json?: boolean;
}

/** What was written. Snake case: it is printed as it is. */
interface Converted {
  readonly input: string;
  readonly output: string;
  readonly format: Format;
  readonly bytes: number;
  readonly devices: number;
  readonly events: number;
  readonly segments: number;
  readonly blocks: number;
  /** Why a part of the input is missing; null when it is whole. */
  readonly salvaged: string | null;
  /** Of a trace: what it says, and what it has no word for. Null for other formats. */
  readonly trace: TraceFigures | null;
}

interface TraceFigures {
  readonly device: number;
  readonly operations: number;
  readonly allocations: number;
  /** Blocks that were there before the first event; they are allocated first. */
  readonly blocks_before: number;
  /** Allocations in private pools, which a trace cannot say; they are in it as those of the default pool. */
  readonly in_private_pools: number;
  /** Frees of blocks that nothing allocated; left out. */
  readonly unknown_frees: number;
  /** The settings of the recording; a replay of the trace takes them with --conf. */
  readonly conf: string;
}

const HELP = `
pickle    what torch.cuda._memory_viz and PyTorch's memory viewer page read
json      our own: every value exactly, small, easy to read for programs
binary    our own: every value exactly, the smallest once compressed, and the quickest to open
trace     the requests, one operation a line, for replay and tune. Blocks that were there before the recording come first
perfetto  for ui.perfetto.dev and chrome://tracing: counters, and a slice for the life of each block and segment

Without -o the file is written beside the input, under its name with another ending; a file that is there already is not
replaced. -o - is standard output. A name ending in .gz makes it gzip.

Exit status: 0 done; 2 bad input.`;

export function register(program: Command): void {
  program
    .command('convert')
    .description('writes a snapshot in another format: pickle, JSON, binary, trace, Perfetto')
    .argument('<snapshot>', "PyTorch's pickle, or ours; plain or gzip")
    .addOption(new Option('--to <format>', 'what to write').choices(FORMATS).makeOptionMandatory())
    .option('-o, --output <file>', 'the file to write')
    .option('--device <number>', 'trace: whose events (default: the first device that has any)', countOption)
    .option('--salvage', 'of a damaged snapshot, use what can be read')
    .option('--json', 'print what was written as one JSON document on stdout')
    .addHelpText('after', HELP)
    .action((path: string, options: Options) => convert(path, options));
}

async function convert(input: string, options: Options): Promise<void> {
  const { to: format, salvage = false } = options;
  const output = outputOf(input, ENDINGS[format], options);
  const snapshot = readSnapshot(input, { salvage });
  const { pieces, trace } = contentOf(snapshot, options);
  const bytes = await writeOutput(pieces, output, { binary: format === 'pickle' || format === 'binary' });
  const { segments, deviceTraces, salvaged = null } = snapshot;
  const converted: Converted = {
    input,
    output,
    format,
    bytes,
    devices: deviceTraces.length,
    events: deviceTraces.reduce((sum, { length }) => sum + length, 0),
    segments: segments.length,
    blocks: segments.reduce((sum, { blocks }) => sum + blocks.length, 0),
    salvaged,
    trace,
  };
  const text = options.json ? `${JSON.stringify(converted)}\n` : `${render(converted)}\n`;
  (output === STDOUT ? process.stderr : process.stdout).write(text);
}

interface Content {
  readonly pieces: Iterable<string | Uint8Array>;
  readonly trace: TraceFigures | null;
}

function contentOf(snapshot: Snapshot, { to, device }: Options): Content {
  switch (to) {
    case 'pickle':
    case 'json':
    case 'binary':
      return { pieces: formatSnapshot(snapshot, to), trace: null };
    case 'perfetto':
      return { pieces: formatPerfettoTrace(snapshot), trace: null };
    case 'trace':
      return traceOf(snapshot, device);
  }
}

/** @throws UnsupportedError when the snapshot records no allocation */
function traceOf(snapshot: Snapshot, device: number | undefined): Content {
  const recording = openRecording(snapshot, device === undefined ? {} : { device });
  const requests = requestsOf(recording);
  const { trace, poolOf, unknownFrees } = requests;
  const figures: TraceFigures = {
    device: recording.device,
    operations: trace.ops,
    allocations: trace.allocations,
    blocks_before: recording.start.liveWithoutEvent,
    in_private_pools: poolOf.reduce((sum, pool) => sum + (pool === 0 ? 0 : 1), 0),
    unknown_frees: unknownFrees,
    conf: recording.conf,
  };
  const comments: TraceComment[] = headOf(figures).map((text) => ({ before: 0, text: `# ${text}` }));
  return { pieces: [formatTrace({ ...trace, comments: [...comments, ...trace.comments] })], trace: figures };
}

function headOf({ device, allocations, blocks_before, conf }: TraceFigures): string[] {
  return [
    `requests of device ${device} of a memory snapshot: ${allocations} allocations`,
    ...(blocks_before > 0 ? [`the first ${blocks_before} were there before the recording began`] : []),
    `recorded under the settings "${conf}"`,
  ];
}

function render({ output, format, bytes, events, segments, blocks, salvaged, trace }: Converted): string {
  const what =
    trace === null
      ? `${formatCount(events)} events, ${formatCount(segments)} segments, ${formatCount(blocks)} blocks`
      : `${formatCount(trace.operations)} operations, ${formatCount(trace.allocations)} allocations`;
  const where = output === STDOUT ? 'standard output' : output;
  const lines = [`${where}: ${format}, ${formatCount(bytes)} bytes; ${what}`];
  if (salvaged !== null) lines.push(`the input is not all there: ${salvaged}`);
  if (trace !== null) {
    if (trace.blocks_before > 0)
      lines.push(
        `${formatCount(trace.blocks_before)} blocks were there before the recording; they are allocated first`,
      );
    if (trace.in_private_pools > 0)
      lines.push(`${formatCount(trace.in_private_pools)} allocations were in private pools, which a trace cannot say`);
    if (trace.unknown_frees > 0)
      lines.push(`${formatCount(trace.unknown_frees)} frees of blocks that nothing allocated are left out`);
    if (trace.conf !== '') lines.push(`recorded under "${trace.conf}": give that to replay with --conf`);
  }
  return lines.join('\n');
}

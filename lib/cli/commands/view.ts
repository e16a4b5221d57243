// `cudalloc view`: snapshots as a page, or as pictures. Knows options, names and wording; what the page shows is viewer/.

import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { ConfigError } from '../../errors.js';
import { documentPieces, servedDocument } from '../../viewer/document.js';
import { type At, type FirstView, firstViewOf, formatFirstView } from '../../viewer/first-view.js';
import { countOption, momentOption } from '../options.js';
import { outputOf, STDOUT, writeOutput } from '../output-file.js';
import { startProgress } from '../render/progress.js';
import { formatCount } from '../render/style.js';
import { packed, readNamed, readPage, segmentsPicture, shownNames, timelinePicture } from '../view-files.js';
import { ViewServer } from '../view-server.js';

interface Options {
  readonly output?: string;
  readonly png?: string;
  readonly svg?: string;
  readonly at?: At;
  readonly device?: number;
  readonly width?: number;
  readonly height?: number;
  readonly serve?: boolean;
  readonly port?: number;
  readonly host?: string;
  readonly salvage?: boolean;
  readonly json?: boolean;
}

/** A file to write. */
interface Target {
  readonly kind: 'page' | 'timeline' | 'segments';
  readonly option: 'output' | 'png' | 'svg';
  readonly path: string;
}

type Content = Iterable<string | Uint8Array>;

/** Snake case: it is printed as it is. */
interface Written {
  readonly kind: Target['kind'];
  readonly file: string;
  readonly bytes: number;
}

const LOOPBACK = '127.0.0.1';
const MOST_PIXELS = 16_384;

const HELP = `
The page is one file with the snapshots inside it: it opens from disk in any browser, and nothing leaves the machine. Several snapshots
are compared in one page. Without -o the page is written beside the first snapshot as <name>.html; a file that is there already is not
replaced. -o - is standard output. Whoever is given the page is given the snapshots; redact makes copies without names and paths.

--png and --svg write pictures of one snapshot, for documents and logs; the page is then written only if -o names it.

--serve shows the same page at an address of this machine until it is interrupted (Ctrl+C). A file is read when the page asks for it:
reload the page to see a newer one. Only this machine can reach it, unless --host says otherwise.

Exit status: 0 done; 2 bad input.`;

export function register(program: Command): void {
  program
    .command('view')
    .description('a page that shows snapshots: timeline, map of the segments, holders, diagnosis; or pictures of them')
    .argument('<snapshot...>', "PyTorch's pickle, or ours; plain or gzip")
    .option('-o, --output <file>', 'the page to write')
    .option('--png <file>', 'write the timeline as a picture')
    .option('--svg <file>', 'write the map of the segments as a picture')
    .option(
      '--at <event>',
      'the moment of pictures, and what the page shows first: after this event, at the peak, at the last oom, or at the end (default)',
      momentOption,
    )
    .option('--device <number>', 'the device likewise (default: the first in the file)', countOption)
    .option('--width <pixels>', 'of pictures (default: 1600)', pixelsOption)
    .option('--height <pixels>', 'of pictures (default: 900)', pixelsOption)
    .option('--serve', 'show the page at an address of this machine; write nothing')
    .option('--port <number>', 'of that address (default: any that is free)', portOption)
    .option('--host <address>', `of that address (default: ${LOOPBACK})`)
    .option('--salvage', 'of a damaged snapshot, use what can be read')
    .option('--json', 'print what was written, or the address, as one JSON document on stdout')
    .addHelpText('after', HELP)
    .action((paths: string[], options: Options) => (options.serve ? serve(paths, options) : view(paths, options)));
}

function pixelsOption(text: string): number {
  const pixels = countOption(text);
  if (pixels < 1 || pixels > MOST_PIXELS) throw new InvalidArgumentError(`it is not from 1 to ${MOST_PIXELS}`);
  return pixels;
}

function portOption(text: string): number {
  const port = countOption(text);
  if (port > 65_535) throw new InvalidArgumentError('ports end at 65535');
  return port;
}

async function view(paths: readonly string[], options: Options): Promise<void> {
  refuse(['port', 'host'], options, 'it means nothing without --serve');
  const targets = targetsOf(paths, options);
  const page = targets.some(({ kind }) => kind === 'page') ? readPage() : null;
  const read = await readAll(paths, options, page !== null);
  // Whatever can fail is made before the first file is written.
  const contents = targets.map(({ kind }) => contentOf(kind, { page: page ?? '', paths, read, options }));
  const written: Written[] = [];
  for (const [i, target] of targets.entries())
    written.push({ kind: target.kind, file: target.path, bytes: await write(contents[i] ?? [], target) });
  const { salvaged } = read;
  const { device, moment: event } = read.firstView;
  const text = options.json
    ? JSON.stringify({ inputs: paths, device, event, salvaged, written })
    : render(written, paths, salvaged);
  (targets.some(({ path }) => path === STDOUT) ? process.stderr : process.stdout).write(`${text}\n`);
}

/** @throws ConfigError when a file would be written over another one of this call */
function targetsOf(paths: readonly string[], options: Options): Target[] {
  const { output, png, svg, json } = options;
  const pictures = png !== undefined || svg !== undefined;
  if (!pictures) refuse(['width', 'height'], options, 'it means nothing without --png or --svg');
  else if (paths.length > 1) refuse(['png', 'svg'], options, 'a picture shows one snapshot; the page compares several');
  const targets: Target[] = [
    ...(png === undefined ? [] : [{ kind: 'timeline', option: 'png', path: png } as const]),
    ...(svg === undefined ? [] : [{ kind: 'segments', option: 'svg', path: svg } as const]),
    ...(pictures && output === undefined
      ? []
      : [{ kind: 'page', option: 'output', path: outputOf(paths[0] ?? '', '.html', options) } as const]),
  ];
  targets.forEach(({ option, path }, i) => {
    if (path === STDOUT && json)
      throw refusal(option, '- is standard output, where --json prints its document; name a file');
    const before = targets.slice(0, i).find((other) => isSame(other.path, path));
    if (before !== undefined) throw refusal(option, `${path} is what --${before.option} writes; name another file`);
    if (paths.some((input) => isSame(input, path))) throw refusal(option, `${path} is the snapshot itself`);
  });
  return targets;
}

function isSame(a: string, b: string): boolean {
  return a === STDOUT || b === STDOUT ? a === b : resolve(a) === resolve(b);
}

interface Read {
  readonly firstView: FirstView;
  /** Of each file, as the page carries it; none without a page. */
  readonly embedded: readonly string[];
  /** Of each file: why a part of it is missing; null when it is whole. */
  readonly salvaged: readonly (string | null)[];
}

/** One file after the other, so that no more than one of them is in memory as a whole. */
async function readAll(paths: readonly string[], options: Options, forPage: boolean): Promise<Read> {
  const { at = 'end', device, salvage = false } = options;
  const progress = startProgress('view');
  const embedded: string[] = [];
  const salvaged: (string | null)[] = [];
  let firstView: FirstView | undefined;
  try {
    for (const [i, path] of paths.entries()) {
      progress.update(i, paths.length);
      const snapshot = readNamed(path, salvage);
      firstView ??= firstViewOf(snapshot, at, device);
      salvaged.push(snapshot.salvaged ?? null);
      if (forPage) embedded.push((await packed(snapshot)).toString('base64'));
    }
  } finally {
    progress.stop();
  }
  if (firstView === undefined) throw refusal('snapshot', 'a snapshot is missing');
  return { firstView, embedded, salvaged };
}

interface Sources {
  readonly page: string;
  readonly paths: readonly string[];
  readonly read: Read;
  readonly options: Options;
}

function contentOf(kind: Target['kind'], { page, paths, read, options: { width, height } }: Sources): Content {
  const names = shownNames(paths);
  const { firstView, embedded } = read;
  if (kind === 'page') {
    const snapshots = embedded.map((base64, i) => ({ name: names[i] ?? '', base64 }));
    return documentPieces(page, snapshots, { firstView: formatFirstView(firstView) });
  }
  const picture = {
    name: names[0] ?? '',
    ...(width !== undefined && { width }),
    ...(height !== undefined && { height }),
  };
  return [kind === 'timeline' ? timelinePicture(firstView, picture) : segmentsPicture(firstView, picture)];
}

/** The system's own words name a temporary file, which means nothing to anybody. */
async function write(content: Content, { path, option, kind }: Target): Promise<number> {
  try {
    return await writeOutput(content, path, { binary: kind === 'timeline' });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined || error instanceof ConfigError) throw error;
    throw refusal(option, `${path} can't be written: ${message.replace(/, \w+ '.*$/, '')}`);
  }
}

function render(written: readonly Written[], paths: readonly string[], salvaged: Read['salvaged']): string {
  const lines = written.map(({ kind, file, bytes }) => {
    const where = file === STDOUT ? 'standard output' : file;
    const of = kind === 'page' && paths.length > 1 ? ` of ${paths.length} snapshots` : '';
    return `${where}: ${kind}${of}, ${formatCount(bytes)} bytes`;
  });
  salvaged.forEach((why, i) => {
    if (why !== null) lines.push(`${paths[i]} is not all there: ${why}`);
  });
  return lines.join('\n');
}

async function serve(paths: readonly string[], options: Options): Promise<void> {
  refuse(['output', 'png', 'svg', 'width', 'height'], options, '--serve writes no file');
  const { at = 'end', device, salvage = false, host = LOOPBACK, port = 0, json = false } = options;
  const [first = ''] = paths;
  const page = readPage();
  for (const path of paths) statSync(path);
  const firstView =
    at === 'end' && device === undefined ? '' : formatFirstView(firstViewOf(readNamed(first, salvage), at, device));
  const served = servedDocument(page, shownNames(paths), { firstView });
  const server = await ViewServer.start({
    host,
    port,
    page: () => served,
    files: paths.map((path) => ({ path, read: async () => packed(readNamed(path, salvage)) })),
  });
  const ended = interrupted();
  const what = paths.length === 1 ? first : `${paths.length} snapshots`;
  const note = server.isOpenToOthers ? ' Whoever can reach this machine can read them.' : '';
  const text = json
    ? JSON.stringify({ url: server.url, inputs: paths })
    : `${server.url} shows ${what}.${note} Ctrl+C ends it.`;
  process.stdout.write(`${text}\n`);
  await ended;
  await server.close();
}

function interrupted(): Promise<void> {
  return new Promise((done) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => done());
  });
}

/** @throws ConfigError when one of the options is given */
function refuse(keys: readonly (keyof Options)[], options: Options, why: string): void {
  const given = keys.find((key) => options[key] !== undefined);
  if (given !== undefined) throw refusal(given, why);
}

function refusal(key: string, why: string): ConfigError {
  return new ConfigError(`--${key}: ${why}`, { key });
}

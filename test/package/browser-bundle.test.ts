// The pure folders (pages, allocator, snapshot without its files, analysis, viewer without its page, and the simulated device) run in a
// browser: they are bundled with nothing external and used in a context that has no Node globals.

import { readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import { build } from 'esbuild';
import { beforeAll, expect, test } from 'vitest';
import { analyze } from '../../lib/analysis/report/report.js';
import { formatPickleSnapshot } from '../../lib/snapshot/pickle/write-pickle.js';
import { smallSnapshot } from '../support/small-history.js';

const lib = join(import.meta.dirname, '..', '..', 'lib');

const FOLDERS = ['pages', 'allocator', 'snapshot', 'analysis', 'viewer'];
/** What the viewer draws and lays out with. */
const LIBRARIES = ['d3-hierarchy', 'fast-png', 'fflate', 'iobuffer', 'oled-font-5x7'];
/** What pure files share with others: errors, units, and what the devices have in common. */
const BESIDES = [
  'errors.ts',
  'units.ts',
  ...['check.ts', 'cuda-error.ts', 'driver-calls.ts', 'trim-listeners.ts', 'types.ts'].map((name) =>
    join('device', name),
  ),
];

/** At any depth; the page of the viewer has a bundle of its own. */
const filesOf = (folder: string): readonly string[] =>
  readdirSync(join(lib, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
    .map((name) => join(folder, name))
    .filter((name) => !name.startsWith(join('viewer', 'page', sep)));

const pure = [...FOLDERS.flatMap(filesOf), ...filesOf('device').filter((name) => name.includes(`${sep}sim`))].filter(
  (name) => name !== join('snapshot', 'files.ts'),
);

async function bundle(contents: string): Promise<{ code: string; inputs: readonly string[] }> {
  const result = await build({
    stdin: { contents, resolveDir: lib, loader: 'ts' },
    bundle: true,
    write: false,
    metafile: true,
    platform: 'browser',
    format: 'iife',
    globalName: 'cudalloc',
    target: 'es2022',
    logLevel: 'silent',
  });
  const inputs = Object.keys(result.metafile.inputs).filter((name) => name !== '<stdin>');
  return { code: result.outputFiles[0]!.text, inputs: inputs.map((name) => relative(lib, join(process.cwd(), name))) };
}

/** Files that export the same name are told apart: `allocator/block.ts` is `allocator_block`. */
const namespaceOf = (name: string): string => name.replace(/\.ts$/, '').replaceAll(/\W/g, '_');

let everything: Awaited<ReturnType<typeof bundle>>;
beforeAll(async () => {
  const specifier = (name: string) => `./${name.split(sep).join('/')}`;
  everything = await bundle(
    pure.map((name) => `export * as ${namespaceOf(name)} from '${specifier(name)}';`).join('\n'),
  );
});

/** What a browser offers and the code may use, beyond the language itself. No process, Buffer, require, setImmediate. */
const browserGlobals = () => ({ performance: { now: () => performance.now() }, TextDecoder, TextEncoder, console });

test('every pure file is in the bundle, with the libraries of the viewer, and nothing of the addon', () => {
  for (const folder of FOLDERS) expect(filesOf(folder)).not.toEqual([]);
  expect(new Set(pure.map(namespaceOf)).size).toBe(pure.length);
  expect(everything.inputs).toEqual(expect.arrayContaining(pure));
  const outside = everything.inputs.filter((name) => name.startsWith('..'));
  const libraries = outside.map((name) => name.split(sep).slice(1, 3).join('/'));
  expect([...new Set(libraries)].sort()).toEqual(LIBRARIES.map((name) => `node_modules/${name}`));
  // Whatever way a file is imported, an `import()` of a template too.
  const inside = everything.inputs.filter((name) => !name.startsWith('..'));
  expect(inside.filter((name) => !pure.includes(name)).sort()).toEqual([...BESIDES].sort());
});

test('a file with a Node import would not bundle', async () => {
  await expect(bundle("import 'node:fs';")).rejects.toThrow(/node:fs/);
});

test('the allocator runs there on the simulated device', () => {
  const context = createContext(browserGlobals());
  runInContext(everything.code, context);
  const result = runInContext(
    `(() => {
      const { SimDevice } = cudalloc.device_sim;
      const { CachingAllocator } = cudalloc.allocator_caching_allocator;
      const device = new SimDevice({ capacity: 64 * 1024 * 1024 });
      const allocator = new CachingAllocator({ device });
      const first = allocator.malloc(1000);
      const again = (allocator.free(first), allocator.malloc(1000));
      const stats = allocator.memoryStats();
      allocator.recordMemoryHistory({ maxEntries: 10, stacks: true });
      allocator.free(again);
      let code = '';
      try { allocator.malloc(128 * 1024 * 1024); } catch (error) { code = error.code; }
      const snapshot = allocator.memorySnapshot();
      // There are no files to dump to.
      let refused = '';
      try { new CachingAllocator({ device, dumpOnOutOfMemory: 'a.pickle' }); } catch (error) { refused = error.code; }
      return [first === again, stats['allocated_bytes.all.current'], code, snapshot.segments.length, refused];
    })()`,
    context,
  ) as readonly unknown[];
  expect([...result]).toEqual([true, 1024, 'ERR_CUDALLOC_OUT_OF_MEMORY', 0, 'ERR_CUDALLOC_UNSUPPORTED']);
});

test('a snapshot is read there, judged, replayed and drawn', () => {
  const context = createContext({
    ...browserGlobals(),
    bytes: Uint8Array.from(Buffer.concat([...formatPickleSnapshot(smallSnapshot())])),
  });
  runInContext(everything.code, context);
  const result = runInContext(
    `(() => {
      const { parseSnapshot } = cudalloc.snapshot_read_snapshot;
      const snapshot = parseSnapshot(bytes);
      const packed = [...cudalloc.snapshot_binary_write_binary.formatBinarySnapshot(snapshot)];
      const whole = new Uint8Array(packed.reduce((sum, { length }) => sum + length, 0));
      packed.reduce((at, piece) => (whole.set(piece, at), at + piece.length), 0);
      const history = cudalloc.viewer_device_history.deviceHistory(parseSnapshot(whole), 0);
      const report = cudalloc.analysis_report_report.analyze(snapshot, { file: 'small.pickle' });
      const png = cudalloc.viewer_pictures_timeline_png.timelinePng(history, { name: 'small', width: 400, height: 300 });
      const svg = cudalloc.viewer_segments_picture.segmentsSvg(history, history.peak, { name: 'small' });
      return [history.events, report.verdict.kind, String.fromCharCode(...png.subarray(1, 4)), svg.slice(0, 4)];
    })()`,
    context,
  ) as readonly unknown[];
  const { length } = smallSnapshot().deviceTraces[0]!;
  expect([...result]).toEqual([length, analyze(smallSnapshot()).verdict.kind, 'PNG', '<svg']);
});

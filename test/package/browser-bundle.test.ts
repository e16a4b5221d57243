// The pure folders (pages, allocator, snapshot without its files, analysis, and the simulated device) run in a browser:
// they are bundled with nothing external and used in a context that has no Node globals.

import { readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import { build } from 'esbuild';
import { beforeAll, expect, test } from 'vitest';

const lib = join(import.meta.dirname, '..', '..', 'lib');

const filesOf = (folder: string): readonly string[] =>
  readdirSync(join(lib, folder))
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name));

const pure = [
  ...['pages', 'allocator', 'snapshot', 'analysis'].flatMap(filesOf),
  ...filesOf('device').filter((name) => name.includes(`${sep}sim`)),
].filter((name) => name !== join('snapshot', 'files.ts'));

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

let everything: Awaited<ReturnType<typeof bundle>>;
beforeAll(async () => {
  const specifier = (name: string) => `./${name.split(sep).join('/')}`;
  everything = await bundle(pure.map((name) => `export * from '${specifier(name)}';`).join('\n'));
});

/** What a browser offers and the code may use, beyond the language itself. No process, Buffer, require, setImmediate. */
const browserGlobals = () => ({ performance: { now: () => performance.now() }, TextDecoder, TextEncoder, console });

test('every pure file is in the bundle, and nothing from outside lib or of the addon', () => {
  for (const folder of ['pages', 'allocator', 'snapshot', 'analysis']) expect(filesOf(folder)).not.toEqual([]);
  expect(everything.inputs).toEqual(expect.arrayContaining(pure));
  expect(everything.inputs.filter((name) => name.startsWith('..'))).toEqual([]);
  const impure = [join('device', 'native.ts'), join('device', 'open.ts'), join('snapshot', 'files.ts')];
  expect(everything.inputs.filter((name) => impure.includes(name))).toEqual([]);
});

test('a file with a Node import would not bundle', async () => {
  await expect(bundle("import 'node:fs';")).rejects.toThrow(/node:fs/);
});

test('the allocator runs there on the simulated device', () => {
  const context = createContext(browserGlobals());
  runInContext(everything.code, context);
  const result = runInContext(
    `(() => {
      const { SimDevice, CachingAllocator } = cudalloc;
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

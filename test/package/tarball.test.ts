// The package as a consumer gets it: packed, unpacked into a project of its own, used without the addon, then with the
// addon that `cudalloc build` makes there. Nothing outside the scratch folder is touched.

import { execFileSync, spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly scripts: Readonly<Record<string, string>>;
};
const scratch = mkdtempSync(join(tmpdir(), 'cudalloc-tarball-'));
const project = join(scratch, 'project');
const installed = join(project, 'node_modules', 'cudalloc');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

beforeAll(() => {
  execFileSync('npm', ['pack', '--ignore-scripts', '--pack-destination', scratch], { cwd: root, stdio: 'pipe' });
  const tarball = readdirSync(scratch).find((name) => name.endsWith('.tgz'))!;
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['-xzf', join(scratch, tarball), '-C', installed, '--strip-components=1']);
  // The dependencies as npm would place them, and cmake-js, which `build` otherwise fetches.
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (name === 'cudalloc') continue;
    symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name));
  }
  writeFileSync(join(project, 'package.json'), '{ "name": "consumer", "type": "module" }');
});

function node(code: string, ...flags: readonly string[]) {
  return spawnSync(process.execPath, [...flags, '--eval', code], { cwd: project, encoding: 'utf8' });
}

function cudalloc(...args: readonly string[]) {
  return spawnSync(process.execPath, [join(installed, 'dist', 'cli', 'main.js'), ...args], {
    cwd: project,
    encoding: 'utf8',
  });
}

test('holds what a consumer needs, and nothing else', () => {
  const names = readdirSync(installed, { recursive: true, encoding: 'utf8' });
  for (const name of [
    'dist/index.js',
    'dist/index.d.ts',
    'dist/cli/main.js',
    'dist/viewer/page.html',
    'binding.d.ts',
    'CMakeLists.txt',
    'README.md',
    'LICENSE',
    'CHANGELOG.md',
  ]) {
    expect(names).toContain(name);
  }
  const stray = /(^|\/)(test|bench|scripts|node_modules|build|\.ci)(\/|$)|\.tsbuildinfo$|^lib\//;
  expect(names.filter((name) => stray.test(name))).toEqual([]);
});

test('loads nothing but its dependencies', async () => {
  const entries = ['index.js', 'cli/main.js', 'cli/tune-worker.js'].map((name) => join(installed, 'dist', name));
  const { metafile } = await build({
    entryPoints: entries,
    outdir: join(scratch, 'bundle'),
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    write: false,
    metafile: true,
    logLevel: 'silent',
  });
  const loaded = Object.values(metafile.inputs).flatMap(({ imports }) => imports.filter(({ external }) => external));
  const packages = new Set(loaded.map(({ path }) => path).filter((path) => !path.startsWith('node:')));
  expect(packages).toContain('fast-png');
  expect([...packages].filter((name) => !Object.hasOwn(manifest.dependencies, name))).toEqual([]);
});

test('runs no script when it is installed', () => {
  for (const name of ['install', 'preinstall', 'postinstall']) expect(manifest.scripts).not.toHaveProperty(name);
});

test('without the addon: import and require work, the simulated device works, a real one names the command that mends it', () => {
  const code = (load: string) => `
    const { openDevice, CachingAllocator } = ${load};
    using_sim: {
      const device = openDevice({ backend: 'sim', capacity: 2 ** 30 });
      const allocator = new CachingAllocator({ device });
      allocator.free(allocator.malloc(1000));
    }
    try { openDevice({ backend: 'mock' }); } catch (error) { console.log(error.code, /npx cudalloc build/.test(error.message)); }`;
  for (const run of [
    node(code("await import('cudalloc')"), '--input-type=module'),
    node(code("require('cudalloc')"), '--input-type=commonjs'),
  ]) {
    expect(run.stderr).toBe('');
    expect(run.stdout).toBe('ERR_CUDALLOC_ADDON_MISSING true\n');
  }
});

test('without the addon: snapshots are written, on request and at an out of memory', () => {
  const run = node(
    `import { readFileSync } from 'node:fs';
     import { openDevice, CachingAllocator } from 'cudalloc';
     const device = openDevice({ backend: 'sim', capacity: 2 ** 30 });
     const allocator = new CachingAllocator({ device, dumpOnOutOfMemory: { path: 'oom-{n}.json' } });
     allocator.dumpSnapshot('now.pickle');
     try { allocator.malloc(2 ** 31); } catch (error) { console.log(error.details.snapshot); }
     console.log(['now.pickle', 'oom-1.json'].map((name) => readFileSync(name)[0]).join());`,
    '--input-type=module',
  );
  expect(run.stderr).toBe('');
  expect(run.stdout).toBe('oom-1.json\n128,123\n');
});

test('without the addon: a snapshot is shown, as a page and as pictures', () => {
  const files = ['now.html', 'now.png', 'now.svg'];
  const written = cudalloc('view', 'now.pickle', '-o', files[0]!, '--png', files[1]!, '--svg', files[2]!, '--json');
  expect(written.status, written.stderr).toBe(0);
  const report = JSON.parse(written.stdout) as { written: { file: string; bytes: number }[] };
  expect(report.written.map(({ file }) => file).sort()).toEqual(files);
  for (const { file, bytes } of report.written) expect(statSync(join(project, file)).size).toBe(bytes);
  const page = readFileSync(join(installed, 'dist', 'viewer', 'page.html'), 'utf8');
  expect(readFileSync(join(project, 'now.html'), 'utf8')).toContain(page.slice(page.indexOf('id="packed"')));
});

test('without the page: it says how to make it', () => {
  const page = join(installed, 'dist', 'viewer', 'page.html');
  renameSync(page, `${page}.away`);
  const run = cudalloc('view', 'now.pickle', '-o', 'other.html');
  renameSync(`${page}.away`, page);
  expect(run.status).toBe(2);
  expect(run.stderr).toMatch(
    /^cudalloc: the page of the viewer is missing \(.*page\.html\); build it with: npm run build\n$/,
  );
});

test('without the addon: doctor says so and exits 0', () => {
  const run = cudalloc('doctor', '--json');
  expect(run.status, run.stderr).toBe(0);
  const report = JSON.parse(run.stdout) as { features: Record<string, { works: boolean; reason: string }> };
  expect(Object.values(report.features).some(({ works, reason }) => !works && reason !== '')).toBe(true);
});

test('the types are usable with strict settings and without skipLibCheck', () => {
  writeFileSync(
    join(project, 'consumer.ts'),
    `import { CachingAllocator, openDevice, type Device, type DumpSnapshotOptions, type Snapshot } from 'cudalloc';
     const device: Device = openDevice({ backend: 'sim' });
     const allocator = new CachingAllocator({ device, dumpOnOutOfMemory: { path: 'oom-{n}.pickle', max: 2 } });
     export const address: number = allocator.malloc(1);
     export const snapshot: Snapshot = allocator.snapshot();
     const options: DumpSnapshotOptions = { format: 'json' };
     allocator.dumpSnapshot('now.json', options);
     // @ts-expect-error There is no such format.
     allocator.dumpSnapshot('now.json', { format: 'yaml' });
    `,
  );
  const compilerOptions = {
    target: 'es2022',
    module: 'nodenext',
    lib: ['es2023', 'esnext.disposable'],
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    types: ['node'],
  };
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['consumer.ts'] }));
  const run = spawnSync(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', project], {
    encoding: 'utf8',
  });
  expect(run.stdout).toBe('');
});

test('cudalloc build makes the addon from the sources in the package, and the mock works', () => {
  const built = cudalloc('build');
  expect(built.status, built.stderr).toBe(0);
  const run = node(
    `import { openDevice } from 'cudalloc';
     const device = openDevice({ backend: 'mock', capacity: 2 ** 30 });
     const address = device.malloc(4);
     const bytes = new Uint8Array(4);
     device.memcpyHtoD(address, new Uint8Array([1, 2, 3, 4]));
     device.memcpyDtoH(bytes, address);
     console.log(bytes.join());`,
    '--input-type=module',
  );
  expect(run.stderr).toBe('');
  expect(run.stdout).toBe('1,2,3,4\n');
});

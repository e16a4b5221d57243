// npm's `prepare`: builds the addon with cmake-js, compiles lib/ with tsc and bundles the viewer's page, each only when its sources are newer
// than what is there; silent when nothing is to be done. Needs no network. Must not know what is built, only from what and into what.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** @param {string[]} parts */
const at = (...parts) => join(root, ...parts);
const require = createRequire(import.meta.url);

/**
 * Ends with one sentence.
 *
 * @param {string} sentence
 * @returns {never}
 */
function fail(sentence) {
  console.error(`cudalloc: ${sentence}`);
  process.exit(1);
}

/** @param {string} path */
const modified = (path) => (existsSync(path) ? statSync(path).mtimeMs : 0);

/**
 * Time of the newest change below some files and folders; a folder changes when a file in it appears or goes.
 *
 * @param {string[]} paths
 * @param {string[]} skip
 */
function newest(paths, skip = []) {
  let time = 0;
  for (const path of paths) {
    if (!existsSync(path) || skip.includes(path)) continue;
    time = Math.max(time, modified(path));
    if (statSync(path).isDirectory()) {
      time = Math.max(
        time,
        newest(
          readdirSync(path).map((name) => join(path, name)),
          skip,
        ),
      );
    }
  }
  return time;
}

/**
 * The path of a command that an installed package brings.
 *
 * @param {string} packageName
 * @param {string} name
 */
function command(packageName, name) {
  try {
    const manifest = require.resolve(`${packageName}/package.json`);
    return join(dirname(manifest), require(manifest).bin[name]);
  } catch {
    return fail(`the package ${packageName} is not installed; run \`npm ci\` with the development dependencies.`);
  }
}

/**
 * Runs a command of an installed package; its output is shown only when it fails.
 *
 * @param {string} path
 * @param {string[]} args
 * @param {string} sentence
 */
function run(path, args, sentence) {
  const result = spawnSync(process.execPath, [path, ...args], { cwd: root, encoding: 'utf8' });
  if (result.status === 0) return;
  console.error(`${result.stdout ?? ''}${result.stderr ?? ''}`);
  fail(sentence);
}

/**
 * Output that is not rewritten when its content stays the same needs a note of when it was looked at.
 *
 * @param {string} stamp
 */
function remember(stamp) {
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, '');
}

function buildAddon() {
  // Elsewhere there is no CUDA that could be loaded; the simulated device and the tools work without the addon.
  if (process.platform !== 'linux') return;
  const addon = at('build', 'Release', 'cudalloc.node');
  const stamp = at('build', 'addon.stamp');
  const sources = newest([at('native'), at('CMakeLists.txt')], [at('native', 'test')]);
  if (existsSync(addon) && Math.max(modified(addon), modified(stamp)) >= sources) return;
  if (spawnSync('cmake', ['--version']).error) {
    fail('CMake was not found; install CMake 3.20 or newer and a C++17 compiler, then run `npm ci` again.');
  }
  const sentence = 'the addon could not be built (the output is above); it needs CMake 3.20 and a C++17 compiler.';
  run(command('cmake-js', 'cmake-js'), ['compile'], sentence);
  remember(stamp);
}

/** They are bundled, not compiled. */
const PAGE_SOURCES = join('viewer', 'page', '/');

/**
 * tsc leaves the outputs of sources that are gone, and they would be packed.
 *
 * @param {string[]} outputs
 */
function removeStale(outputs) {
  if (!existsSync(at('dist'))) return;
  const wanted = new Set(outputs.map((path) => path.replace(/\.js$/, '')));
  for (const name of readdirSync(at('dist'), { recursive: true, encoding: 'utf8' })) {
    const path = at('dist', name);
    if (/\.(js|d\.ts)(\.map)?$/.test(name) && !wanted.has(path.replace(/\.(js|d\.ts)(\.map)?$/, ''))) rmSync(path);
  }
}

function compileLibrary() {
  if (!existsSync(at('lib'))) return;
  const stamp = at('build', 'lib.stamp');
  const outputs = readdirSync(at('lib'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts') && !name.startsWith(PAGE_SOURCES))
    .map((name) => at('dist', name.replace(/\.ts$/, '.js')));
  removeStale(outputs);
  const complete = outputs.every((path) => existsSync(path));
  if (complete && modified(stamp) >= newest([at('lib'), at('tsconfig.json')])) return;
  // tsc looks at its notes, not at what is there.
  if (!complete) rmSync(at('build', 'tsconfig.tsbuildinfo'), { force: true });
  run(command('typescript', 'tsc'), ['-p', at('tsconfig.json')], 'lib/ does not compile (the errors are above).');
  remember(stamp);
}

function bundlePage() {
  const script = at('scripts', 'bundle-viewer.mjs');
  if (!existsSync(script)) return;
  // npm notes in it what it has installed: other libraries make another page.
  const installed = at('node_modules', '.package-lock.json');
  const sources = newest([at('lib'), script, at('tsconfig.json'), at('tsconfig.viewer.json'), installed]);
  if (modified(at('dist', 'viewer', 'page.html')) >= sources) return;
  run(script, [], "the viewer's page could not be bundled (the errors are above).");
}

buildAddon();
compileLibrary();
bundlePage();

// Bundles the viewer: program and style into one page, dist/viewer/page.html, with nothing outside it. Must not know snapshots.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, 'lib', 'viewer', 'page');
const target = join(root, 'dist', 'viewer', 'page.html');

/** @type {import('esbuild').BuildOptions} */
const options = {
  bundle: true,
  write: false,
  minify: true,
  platform: 'browser',
  target: ['chrome109', 'firefox115', 'safari16.4'],
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'silent',
};

/** Names of the packages in the bundle. @type {Set<string>} */
const libraries = new Set();

/** @param {string} entry */
async function bundle(entry) {
  const { outputFiles, metafile } = await build({
    ...options,
    metafile: true,
    entryPoints: [join(source, entry)],
    format: 'iife',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    alias: Object.fromEntries(
      ['d3-transition', 'd3-interpolate'].map((name) => [name, join(source, 'no-transitions.ts')]),
    ),
    tsconfig: join(root, 'tsconfig.viewer.json'),
  });
  for (const input of Object.keys(metafile.inputs)) {
    const [, name] = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input) ?? [];
    if (name !== undefined) libraries.add(name);
  }
  return outputFiles[0].text;
}

/** What the licences of the bundled libraries ask for: their text goes with every copy. */
function notices() {
  const texts = [...libraries].sort().map((name) => {
    const folder = join(root, 'node_modules', name);
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    if (file === undefined) throw new Error(`${name} has no licence that could go with the page`);
    return `${name}\n\n${readFileSync(join(folder, file), 'utf8').trim()}`;
  });
  const text = `The program contains these libraries.\n\n${texts.join('\n\n')}\n`;
  if (text.includes('--')) throw new Error('the licences would end the comment that they stand in');
  return `<!--\n${text}-->\n`;
}

/**
 * @param {string} page
 * @param {string} mark
 * @param {string} text
 */
function fill(page, mark, text) {
  if (page.split(mark).length !== 2) throw new Error(`the page has no place for ${mark}, or several`);
  return page.split(mark).join(text);
}

/** In the page: makes the program of its packed form. Workers are started with the text of the element `program`. */
const UNPACK = `(async () => {
  try {
    const packed = document.getElementById('packed');
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    packed.remove();
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    const program = document.createElement('script');
    program.id = 'program';
    program.textContent = await new Response(plain).text();
    document.body.append(program);
  } catch (error) {
    document.getElementById('page').textContent = 'This browser cannot open the page, it may be too old: ' + error;
  }
})();`;

/**
 * Half of its size: the page goes with every snapshot that is shared.
 *
 * @param {string} program
 */
function packed(program) {
  const base64 = gzipSync(program, { level: 9 }).toString('base64');
  return `<script type="application/octet-stream" id="packed">${base64}</script>\n<script>${UNPACK}</script>`;
}

const program = await bundle('main.tsx');
const style = await bundle('style.css');
if (/<\/style/i.test(style)) throw new Error('the style would end its element');
const styled = fill(readFileSync(join(source, 'page.html'), 'utf8'), '/*style*/', style.trim());
const page = fill(styled, '<script id="program">/*program*/</script>', packed(program.trim()));
mkdirSync(dirname(target), { recursive: true });
writeFileSync(
  target,
  page.replace('</body>', () => `${notices()}</body>`),
);

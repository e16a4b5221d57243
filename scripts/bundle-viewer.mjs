// Bundles the viewer: program and style into one page, dist/viewer/page.html, with nothing outside it. Must not know snapshots.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
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

/** @param {string} entry */
async function bundle(entry) {
  const { outputFiles } = await build({
    ...options,
    entryPoints: [join(source, entry)],
    format: 'iife',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    tsconfig: join(root, 'tsconfig.viewer.json'),
  });
  return outputFiles[0].text;
}

/**
 * @param {string} page
 * @param {string} mark
 * @param {string} text
 */
function fill(page, mark, text) {
  if (/<\/(script|style)/i.test(text)) throw new Error(`what goes in place of ${mark} would end its element`);
  return page.split(mark).join(text);
}

const program = await bundle('main.tsx');
const style = await bundle('style.css');
const page = fill(
  fill(readFileSync(join(source, 'page.html'), 'utf8'), '/*style*/', style.trim()),
  '/*program*/',
  program.trim(),
);
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, page);

// Makes the pictures of docs/images from the page itself: a made-up training run (bench/training-run.mjs), shown view by view in Chromium without
// a window. `node scripts/screenshots.mjs`, after `npm run build`. Must not know what a view consists of.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { trainingRun } from '../bench/training-run.mjs';
import { writeSnapshot } from '../dist/snapshot/files.js';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const images = join(root, 'docs', 'images');
const executablePath = [process.env.CHROMIUM_PATH, '/usr/bin/chromium', '/usr/bin/google-chrome'].find(
  (path) => path !== undefined && existsSync(path),
);

/** File, address, and what is waited for. */
const VIEWS = [
  { file: 'timeline.png', hash: 'view=timeline', ready: '#timeline' },
  { file: 'segments.png', hash: 'view=segments', ready: '#view canvas' },
  { file: 'holders.png', hash: 'view=holders', ready: '#view table' },
  { file: 'diagnosis.png', hash: 'view=diagnosis', ready: '#view[data-report=ready]' },
  { file: 'timeline-dark.png', hash: 'view=timeline&theme=dark&colouring=category', ready: '#timeline' },
];

if (executablePath === undefined) {
  console.error('The pictures need Chromium: install it, or name it with CHROMIUM_PATH.');
  process.exit(1);
}
const folder = mkdtempSync(join(tmpdir(), 'cudalloc-images-'));
const [pickle, html] = [join(folder, 'training.pickle'), join(folder, 'training.html')];
await writeSnapshot(trainingRun(), pickle);
const main = join(root, 'dist', 'cli', 'main.js');
/** @param {string[]} args */
function cli(...args) {
  const { status, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}
mkdirSync(images, { recursive: true });
cli('view', pickle, '-o', html);
cli('view', pickle, '--png', join(images, 'timeline-picture.png'), '--svg', join(images, 'segments-picture.svg'));
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
for (const { file, hash, ready } of VIEWS) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  await page.goto(`file://${html}#${hash}`);
  await page.waitForSelector(ready, { timeout: 60_000 });
  await page.waitForFunction(
    () => document.querySelector('#view')?.getAttribute('data-report') === 'ready',
    undefined,
    {
      timeout: 60_000,
    },
  );
  // What changes with the report is drawn in the frames after it.
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(images, file) });
  await page.close();
  console.log(`docs/images/${file}`);
}
await browser.close();
rmSync(folder, { recursive: true });

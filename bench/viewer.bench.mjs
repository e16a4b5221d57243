// How long the page takes until it shows a snapshot of a million events, and how smoothly it moves: Chromium without a window and without
// a GPU, so that everything is drawn by the processor. Frames are the times between two pictures while the wheel turns, the picture is dragged,
// and the moment is moved along the segments.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { writeSnapshot } from '../dist/snapshot/files.js';
import { machine, SMOKE } from './support.mjs';
import { trainingRun } from './training-run.mjs';

const EVENTS = SMOKE ? 5000 : 1_000_000;
const FRAMES = SMOKE ? 10 : 120;
const SIZE = { width: 1600, height: 900 };
const executablePath = [process.env.CHROMIUM_PATH, '/usr/bin/chromium', '/usr/bin/google-chrome'].find(
  (path) => path !== undefined && existsSync(path),
);

/** Share of sorted values that are not above the result. */
const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

/** In the page: does `act` once a frame, and takes the times between frames and those of drawing. */
async function frames(page, { element, act, count }) {
  const times = await page.evaluate(
    async ([selector, body, n]) => {
      const canvas = document.querySelector(selector);
      const step = new Function('canvas', 'i', 'n', body);
      const taken = [];
      let last = performance.now();
      for (let i = 0; i < n; i++) {
        step(canvas, i, n);
        // The frame that this leads to has been drawn when a task after it runs.
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        const now = performance.now();
        taken.push(now - last);
        last = now;
      }
      return taken;
    },
    [element, act, count],
  );
  return times.slice(2).sort((a, b) => a - b);
}

function report(name, sorted) {
  const late = sorted.filter((time) => time > 33).length;
  const cell = (share) => quantile(sorted, share).toFixed(1).padStart(6);
  console.log(
    `  ${name.padEnd(34)} median ${cell(0.5)} ms, 95 % ${cell(0.95)} ms, longest ${cell(1)} ms; ${late} of ${sorted.length} over 33 ms`,
  );
}

const WHEEL = `
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: i < n / 2 ? -60 : 60, clientX: box.left + box.width * 0.6,
    clientY: box.top + box.height / 2, bubbles: true, cancelable: true }));`;
const DRAG = `
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2 + 300 * Math.sin((6 * i) / n), clientY: box.top + box.height / 2, bubbles: true, cancelable: true, view: window };
  if (i === 0) canvas.dispatchEvent(new MouseEvent('mousedown', at));
  window.dispatchEvent(new MouseEvent(i === n - 1 ? 'mouseup' : 'mousemove', at));`;
const HEIGHT = `
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: i < n / 2 ? -40 : 40, shiftKey: true, clientX: box.left + box.width * 0.6,
    clientY: box.top + box.height * 0.9, bubbles: true, cancelable: true }));`;

const SCRUB = `
  canvas.value = String(Math.floor((Number(canvas.max) * i) / n));
  canvas.dispatchEvent(new Event('input', { bubbles: true }));`;

async function measure(html, bytes) {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const page = await browser.newPage({ viewport: SIZE });
    await page.goto(`file://${html}`);
    await page.waitForFunction(() => 'drawn' in (document.querySelector('#timeline') ?? {}));
    const first = await page.evaluate(() => performance.now());
    console.log(
      `  page with the snapshot: ${(bytes / 1e6).toFixed(1)} MB; first picture after ${(first / 1000).toFixed(2)} s`,
    );
    // What the worker does in the meantime takes the other core; it is part of what people see.
    report('wheel, the worker still at work', await frames(page, { element: '#timeline', act: WHEEL, count: FRAMES }));
    await page.waitForFunction(
      () => document.querySelector('#view')?.getAttribute('data-report') === 'ready',
      undefined,
      {
        timeout: 120_000,
      },
    );
    report('wheel', await frames(page, { element: '#timeline', act: WHEEL, count: FRAMES }));
    await page.keyboard.press('+');
    await page.keyboard.press('+');
    report('drag', await frames(page, { element: '#timeline', act: DRAG, count: FRAMES }));
    report('wheel with Shift (height)', await frames(page, { element: '#timeline', act: HEIGHT, count: FRAMES }));
    await page.keyboard.press('2');
    await page.waitForSelector('#segments');
    report('moment moved along the segments', await frames(page, { element: '#scrub', act: SCRUB, count: FRAMES }));
    await page.keyboard.press('3');
    await page.waitForSelector('#flame g');
    report('moment moved along the holders', await frames(page, { element: '#scrub', act: SCRUB, count: FRAMES }));
  } finally {
    await browser.close();
  }
}

if (executablePath === undefined) console.log('viewer: there is no browser here, nothing was measured');
else {
  const folder = mkdtempSync(join(tmpdir(), 'cudalloc-bench-'));
  try {
    const [pickle, html] = [join(folder, 'run.pickle'), join(folder, 'run.html')];
    const snapshot = trainingRun({ events: EVENTS });
    await writeSnapshot(snapshot, pickle);
    const main = join(import.meta.dirname, '..', 'dist', 'cli', 'main.js');
    const { status, stderr } = spawnSync(process.execPath, [main, 'view', pickle, '-o', html], { encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
    console.log(`${machine()}; drawn without a GPU, ${SIZE.width} x ${SIZE.height}`);
    console.log(`${snapshot.deviceTraces[0].length} events, ${snapshot.segments.length} segments at the end`);
    await measure(html, statSync(html).size);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

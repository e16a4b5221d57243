// The timeline in a browser: what is drawn and what it says are the numbers of the snapshot.

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '../../lib/allocator/config-parser.js';
import { lifetimesOf } from '../../lib/analysis/recording/lifetimes.js';
import { recordedConf } from '../../lib/analysis/recording/recorded-config.js';
import { analyze } from '../../lib/analysis/report/report.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import type { DrawnCanvas } from '../../lib/viewer/page/timeline-canvas.js';
import { dataNumber, hasBrowser, type OpenPage, TestBrowser } from '../support/browser.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';

const TRAINING = SHARED_SNAPSHOTS.find(({ name }) => name === 'cuda-training-fragmented.pickle');

let browser: TestBrowser;
beforeAll(async () => {
  if (hasBrowser) browser = await TestBrowser.start();
});
afterAll(() => browser?.close());

/** What the canvas says it has drawn, once it has drawn what it was told last. */
async function drawn({ page }: OpenPage) {
  await page.waitForFunction(() => (document.querySelector('#timeline') as DrawnCanvas | null)?.drawn !== undefined);
  // Two frames: one that takes in a change, one that draws it.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  return page.evaluate(() => {
    const { raster, active, reserved, heights, axis } = (document.querySelector('#timeline') as DrawnCanvas).drawn!;
    return {
      width: raster.width,
      height: raster.height,
      moments: [...raster.moments],
      bytes: [...raster.drawn],
      active: [...active],
      reserved: [...reserved],
      heights,
      span: axis.span,
    };
  });
}

/** Places in the middle of bands that are high enough to be hit, in some columns. */
function bandsOf({ page }: OpenPage): Promise<{ readonly x: number; readonly y: number }[]> {
  return page.evaluate(() => {
    const { raster } = (document.querySelector('#timeline') as DrawnCanvas).drawn!;
    const places: { x: number; y: number }[] = [];
    for (const x of [200, 300, 500]) {
      let begin = 0;
      for (let y = 1; y <= raster.height; y++) {
        // Without the flag of the edge.
        if ((raster.at(x, y) & ~0x20000000) === (raster.at(x, begin) & ~0x20000000)) continue;
        const id = raster.at(x, begin);
        if (y - begin >= 5 && id !== 0 && (id & 0x40000000) === 0) places.push({ x, y: (begin + y) >> 1 });
        begin = y;
      }
    }
    return places.slice(0, 12);
  });
}

/** A place on the picture in pixels of the window, from its own: `y` from the bottom. */
async function placeOf({ page }: OpenPage, x: number, y: number): Promise<readonly [number, number]> {
  const box = (await page.locator('#timeline').boundingBox())!;
  return [box.x + 76 + x + 0.5, box.y + box.height - 24 - y - 0.5];
}

describe.skipIf(!hasBrowser).each(SHARED_SNAPSHOTS)('$name (needs a browser)', ({ path }) => {
  test('is drawn: active bytes in bands and sums, no more than what is reserved, at every column', async () => {
    const open = await browser.open([path]);
    const { active, bytes, moments, reserved, width } = await drawn(open);
    const snapshot = readSnapshot(path);
    const lifetimes = lifetimesOf(snapshot, 0, parseConfig(recordedConf(snapshot)));
    expect(width).toBeGreaterThan(500);
    expect(moments).toHaveLength(width);
    moments.forEach((moment, x) => {
      expect(bytes[x]).toBe(lifetimes.active[moment + 1]);
      expect(active[x]).toBe(lifetimes.active[moment + 1]);
      expect(reserved[x]).toBe(lifetimes.reserved[moment + 1]);
      expect(active[x]).toBeLessThanOrEqual(reserved[x]!);
    });
    const [report] = analyze(snapshot, { advise: false }).devices;
    if (report!.peak !== null) expect(Math.max(...active)).toBeGreaterThanOrEqual(report!.peak.allocated);
    if (report!.capacity !== null) expect(Math.max(...reserved)).toBeLessThanOrEqual(report!.capacity);
    expect(open.faults).toEqual([]);
  });

  test('has the end and the peak of `analyze` in its table', async () => {
    const open = await browser.open([path]);
    await drawn(open);
    const [report] = analyze(readSnapshot(path), { advise: false }).devices;
    const row = (name: string) => `#moments tr[data-name="${name}"]`;
    expect(await dataNumber(open.page, `${row('end')} td:nth-child(3)`, 'bytes')).toBe(report!.allocated);
    expect(await dataNumber(open.page, `${row('end')} td:nth-child(4)`, 'bytes')).toBe(report!.active);
    expect(await dataNumber(open.page, `${row('end')} td:nth-child(5)`, 'bytes')).toBe(report!.reserved);
    if (report!.peak !== null) {
      expect(await dataNumber(open.page, `${row('peak')}`, 'moment')).toBe(report!.peak.event);
      expect(await dataNumber(open.page, `${row('peak')} td:nth-child(3)`, 'bytes')).toBe(report!.peak.allocated);
    }
    expect(open.faults).toEqual([]);
  });
});

describe.skipIf(!hasBrowser || TRAINING === undefined)('the real training run (needs a browser)', () => {
  const { path } = TRAINING ?? { path: '' };
  const lifetimes = () => {
    const snapshot = readSnapshot(path);
    return { snapshot, blocks: lifetimesOf(snapshot, 0, parseConfig(recordedConf(snapshot))).blocks };
  };

  test('hover and click give the numbers of the block that is there', async () => {
    const open = await browser.open([path]);
    const { page } = open;
    await drawn(open);
    const { blocks, snapshot } = lifetimes();
    const places = await bandsOf(open);
    expect(places.length).toBeGreaterThan(3);
    for (const { x, y } of places) {
      await page.mouse.move(...(await placeOf(open, x, y)));
      await page.waitForSelector('#pointed-block');
      await drawn(open);
      const moment = await dataNumber(page, '#pointed-moment', 'moment');
      const row = await dataNumber(page, '#pointed-block', 'row');
      expect(await dataNumber(page, '#pointed-block', 'address')).toBe(blocks.addresses[row]);
      expect(await dataNumber(page, '#pointed-block', 'size')).toBe(blocks.sizes[row]);
      expect(blocks.starts[row]).toBeLessThanOrEqual(moment);
      expect(moment).toBeLessThan(blocks.ends[row]!);
      await page.mouse.click(...(await placeOf(open, x, y)));
      await page.waitForSelector(`#pinned[data-row="${row}"]`);
      expect(await dataNumber(page, '#pinned', 'size')).toBe(blocks.sizes[row]);
      const frames = snapshot.stacks.frames(blocks.stacks[row]!);
      expect(await page.locator('#pinned .stack li').count()).toBe(frames.length);
      if (frames.length > 0)
        expect(await page.locator('#pinned .stack li').first().textContent()).toContain(frames[0]!.name);
    }
    expect(open.faults).toEqual([]);
  });

  test('the sums of a search are those of the holders that match', async () => {
    const open = await browser.open([path]);
    const { page } = open;
    await drawn(open);
    const reports = {
      end: analyze(readSnapshot(path), { advise: false }),
      peak: analyze(readSnapshot(path), { advise: false, at: 'peak' }),
    };
    for (const text of ['forward', 'OPTIM', 'nn_utils.py:6', 'no such thing']) {
      await page.fill('#search', text);
      await page.waitForFunction(
        (wanted) => (document.querySelector('#search') as HTMLInputElement).value === wanted,
        text,
      );
      await drawn(open);
      const sum = (at: 'end' | 'peak') => {
        const matching = reports[at].holders.filter(({ frames }) =>
          frames.some(({ name, filename, line }) =>
            `${name} ${filename}:${line}`.toLowerCase().includes(text.toLowerCase()),
          ),
        );
        return [
          matching.reduce((all, { bytes }) => all + bytes, 0),
          matching.reduce((all, { count }) => all + count, 0),
        ];
      };
      expect([await dataNumber(page, '#sums', 'bytes'), await dataNumber(page, '#sums', 'count')]).toEqual(sum('end'));
      expect([await dataNumber(page, '#sums', 'peak-bytes'), await dataNumber(page, '#sums', 'peak-count')]).toEqual(
        sum('peak'),
      );
    }
    expect(open.faults).toEqual([]);
  });

  test('the wheel zooms around the pointer, a drag moves, and the address keeps both', async () => {
    const open = await browser.open([path]);
    const { page } = open;
    const before = await drawn(open);
    await page.mouse.move(...(await placeOf(open, before.width / 2, 50)));
    for (let i = 0; i < 5; i++) await page.mouse.wheel(0, -200);
    const closer = await drawn(open);
    expect(closer.span.to - closer.span.from).toBeLessThan((before.span.to - before.span.from) / 2);
    expect((closer.span.to + closer.span.from) / 2).toBeCloseTo((before.span.to + before.span.from) / 2, -2);
    await page.mouse.down();
    await page.mouse.move(...(await placeOf(open, before.width / 2 - 100, 50)), { steps: 5 });
    await page.mouse.up();
    const moved = await drawn(open);
    const events = ((closer.span.to - closer.span.from) * 100) / closer.width;
    expect(moved.span.from - closer.span.from).toBeCloseTo(events, -1);
    await page.waitForFunction(() => location.hash.includes('from='));
    const again = await browser.openAddress(page.url());
    expect((await drawn(again)).span).toEqual(moved.span);
    expect([...open.faults, ...again.faults]).toEqual([]);
  });

  test('keys move the cursor and zoom', async () => {
    const open = await browser.open([path]);
    const { page } = open;
    await drawn(open);
    const cursor = () => dataNumber(page, '#moments tr[data-name="cursor"]', 'moment');
    const report = analyze(readSnapshot(path), { advise: false }).devices[0]!;
    await page.keyboard.press('p');
    await page.waitForFunction(
      (event) => document.querySelector(`#moments tr:last-child[data-moment="${event}"]`) !== null,
      report.peak!.event,
    );
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowLeft');
    await page.waitForTimeout(100);
    expect(await cursor()).toBe(report.peak!.event + 1);
    const before = await drawn(open);
    await page.keyboard.press('+');
    const after = await drawn(open);
    expect(after.span.to - after.span.from).toBeCloseTo((before.span.to - before.span.from) / 2, 3);
    await page.keyboard.press('0');
    expect((await drawn(open)).span).toEqual(before.span);
    await page.keyboard.press('Home');
    await page.waitForTimeout(100);
    expect(await cursor()).toBe(-1);
    expect(open.faults).toEqual([]);
  });

  test('keys right after the wheel do not disturb it', async () => {
    const open = await browser.open([path]);
    const whole = await drawn(open);
    await open.page.mouse.move(...(await placeOf(open, whole.width / 2, 50)));
    for (const turn of [-200, -200, 200, 200]) await open.page.mouse.wheel(0, turn);
    await open.page.keyboard.press('+');
    await open.page.keyboard.press('+');
    const { span } = await drawn(open);
    expect(span.to - span.from).toBeCloseTo((whole.span.to - whole.span.from) / 4, -1);
    await open.page.mouse.wheel(0, -100);
    const closer = await drawn(open);
    expect(closer.span.to - closer.span.from).toBeLessThan(span.to - span.from);
    expect(open.faults).toEqual([]);
  });

  test('along time every column shows a moment of its time', async () => {
    const open = await browser.open([path], 'axis=time');
    const { active, bytes, moments } = await drawn(open);
    const { snapshot } = lifetimes();
    const all = lifetimesOf(snapshot, 0, parseConfig(recordedConf(snapshot)));
    moments.forEach((moment, x) => {
      expect(moment).toBeGreaterThanOrEqual(moments[x - 1] ?? -1);
      expect(bytes[x]).toBe(active[x]);
      expect(active[x]).toBe(all.active[moment + 1]);
    });
    // Idle time takes room that events do not.
    const byEvents = await drawn(await browser.open([path]));
    expect(moments).not.toEqual(byEvents.moments);
    expect(open.faults).toEqual([]);
  });
});

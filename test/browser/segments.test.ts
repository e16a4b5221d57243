// The address map in a browser: its sums are those of the report, and what is under the pointer is what is there.

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '../../lib/allocator/config-parser.js';
import { lifetimesOf } from '../../lib/analysis/recording/lifetimes.js';
import { recordedConf } from '../../lib/analysis/recording/recorded-config.js';
import { analyze } from '../../lib/analysis/report/report.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import type { DrawnMap } from '../../lib/viewer/page/segments-canvas.js';
import { dataNumber, hasBrowser, type OpenPage, TestBrowser } from '../support/browser.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';

const TRAINING = SHARED_SNAPSHOTS.find(({ name }) => name === 'cuda-training-fragmented.pickle');

let browser: TestBrowser;
beforeAll(async () => {
  if (hasBrowser) browser = await TestBrowser.start();
});
afterAll(() => browser?.close());

async function drawn({ page }: OpenPage) {
  await page.waitForFunction(() => (document.querySelector('#segments') as DrawnMap | null)?.drawn !== undefined);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  return page.evaluate(() => {
    const { raster, map } = (document.querySelector('#segments') as DrawnMap).drawn!;
    const kinds: Record<string, number> = { unmapped: 0 };
    for (const id of raster.ids) {
      if (id === -1) kinds.unmapped = (kinds.unmapped ?? 0) + 1;
      else if (id > 0) {
        const { kind } = map.runs[id - 1]!;
        kinds[kind] = (kinds[kind] ?? 0) + 1;
      }
    }
    return {
      sums: { ...map.sums },
      segments: map.segments.length,
      pixels: kinds,
      bytesPerPixel: raster.layout.bytesPerPixel,
    };
  });
}

const kindsOf = async ({ page }: OpenPage) =>
  Object.fromEntries(
    await Promise.all(
      ['allocated', 'pending', 'stuck', 'wholly_free', 'reserved'].map(
        async (kind) => [kind, await dataNumber(page, `#segments-${kind}`, 'bytes')] as const,
      ),
    ),
  );

describe.skipIf(!hasBrowser).each(SHARED_SNAPSHOTS)('$name (needs a browser)', ({ path }) => {
  test('is drawn to scale, with the sums of `analyze`', async () => {
    const open = await browser.open([path], 'view=segments');
    const { segments, pixels, bytesPerPixel } = await drawn(open);
    const report = analyze(readSnapshot(path), { advise: false }).devices[0]!;
    expect(segments).toBe(report.segments);
    expect(await kindsOf(open)).toEqual({
      allocated: report.allocated,
      pending: report.gap.pending,
      // Without a request that decides what is usable, memory of other streams is stuck or wholly free like any other.
      stuck: expect.any(Number),
      wholly_free: expect.any(Number),
      reserved: report.reserved,
    });
    // Each run and each extent may round by a pixel at its ends.
    expect(Math.abs((pixels.allocated ?? 0) * bytesPerPixel - report.allocated)).toBeLessThan(0.05 * report.reserved);
    expect(open.faults).toEqual([]);
  });
});

describe.skipIf(!hasBrowser || TRAINING === undefined)('the real training run (needs a browser)', () => {
  const { path } = TRAINING ?? { path: '' };

  test('scrubbing shows the state after any event', async () => {
    const open = await browser.open([path], 'view=segments');
    await drawn(open);
    const snapshot = readSnapshot(path);
    const { allocated, active, reserved, events } = lifetimesOf(snapshot, 0, parseConfig(recordedConf(snapshot)));
    for (const event of [-1, 0, 777, 3737, 12_900, events - 1]) {
      await open.page.locator('#scrub').fill(String(event));
      await open.page.waitForSelector(`#scrub-moment[data-moment="${event}"]`);
      const { sums } = await drawn(open);
      expect(sums.allocated).toBe(allocated[event + 1]);
      expect(sums.allocated + sums.pending).toBe(active[event + 1]);
      expect(sums.allocated + sums.pending + sums.stuck + sums.wholly_free).toBe(reserved[event + 1]);
      expect((await kindsOf(open)).allocated).toBe(allocated[event + 1]);
    }
    expect(open.faults).toEqual([]);
  });

  test('hover names the block or the hole that is there, and click pins it', async () => {
    const open = await browser.open([path], 'view=segments&cursor=3737');
    const { page } = open;
    await drawn(open);
    const snapshot = readSnapshot(path);
    const { blocks } = lifetimesOf(snapshot, 0, parseConfig(recordedConf(snapshot)));
    const places = await page.evaluate(() => {
      const { raster, map } = (document.querySelector('#segments') as DrawnMap).drawn!;
      const { width } = raster.layout;
      const found: { x: number; y: number; row: number; address: number; size: number }[] = [];
      for (let at = 50; at < raster.ids.length && found.length < 12; at += 97) {
        const id = raster.ids[at]!;
        if (id < 1 || raster.ids[at - 3] !== id || raster.ids[at + 3] !== id) continue;
        const { row, address, size } = map.runs[id - 1]!;
        const line = Math.floor(at / width);
        if (at % width > 5 && at % width < width - 5)
          found.push({ x: at - line * width, y: line * 20 + 7, row, address, size });
      }
      return found;
    });
    expect(places.some(({ row }) => row >= 0)).toBe(true);
    for (const { x, y, row, address, size } of places) {
      await page.locator('#segments').hover({ position: { x: x + 0.5, y } });
      const pointed = row >= 0 ? '#pointed-run' : '#pointed-hole';
      await page.waitForSelector(`${pointed}[data-address="${address}"]`);
      expect(await dataNumber(page, pointed, 'size')).toBe(size);
      if (row >= 0) expect(blocks.addresses[row]).toBe(address);
      await page.locator('#segments').click({ position: { x: x + 0.5, y } });
      await page.waitForSelector(row >= 0 ? `#pinned[data-row="${row}"]` : '#hole');
    }
    expect(open.faults).toEqual([]);
  });

  test('play moves on to the end', async () => {
    const open = await browser.open([path], 'view=segments&cursor=0');
    await drawn(open);
    await open.page.locator('#play-seconds').selectOption('8');
    await open.page.locator('#play').click();
    await open.page.waitForTimeout(700);
    const between = await dataNumber(open.page, '#scrub-moment', 'moment');
    expect(between).toBeGreaterThan(300);
    await open.page.locator('#play').click();
    await open.page.waitForSelector('#play[aria-pressed=false]');
    await drawn(open);
    const paused = await dataNumber(open.page, '#scrub-moment', 'moment');
    await open.page.waitForTimeout(300);
    expect(await dataNumber(open.page, '#scrub-moment', 'moment')).toBe(paused);
    expect(open.faults).toEqual([]);
  });

  test('points out what is asked for, and zooms', async () => {
    const open = await browser.open([path], 'view=segments&highlight=stuck');
    await drawn(open);
    const stuck = () =>
      open.page.evaluate(() => {
        const canvas = document.querySelector('#segments') as DrawnMap;
        const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
        const colours = new Set<number>();
        for (let i = 0; i < data.length; i += 4) colours.add((data[i]! << 16) | (data[i + 1]! << 8) | data[i + 2]!);
        return colours.size;
      });
    // Background, not reserved, dimmed and stuck.
    expect(await stuck()).toBeLessThanOrEqual(4);
    await open.page.locator('#segments-highlight').selectOption('');
    await drawn(open);
    expect(await stuck()).toBeGreaterThan(6);
    const before = await drawn(open);
    await open.page.locator('#segments-zoom').fill('2');
    expect((await drawn(open)).bytesPerPixel).toBeCloseTo(before.bytesPerPixel / 4, 0);
    // The test itself reads pixels back, which is slow.
    expect(open.faults.filter((fault) => !fault.includes('willReadFrequently'))).toEqual([]);
  });

  test('a stream or pool shows only its segments', async () => {
    const open = await browser.open([path], 'view=segments&pool=small');
    const { pixels, bytesPerPixel } = await drawn(open);
    const small = readSnapshot(path).segments.filter(({ segmentType }) => segmentType === 'small');
    const bytes = small.reduce((sum, { totalSize }) => sum + totalSize, 0);
    const drawnBytes = Object.values(pixels).reduce((sum, count) => sum + count, 0) * bytesPerPixel;
    expect(drawnBytes).toBeGreaterThanOrEqual(0.98 * bytes);
    // Segments that are not reserved at the end are on the map too.
    expect(drawnBytes).toBeLessThan(2 * bytes);
    expect(open.faults).toEqual([]);
  });
});

// Flame graph and table in a browser: their sums are those of the report and of `diff`.

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { diffSnapshots } from '../../lib/analysis/report/diff.js';
import { analyze } from '../../lib/analysis/report/report.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { dataNumber, hasBrowser, TestBrowser } from '../support/browser.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';

const pathOf = (name: string): string => SHARED_SNAPSHOTS.find((one) => one.name === name)?.path ?? '';
const TRAINING = pathOf('cuda-training-fragmented.pickle');

let browser: TestBrowser;
beforeAll(async () => {
  if (hasBrowser) browser = await TestBrowser.start();
});
afterAll(() => browser?.close());

describe.skipIf(!hasBrowser).each(SHARED_SNAPSHOTS)('$name (needs a browser)', ({ path }) => {
  test('the table and the flame graph have the bytes of `analyze`', async () => {
    const open = await browser.open([path], 'view=holders');
    await open.page.waitForSelector('#holders-table tbody tr');
    const { holders } = analyze(readSnapshot(path), { advise: false });
    const bytes = holders.filter(({ device }) => device === 0).reduce((sum, holder) => sum + holder.bytes, 0);
    const count = holders.filter(({ device }) => device === 0).reduce((sum, holder) => sum + holder.count, 0);
    expect(await dataNumber(open.page, '#holders-sum', 'bytes')).toBe(bytes);
    expect(await dataNumber(open.page, '#holders-sum', 'count')).toBe(count);
    expect(await dataNumber(open.page, '#flame', 'bytes')).toBe(bytes);
    const rows = await open.page
      .locator('#holders-table tbody tr')
      .evaluateAll((all) => all.map((row) => Number((row as HTMLElement).dataset.bytes)));
    if (rows.length < 200) expect(rows.reduce((sum, row) => sum + row, 0)).toBe(bytes);
    expect(open.faults).toEqual([]);
  });
});

describe.skipIf(!hasBrowser || TRAINING === '')('the real training run (needs a browser)', () => {
  test('a click on a heading sorts, one on a row shows its stacks', async () => {
    const open = await browser.open([TRAINING], 'view=holders&cursor=3737');
    const { page } = open;
    const column = (selector: string) => page.locator(`#holders-table tbody tr ${selector}`).allTextContents();
    await page.locator('#holders-table th button', { hasText: 'Blocks' }).click();
    expect(await page.locator('#holders-table th', { hasText: 'Blocks' }).getAttribute('aria-sort')).toBe('descending');
    const counts = (await column('td:nth-child(4)')).map((text) => Number(text.replaceAll(',', '')));
    expect(counts).toEqual([...counts].sort((a, b) => b - a));
    await page.locator('#holders-table th button', { hasText: 'Blocks' }).click();
    expect((await column('td:nth-child(4)')).map((text) => Number(text.replaceAll(',', '')))).toEqual(
      [...counts].sort((a, b) => a - b),
    );
    await page.locator('#holders-table th button', { hasText: 'Bytes' }).click();
    const first = page.locator('#holders-table tbody tr').first();
    await first.locator('button').click();
    expect(await page.locator('#holders-table .stack li').count()).toBeGreaterThan(3);
    await page.locator('button', { hasText: 'Show in the timeline' }).click();
    await page.waitForSelector('#timeline');
    expect(await page.locator('#search').inputValue()).toMatch(/\.py:\d+ $/);
    expect(open.faults).toEqual([]);
  });

  test('a click in the flame graph goes closer, the way back leads out', async () => {
    const open = await browser.open([TRAINING], 'view=holders&cursor=3737');
    const { page } = open;
    const frame = page.locator('#flame g[data-name="softmax"]').first();
    const bytes = Number(await frame.getAttribute('data-bytes'));
    await frame.click();
    await page.waitForFunction(() => document.querySelectorAll('.crumbs button').length > 3);
    expect(await page.locator('#flame g').first().getAttribute('data-bytes')).toBe(String(bytes));
    await page.locator('.crumbs button').first().click();
    expect(await dataNumber(page, '#flame g', 'bytes')).toBe(await dataNumber(page, '#flame', 'bytes'));
    expect(open.faults).toEqual([]);
  });

  test('two moments are compared', async () => {
    const open = await browser.open([TRAINING], 'view=holders&cursor=3737&compare=moment&other=100');
    await open.page.waitForSelector('#holders-table tbody tr');
    const sum = async (name: string) =>
      (
        await open.page
          .locator('#holders-table tbody tr')
          .evaluateAll((rows, key) => rows.map((row) => Number(row.getAttribute(key))), name)
      ).reduce((a, b) => a + b, 0);
    const snapshot = readSnapshot(TRAINING);
    const at = (event: number) =>
      analyze(snapshot, { advise: false, at: event }).holders.reduce((all, { bytes }) => all + bytes, 0);
    expect(await sum('data-bytes')).toBe(at(3737));
    expect(await sum('data-bytes-a')).toBe(at(100));
    expect(open.faults).toEqual([]);
  });

  test('two files are compared as `diff` does', async () => {
    const other = pathOf('cuda-forward-bf16.pickle');
    const open = await browser.open([TRAINING, other], 'view=holders&compare=file1');
    await open.page.waitForFunction(
      () => Number(document.querySelector('#holders-sum')?.getAttribute('data-bytes-a')) > 0,
    );
    const difference = diffSnapshots(readSnapshot(other), readSnapshot(TRAINING), 'end');
    const [device] = difference.devices;
    expect(await dataNumber(open.page, '#holders-sum', 'bytes')).toBe(device!.allocated_b);
    expect(await dataNumber(open.page, '#holders-sum', 'bytes-a')).toBe(device!.allocated_a);
    expect(open.faults).toEqual([]);
  });
});

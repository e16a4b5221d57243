// The diagnosis in a browser: its numbers are those of `analyze`, its links lead to what they count, and its replays are the replays.

import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { analyze } from '../../lib/analysis/report/report.js';
import { readSnapshot } from '../../lib/snapshot/files.js';
import { formatPickleSnapshot } from '../../lib/snapshot/pickle/write-pickle.js';
import { documentWith } from '../../lib/viewer/document.js';
import { whatIf } from '../../lib/viewer/what-if.js';
import { builtPage, dataNumber, hasBrowser, type OpenPage, TestBrowser } from '../support/browser.js';
import { programs } from '../support/programs.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';

const TRAINING = SHARED_SNAPSHOTS.find(({ name }) => name === 'cuda-training-fragmented.pickle')?.path ?? '';

let browser: TestBrowser;
beforeAll(async () => {
  if (hasBrowser) browser = await TestBrowser.start();
});
afterAll(() => browser?.close());

async function openDiagnosis(path: string): Promise<OpenPage> {
  const open = await browser.open([path], 'view=diagnosis');
  await open.page.waitForSelector('.diagnosis[data-stage=whole]', { timeout: 60_000 });
  return open;
}

describe.skipIf(!hasBrowser).each(SHARED_SNAPSHOTS)('$name (needs a browser)', ({ path }) => {
  test('has the figures and the verdict of `analyze`', async () => {
    const open = await openDiagnosis(path);
    const report = analyze(readSnapshot(path));
    const device = report.devices[0]!;
    const figure = (name: string) => dataNumber(open.page, `#figure-${name}`, 'bytes');
    expect(await figure('reserved')).toBe(device.reserved);
    expect(await figure('allocated')).toBe(device.allocated);
    expect(await figure('gap')).toBe(device.reserved - device.allocated);
    expect(await figure('stuck')).toBe(device.gap.stuck);
    expect(await figure('wholly-free')).toBe(device.gap.wholly_free);
    expect(await figure('pending')).toBe(device.gap.pending);
    expect(await open.page.locator('#verdict').getAttribute('data-kind')).toBe(report.verdict.kind);
    if (device.peak !== null && device.events > 1) {
      expect(await figure('peak')).toBe(device.peak.allocated);
      expect(await dataNumber(open.page, '#figure-peak', 'event')).toBe(device.peak.event);
    }
    expect(open.faults).toEqual([]);
  });
});

test.skipIf(!hasBrowser)(
  'of a run that ran out of memory: the verdict, the request and the settings that help (needs a browser)',
  async () => {
    const failing = programs(30).find(({ snapshot: one }) => analyze(one).verdict.advice.length > 0)!;
    const report = analyze(failing.snapshot);
    const base64 = gzipSync(Buffer.concat([...formatPickleSnapshot(failing.snapshot)])).toString('base64');
    const open = await browser.openText(documentWith(builtPage(), [{ name: 'x.pickle', base64 }]), 'view=diagnosis');
    await open.page.waitForSelector('.diagnosis[data-stage=whole]');
    const verdict = open.page.locator('#verdict');
    expect(await verdict.getAttribute('data-kind')).toBe(report.verdict.kind);
    expect(await verdict.textContent()).toContain(report.verdict.sentence);
    const rows = await open.page
      .locator('#advice tbody tr')
      .evaluateAll((all) => all.map((row) => row.getAttribute('data-conf')));
    expect(rows).toEqual(report.verdict.advice.map(({ conf }) => conf));
    await open.page.locator('#advice button').first().click();
    await open.page.waitForSelector(`#what-if-figures[data-conf="${rows[0]}"]`);
    await open.page.locator('#to-request').click();
    await open.page.waitForSelector(`#moments tr[data-name="cursor"][data-moment="${report.verdict.request!.event}"]`);
    expect(open.faults).toEqual([]);
  },
);

describe.skipIf(!hasBrowser || TRAINING === '')('the real training run (needs a browser)', () => {
  test('its numbers lead to what they count', async () => {
    const open = await openDiagnosis(TRAINING);
    const { page } = open;
    const report = analyze(readSnapshot(TRAINING), { advise: false });
    await page.locator('#to-stuck').click();
    await page.waitForSelector('#segments');
    expect(await page.locator('#segments-highlight').inputValue()).toBe('stuck');
    expect(await dataNumber(page, '#segments-stuck', 'bytes')).toBe(report.devices[0]!.gap.stuck);
    await page.keyboard.press('4');
    await page.locator('#figure-peak a').click();
    await page.waitForSelector('#timeline');
    expect(await dataNumber(page, '#moments tr[data-name="cursor"]', 'moment')).toBe(report.devices[0]!.peak!.event);
    await page.keyboard.press('4');
    const worst = [...report.pinning].sort((a, b) => b.pinned_bytes - a.pinned_bytes)[0]!;
    await page.locator(`#pinning tr[data-segment="${worst.segment}"] a`).first().click();
    await page.waitForSelector('#hole');
    expect(await dataNumber(page, '#hole', 'address')).toBe(worst.segment);
    expect(await dataNumber(page, '#hole', 'free')).toBe(worst.pinned_bytes);
    expect(open.faults).toEqual([]);
  });

  test('replays other settings, and draws both over each other', async () => {
    const open = await openDiagnosis(TRAINING);
    const { page } = open;
    const snapshot = readSnapshot(TRAINING);
    await page.fill('#what-if-conf', 'expandable_segments:True');
    await page.fill('#what-if-capacity', '');
    await page.click('#what-if-replay');
    await page.waitForSelector('#what-if-figures[data-conf="expandable_segments:True"]', { timeout: 60_000 });
    const question = { device: 0, conf: 'expandable_segments:True', policy: 'pytorch', capacity: null } as const;
    const shown = await dataNumber(page, '#what-if-figures', 'peak-reserved');
    expect(shown).toBe(whatIf(snapshot, question).tried.peakReserved);
    expect(shown).toBeLessThan(await dataNumber(page, '#what-if-figures', 'baseline-reserved'));
    expect(await dataNumber(page, '#what-if-fidelity', 'exact')).toBe(7591);
    expect(await page.locator('#what-if-chart canvas').count()).toBe(1);
    expect(open.faults).toEqual([]);
  });

  test('says what is wrong with settings', async () => {
    const open = await openDiagnosis(TRAINING);
    await open.page.fill('#what-if-conf', 'no_such_option:1');
    await open.page.waitForFunction(() =>
      document.querySelector('#what-if-error')?.textContent?.includes('no_such_option'),
    );
    expect(await open.page.locator('#what-if-conf').getAttribute('aria-invalid')).toBe('true');
    expect(open.faults).toEqual([]);
  });
});

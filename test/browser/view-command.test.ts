// What `cudalloc view` writes and serves, in a browser: the snapshots it was given, at the moment it was given, asking nobody else.

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeSnapshot } from '../../lib/snapshot/files.js';
import { deviceHistory } from '../../lib/viewer/device-history.js';
import { hasBrowser, TestBrowser } from '../support/browser.js';
import { temporaryFolder } from '../support/child.js';
import { cli, MAIN } from '../support/cli.js';
import { programs } from '../support/programs.js';
import { smallSnapshot } from '../support/small-history.js';

const { peak } = deviceHistory(smallSnapshot(), 0);

let browser: TestBrowser;
let folder: string;
let paths: readonly string[];
beforeAll(async () => {
  folder = temporaryFolder();
  paths = ['small.pickle', 'program.json'].map((name) => join(folder, name));
  writeSnapshot(smallSnapshot(), paths[0]!);
  writeSnapshot(programs(1)[0]!.snapshot, paths[1]!);
  if (hasBrowser) browser = await TestBrowser.start();
});
afterAll(() => browser?.close());

describe.skipIf(!hasBrowser)('the page of `cudalloc view` (needs a browser)', () => {
  test('from disk: all snapshots, the first at the moment that was asked for; an address counts more', async () => {
    const output = join(folder, 'a.html');
    const { code, stderr } = await cli(['view', ...paths, '-o', output, '--at', 'peak']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { page, faults } = await browser.openAddress(`file://${output}`);
    await page.waitForFunction(() => document.querySelector('header select')?.textContent?.includes('program.json'));
    expect(await page.locator('header select').first().locator('option').allTextContents()).toEqual([
      'small.pickle',
      'program.json',
    ]);
    expect(new URL(page.url()).hash).toBe(`#cursor=${peak}`);
    expect(await page.title()).toBe('small.pickle and 1 more - cudalloc');
    expect(faults).toEqual([]);
    const other = await browser.openAddress(`file://${output}#cursor=1`);
    await other.page.waitForSelector('#timeline');
    expect(new URL(other.page.url()).hash).toBe('#cursor=1');
    expect(other.faults).toEqual([]);
  });

  test('served: read when the page asks for it', async () => {
    const child = spawn(process.execPath, [MAIN, 'view', paths[1]!, '--serve', '--json'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const line = await new Promise<string>((resolve) => child.stdout.once('data', (data) => resolve(String(data))));
      const { url } = JSON.parse(line) as { url: string };
      const { page, faults } = await browser.openAddress(url);
      await page.waitForSelector('#timeline');
      await page.waitForSelector('#view[data-report=ready]');
      expect(await page.title()).toBe('program.json - cudalloc');
      expect(faults).toEqual([]);
    } finally {
      const ended = new Promise((done) => child.once('close', done));
      child.kill('SIGTERM');
      expect(await ended).toBe(0);
    }
  });
});

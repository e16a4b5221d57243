// How snapshots come into the page: inside it, chosen, dropped; and what it says to files that it can't show. Nothing leaves it.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { formatPickleSnapshot } from '../../lib/snapshot/pickle/write-pickle.js';
import { documentWith } from '../../lib/viewer/document.js';
import { builtPage, hasBrowser, type OpenPage, TestBrowser } from '../support/browser.js';
import { programs } from '../support/programs.js';
import { SHARED_SNAPSHOTS } from '../support/shared-snapshots.js';
import { smallSnapshot } from '../support/small-history.js';

const small = Buffer.concat([...formatPickleSnapshot(smallSnapshot())]);

let browser: TestBrowser;
beforeAll(async () => {
  if (hasBrowser) browser = await TestBrowser.start();
});
afterAll(() => browser?.close());

const file = (name: string, buffer: Buffer) => ({ name, mimeType: 'application/octet-stream', buffer });

async function messageOf({ page }: OpenPage): Promise<string> {
  await page.waitForFunction(() => !/^Reading|^$/.test(document.querySelector('.message')?.textContent ?? ''));
  return (await page.locator('.message').textContent()) ?? '';
}

describe.skipIf(!hasBrowser)('the page (needs a browser)', () => {
  test('alone it asks for a file, and shows the one that is chosen', async () => {
    const open = await browser.openText(builtPage());
    expect(await open.page.locator('main.drop').textContent()).toMatch(/Drop a memory snapshot here/);
    await open.page.locator('main.drop input[type=file]').setInputFiles(file('small.pickle', small));
    await open.page.waitForSelector('#timeline');
    expect(await open.page.locator('header select').first().textContent()).toBe('small.pickle');
    expect(open.faults).toEqual([]);
  });

  test('shows a file that is dropped on it, plain or gzip, beside the one that is open', async () => {
    const open = await browser.openText(
      documentWith(builtPage(), [{ name: 'first.pickle', base64: gzipSync(small).toString('base64') }]),
    );
    await open.page.waitForSelector('#timeline');
    const data = gzipSync(Buffer.concat([...formatPickleSnapshot(programs(1)[0]!.snapshot)])).toString('base64');
    await open.page.evaluate((base64) => {
      const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([bytes], 'second.pickle.gz'));
      document
        .querySelector('.app')
        ?.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    }, data);
    await open.page.waitForFunction(
      () =>
        document.querySelectorAll('header select option').length >= 2 &&
        document.querySelector('header select')?.textContent?.includes('second'),
    );
    expect(await open.page.locator('header select').first().inputValue()).toBe('1');
    await open.page.locator('header select').first().selectOption('0');
    await open.page.waitForFunction(() =>
      (document.querySelector('#timeline')?.getAttribute('aria-label') ?? '').includes('Timeline of'),
    );
    expect(open.faults).toEqual([]);
  });

  test.each([
    ['text', Buffer.from('hello world, this is no snapshot'), /text\.bin can't be shown: .*no memory snapshot/],
    ['empty', Buffer.alloc(0), /empty\.bin can't be shown: .*the file is empty/],
    ['cut', small.subarray(0, small.length >> 1), /cut\.bin can't be shown: .*byte \d+/],
    [
      'gzip',
      gzipSync(small).subarray(0, 300),
      /gzip\.bin can't be shown: it begins as a gzip file and cannot be decompressed/,
    ],
    ['class', Buffer.from('\x80\x04cos\nsystem\n.', 'latin1'), /class\.bin can't be shown: .*/],
  ])('says what is wrong with a file that it cannot read: %s', async (name, buffer, wanted) => {
    const open = await browser.openText(builtPage());
    await open.page.locator('main.drop input[type=file]').setInputFiles(file(`${name}.bin`, buffer));
    expect(await messageOf(open)).toMatch(wanted);
    // It can still be given another.
    await open.page.locator('main.drop input[type=file]').setInputFiles(file('small.pickle', small));
    await open.page.waitForSelector('#timeline');
    expect(open.faults).toEqual([]);
  });

  test('keeps showing what it showed when the next file is broken', async () => {
    const open = await browser.openText(
      documentWith(builtPage(), [{ name: 'first.pickle', base64: gzipSync(small).toString('base64') }]),
    );
    await open.page.waitForSelector('#timeline');
    await open.page.locator('header input[type=file]').setInputFiles(file('bad.bin', Buffer.from('nothing')));
    expect(await messageOf(open)).toMatch(/bad\.bin can't be shown/);
    await open.page.locator('.message button').click();
    expect(await open.page.locator('.message').count()).toBe(0);
    expect(await open.page.locator('#timeline').count()).toBe(1);
    expect(open.faults).toEqual([]);
  });

  test('a broken snapshot inside it is said too', async () => {
    const open = await browser.openText(documentWith(builtPage(), [{ name: 'bad.pickle', base64: 'AAAA' }]));
    expect(await messageOf(open)).toMatch(/bad\.pickle can't be shown/);
    expect(await open.page.locator('main.drop').count()).toBe(1);
  });

  test('cannot ask anybody for anything, even if it wanted to', async () => {
    let asked = 0;
    const server = createServer((_, response) => {
      asked++;
      response.end('something');
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const open = await browser.openText(
      documentWith(builtPage(), [{ name: 'first.pickle', base64: gzipSync(small).toString('base64') }]),
    );
    await open.page.waitForSelector('#timeline');
    const outcomes = await open.page.evaluate(async (place) => {
      const element = (tag: 'img' | 'script' | 'iframe' | 'link') => {
        const made = document.createElement(tag);
        if (made instanceof HTMLLinkElement) Object.assign(made, { rel: 'stylesheet', href: `${place}/${tag}` });
        else made.src = `${place}/${tag}`;
        document.body.append(made);
      };
      for (const tag of ['img', 'script', 'iframe', 'link'] as const) element(tag);
      navigator.sendBeacon(`${place}/beacon`, 'x');
      const form = Object.assign(document.createElement('form'), { action: `${place}/form`, method: 'post' });
      document.body.append(form);
      form.submit();
      const refused = (promise: Promise<unknown>) =>
        promise.then(
          () => 'answered',
          () => 'refused',
        );
      const socket = new Promise((done, fail) => {
        try {
          Object.assign(new WebSocket(place.replace('http', 'ws')), { onopen: done, onerror: fail });
        } catch (error) {
          fail(error);
        }
      });
      return Promise.all([refused(fetch(`${place}/fetch`)), refused(socket)]);
    }, address);
    await open.page.waitForTimeout(300);
    server.close();
    expect(outcomes).toEqual(['refused', 'refused']);
    expect(asked).toBe(0);
    expect(open.faults.some((fault) => /Content Security Policy/.test(fault))).toBe(true);
  });

  test('is light or dark as it is told, and as the system says', async () => {
    const open = await browser.open(
      SHARED_SNAPSHOTS.slice(0, 1).map(({ path }) => path),
      'theme=dark',
    );
    await open.page.waitForSelector('.app.dark');
    await open.page.locator('header select').last().selectOption('light');
    await open.page.waitForSelector('.app:not(.dark)');
    await open.page.locator('header select').last().selectOption('auto');
    await open.page.emulateMedia({ colorScheme: 'dark' });
    await open.page.waitForSelector('.app.dark');
    expect(open.faults).toEqual([]);
  });

  test('several devices are shown one at a time', async () => {
    const a = programs(1)[0]!.snapshot;
    const both = {
      ...a,
      segments: [...a.segments, ...a.segments.map((segment) => ({ ...segment, device: 1 }))],
      deviceTraces: [a.deviceTraces[0]!, a.deviceTraces[0]!.slice(0, 0)],
    };
    const pickle = Buffer.concat([...formatPickleSnapshot(both)]);
    const open = await browser.openText(
      documentWith(builtPage(), [{ name: 'two.pickle', base64: gzipSync(pickle).toString('base64') }]),
    );
    await open.page.waitForSelector('#timeline');
    const device = open.page.locator('header label', { hasText: 'Device' }).locator('select');
    expect(await device.locator('option').allTextContents()).toEqual(['0', '1']);
    await device.selectOption('1');
    await open.page.waitForFunction(() =>
      document.querySelector('#timeline')?.getAttribute('aria-label')?.startsWith('Timeline of 0 events'),
    );
    expect(open.faults).toEqual([]);
  });
});

// Chromium without a window, for tests of the page. Where there is none such tests are skipped; with CUDALLOC_REQUIRE_SHARED=1 they fail.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type Browser, chromium, type Page } from 'playwright-core';
import { documentWith } from '../../lib/viewer/document.js';
import { REPOSITORY } from './shared-data.js';

const REQUIRED = process.env.CUDALLOC_REQUIRE_SHARED === '1';
const PLACES = [process.env.CHROMIUM_PATH, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = PLACES.find((path) => path !== undefined && existsSync(path));

/** Whether tests that need a browser are to run. */
export const hasBrowser = REQUIRED || executablePath !== undefined;

export interface OpenPage {
  readonly page: Page;
  /** What went wrong in it, and what it asked for from elsewhere. Tests end with these empty. */
  readonly faults: string[];
}

/** Opens pages, each in a profile of its own; everything is gone after `close`. */
export class TestBrowser {
  readonly #browser: Browser;
  readonly #folder = mkdtempSync(join(tmpdir(), 'cudalloc-page-'));
  #pages = 0;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async start(): Promise<TestBrowser> {
    if (executablePath === undefined) throw new Error(`there is no browser: looked for ${PLACES.slice(1).join(', ')}`);
    const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'];
    return new TestBrowser(await chromium.launch({ executablePath, args }));
  }

  async close(): Promise<void> {
    await this.#browser.close();
    rmSync(this.#folder, { recursive: true });
  }

  /** The page with snapshot files in it, as `cudalloc view` writes it. @param hash what follows # in its address */
  async open(paths: readonly string[], hash = ''): Promise<OpenPage> {
    const embedded = paths.map((path) => ({
      name: basename(path),
      base64: gzipSync(readFileSync(path), { level: 1 }).toString('base64'),
    }));
    return this.openText(documentWith(builtPage(), embedded), hash);
  }

  /** @param text of the page */
  async openText(text: string, hash = ''): Promise<OpenPage> {
    const file = join(this.#folder, `page-${this.#pages++}.html`);
    writeFileSync(file, text);
    return this.openAddress(`file://${file}${hash === '' ? '' : `#${hash}`}`);
  }

  async openAddress(address: string): Promise<OpenPage> {
    const context = await this.#browser.newContext({ viewport: { width: 1400, height: 900 } });
    const page = await context.newPage();
    const faults: string[] = [];
    const own = new URL(address);
    page.on('pageerror', (error) => faults.push(String(error.stack ?? error)));
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') faults.push(message.text());
    });
    page.on('request', (request) => {
      const url = request.url();
      const isOwn = /^(?:data|blob):/.test(url) || url.split('#')[0] === address.split('#')[0];
      if (!isOwn && !(own.protocol === 'http:' && url.startsWith(own.origin))) faults.push(`it asked for ${url}`);
    });
    await page.goto(address);
    return { page, faults };
  }
}

/** The bundled page without a snapshot. @throws Error when it was not built */
export function builtPage(): string {
  const path = join(REPOSITORY, 'dist', 'viewer', 'page.html');
  if (!existsSync(path)) throw new Error('dist/viewer/page.html is missing: run `npm run build`');
  return readFileSync(path, 'utf8');
}

/** A number in a data- attribute of the first element that matches. */
export async function dataNumber(page: Page, selector: string, name: string): Promise<number> {
  const text = await page.locator(selector).first().getAttribute(`data-${name}`);
  if (text === null) throw new Error(`${selector} has no data-${name}`);
  return Number(text);
}

// The page served: `cudalloc view --serve` as a user has it, and the server alone for what a browser would not ask.

import { spawn } from 'node:child_process';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { ViewServer } from '../../lib/cli/view-server.js';
import { SnapshotFormatError } from '../../lib/errors.js';
import { writeSnapshot } from '../../lib/snapshot/files.js';
import type { Snapshot } from '../../lib/snapshot/model.js';
import { parseSnapshot } from '../../lib/snapshot/read-snapshot.js';
import { deviceHistory } from '../../lib/viewer/device-history.js';
import { temporaryFolder } from '../support/child.js';
import { cli, MAIN } from '../support/cli.js';
import { contentOf, pickle, pickleOf } from '../support/page-content.js';
import { snapshotOf } from '../support/recordings.js';
import { smallSnapshot } from '../support/small-history.js';

const small = smallSnapshot();
const PEAK = deviceHistory(small, 0).peak;

let folder: string;
let input: string;
beforeAll(() => {
  folder = temporaryFolder();
  input = join(folder, 'small.pickle');
  writeSnapshot(small, input);
});

async function refused(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await cli(['view', ...args, '--serve']);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(/^cudalloc: [^\n]+\n$/);
  return stderr;
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
}

function ask(address: string, options: { method?: string; host?: string; path?: string } = {}): Promise<Answer> {
  const url = new URL(address);
  return new Promise((resolve, reject) => {
    request(
      {
        host: url.hostname.replace(/^\[|\]$/g, ''),
        port: url.port,
        path: options.path ?? url.pathname,
        method: options.method ?? 'GET',
        headers: { Host: options.host ?? url.host },
        agent: false,
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
        );
      },
    )
      .on('error', reject)
      .end();
  });
}

interface Served {
  readonly url: string;
  readonly line: string;
  /** Sends a signal and waits for the end. */
  readonly end: (signal: NodeJS.Signals) => Promise<{ code: number | null; signal: string | null; stderr: string }>;
}

/** `cudalloc view --serve`, once it listens. */
function served(...args: string[]): Promise<Served> {
  const child = spawn(process.execPath, [MAIN, 'view', '--serve', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = new Promise<{ code: number | null; signal: string | null; stderr: string }>((resolve) =>
    child.on('close', (code, signal) => resolve({ code, signal, stderr })),
  );
  return new Promise((resolve, reject) => {
    let line = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      line += text;
      if (!line.endsWith('\n')) return;
      resolve({
        url: /http:[^\s"]+/.exec(line)?.[0] ?? '',
        line,
        end: (signal) => {
          child.kill(signal);
          return ended;
        },
      });
    });
    void ended.then(({ code }) => reject(new Error(`it ended with ${code}: ${stderr}`)));
  });
}

describe('--serve', () => {
  it('gives the page and the file as it is now, and ends with 0 when it is interrupted', async () => {
    const path = join(temporaryFolder(), 'live.pickle');
    writeSnapshot(small, path);
    const { url, line, end } = await served(path, '--at', 'peak');
    expect(line).toBe(`${url} shows ${path}. Ctrl+C ends it.\n`);
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
    const page = await ask(url);
    expect(page.status).toBe(200);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    const html = page.body.toString();
    expect(html).toContain('<script type="text/plain" class="served" data-name="live.pickle"></script>');
    expect(contentOf(html)).toMatchObject({ names: [], start: `#cursor=${PEAK}`, title: 'live.pickle - cudalloc' });
    expect(html).toContain("connect-src 'self'");
    const file = async (): Promise<Snapshot> => {
      const { status, headers, body } = await ask(`${url}snapshots/0`);
      expect({ status, type: headers['content-type'] }).toEqual({ status: 200, type: 'application/gzip' });
      return parseSnapshot(gunzipSync(body));
    };
    expect(pickle(await file()).equals(pickle(small))).toBe(true);
    const other = snapshotOf([{ address: 2 ** 40, blocks: [[2 ** 21]] }], []);
    writeSnapshot(other, `${path}.new`);
    renameSync(`${path}.new`, path);
    expect(pickle(await file()).equals(pickleOf(path))).toBe(true);
    writeFileSync(path, 'half of it');
    const broken = await ask(`${url}snapshots/0`);
    expect(broken.status).toBe(422);
    expect(broken.body.toString()).toMatch(/live\.pickle: byte 0: this is no memory snapshot/);
    rmSync(path);
    const gone = await ask(`${url}snapshots/0`);
    expect({ status: gone.status, said: /ENOENT.*live\.pickle/.test(gone.body.toString()) }).toEqual({
      status: 404,
      said: true,
    });
    writeSnapshot(small, path);
    expect(pickle(await file()).equals(pickle(small))).toBe(true);
    expect(await end('SIGINT')).toEqual({ code: 0, signal: null, stderr: '' });
  });

  it('says where it is as JSON too, and ends with 0 when it is told to', async () => {
    const { url, line, end } = await served(input, input, '--json');
    expect(JSON.parse(line)).toEqual({ url, inputs: [input, input] });
    expect((await ask(`${url}snapshots/1`)).status).toBe(200);
    expect(await end('SIGTERM')).toEqual({ code: 0, signal: null, stderr: '' });
  });

  it('refuses a port that is taken, a host that is elsewhere, a file that is not there', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((done) => other.once('listening', done));
    const { port } = other.address() as AddressInfo;
    expect(await refused(input, '--port', String(port))).toMatch(
      new RegExp(`--port: ${port} is in use on 127\\.0\\.0\\.1; take another`),
    );
    other.close();
    expect(await refused(input, '--host', '192.0.2.1')).toMatch(/--host: 192\.0\.2\.1 is no address of this/);
    expect(await refused(join(folder, 'missing.pickle'))).toMatch(/ENOENT.*missing\.pickle/);
    expect(await refused(input, '--at', '9999')).toMatch(/--at: there is no event 9999/);
  });
});

describe('the server', () => {
  async function withServer(act: (server: ViewServer, reads: () => number) => Promise<void>, host = '127.0.0.1') {
    let reads = 0;
    const read = async (): Promise<Uint8Array> => {
      reads++;
      await new Promise((done) => setTimeout(done, 20));
      return Buffer.from('bytes');
    };
    const fail = async (): Promise<Uint8Array> => {
      throw new SnapshotFormatError('broken');
    };
    const files = [
      { path: input, read },
      { path: input, read: fail },
    ];
    const server = await ViewServer.start({ host, port: 0, page: () => '<p>page</p>', files });
    try {
      await act(server, () => reads);
    } finally {
      await server.close();
    }
  }

  it('answers in words to what it does not have, and to methods that it does not know', () =>
    withServer(async (server) => {
      for (const path of [
        '/x',
        '/snapshots',
        '/snapshots/2',
        '/snapshots/-1',
        '/snapshots/0x0',
        '//',
        '/../etc',
        '/%',
      ]) {
        const { status, headers, body } = await ask(server.url, { path });
        expect({ path, status, type: headers['content-type'] }).toEqual({
          path,
          status: 404,
          type: 'text/plain; charset=utf-8',
        });
        expect(body.toString()).toBe(
          `there is nothing at ${path}: the page is at /, the files at /snapshots/0 to /snapshots/1\n`,
        );
      }
      const post = await ask(server.url, { method: 'POST' });
      expect({ status: post.status, allow: post.headers.allow, body: post.body.toString() }).toEqual({
        status: 405,
        allow: 'GET, HEAD',
        body: 'only GET and HEAD are answered, not POST\n',
      });
      expect((await ask(server.url, { path: '/?x=1' })).body.toString()).toBe('<p>page</p>');
      const head = await ask(server.url, { method: 'HEAD' });
      expect({ status: head.status, length: head.headers['content-length'], body: head.body.length }).toEqual({
        status: 200,
        length: '11',
        body: 0,
      });
      expect((await ask(`${server.url}snapshots/1`)).status).toBe(422);
    }));

  it('answers to numbers and to its own names, not to names that are made to lead here', () =>
    withServer(async (server) => {
      const port = new URL(server.url).port;
      for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, 'LOCALHOST', `[::1]:${port}`, '10.1.2.3:9000'])
        expect({ host, status: (await ask(server.url, { host })).status }).toEqual({ host, status: 200 });
      for (const host of [`evil.example:${port}`, 'localhost.evil.example', '127.0.0.1.evil.example', '[evil]:1']) {
        const { status, body } = await ask(`${server.url}snapshots/0`, { host });
        expect({ host, status }).toEqual({ host, status: 403 });
        expect(body.toString()).toMatch(/^this server answers to localhost and to numbers of addresses, not to "/);
      }
    }));

  it('tells browsers to keep it to themselves', () =>
    withServer(async (server) => {
      for (const path of ['/', '/snapshots/0', '/nothing']) {
        const { headers } = await ask(server.url, { path });
        expect(headers).toMatchObject({
          'cache-control': 'no-store',
          'content-security-policy': "frame-ancestors 'none'",
          'cross-origin-opener-policy': 'same-origin',
          'cross-origin-resource-policy': 'same-origin',
          'referrer-policy': 'no-referrer',
          'x-content-type-options': 'nosniff',
          'x-frame-options': 'DENY',
        });
        expect(headers).not.toHaveProperty('access-control-allow-origin');
      }
    }));

  it('reads a file once for all who ask, until it changes', () =>
    withServer(async (server, reads) => {
      const file = () => ask(`${server.url}snapshots/0`);
      const answers = await Promise.all([file(), file(), file()]);
      expect(answers.map(({ body }) => body.toString())).toEqual(['bytes', 'bytes', 'bytes']);
      await file();
      expect(reads()).toBe(1);
      writeFileSync(input, readFileSync(input));
      await file();
      expect(reads()).toBe(2);
    }));

  it('says whether others can reach it', async () => {
    await withServer(async (server) => expect(server.isOpenToOthers).toBe(false));
    await withServer(async (server) => {
      expect(server.isOpenToOthers).toBe(true);
      expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/);
      expect((await ask(server.url)).status).toBe(200);
    }, '0.0.0.0');
  });
});

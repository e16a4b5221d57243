// Serves the page and the snapshots that it shows to browsers on this machine: the page at /, each file at snapshots/<number>, read when it is
// asked for. Knows HTTP, and not what a snapshot is.

import { statSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, isIP } from 'node:net';
import { ConfigError, CudallocError } from '../errors.js';

/** A file that is given as it is at the moment. */
export interface ServedFile {
  readonly path: string;
  /** Its bytes for the page, gzip. Called again only when the file has changed. */
  readonly read: () => Promise<Uint8Array>;
}

export interface ViewServerOptions {
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /** The page, made anew for each visit. */
  readonly page: () => string;
  readonly files: readonly ServedFile[];
}

const HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
};

/** What is answered. */
interface Reply {
  readonly status: number;
  readonly type: string;
  readonly body: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

export class ViewServer {
  readonly #server: Server;
  readonly #options: ViewServerOptions;
  readonly #files: readonly CachedFile[];

  private constructor(options: ViewServerOptions) {
    this.#options = options;
    this.#files = options.files.map((file) => new CachedFile(file));
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** Listens. @throws ConfigError when the port or the host cannot be had */
  static async start(options: ViewServerOptions): Promise<ViewServer> {
    const server = new ViewServer(options);
    await server.#listen();
    return server;
  }

  /** Where a browser on this machine finds it. */
  get url(): string {
    const { address, port } = this.#server.address() as AddressInfo;
    const host = address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address;
    return `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}/`;
  }

  /** Whether other machines may reach it. */
  get isOpenToOthers(): boolean {
    const { address } = this.#server.address() as AddressInfo;
    return !/^(?:127\.|::1$|::ffff:127\.)/.test(address);
  }

  /** Ends it, and the connections that browsers keep. */
  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  async #listen(): Promise<void> {
    const { host, port } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(error, host, port)));
      this.#server.listen(port, host, resolve);
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, type, body, headers } = await this.#reply(request).catch(failure);
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    response.writeHead(status, { ...HEADERS, ...headers, 'Content-Type': type, 'Content-Length': bytes.length });
    response.end(request.method === 'HEAD' ? undefined : bytes);
  }

  async #reply({ method = '', url = '/', headers }: IncomingMessage): Promise<Reply> {
    if (!this.#isOwnName(headers.host))
      return words(
        403,
        `this server answers to localhost and to numbers of addresses, not to ${JSON.stringify(headers.host ?? '')}`,
      );
    if (method !== 'GET' && method !== 'HEAD')
      return { ...words(405, `only GET and HEAD are answered, not ${method}`), headers: { Allow: 'GET, HEAD' } };
    const path = url.replace(/[?#].*$/s, '');
    if (path === '/') return { status: 200, type: 'text/html; charset=utf-8', body: this.#options.page() };
    const number = /^\/snapshots\/(\d{1,6})$/.exec(path)?.[1];
    const file = number === undefined ? undefined : this.#files[Number(number)];
    if (file !== undefined) return { status: 200, type: 'application/gzip', body: await file.bytes() };
    const last = this.#files.length - 1;
    return words(404, `there is nothing at ${path}: the page is at /, the files at /snapshots/0 to /snapshots/${last}`);
  }

  /**
   * A page elsewhere can have its own name lead here, and would then count as of the same origin. A number can't be made to lead elsewhere.
   */
  #isOwnName(host: string | undefined): boolean {
    const name = (host ?? '').replace(/:\d*$/, '').toLowerCase();
    return name === 'localhost' || name === this.#options.host.toLowerCase() || isIP(name.replace(/^\[|\]$/g, '')) > 0;
  }
}

/** Reads again what has changed, and once for requests that come together. */
class CachedFile {
  readonly #file: ServedFile;
  #version = '';
  #bytes: Promise<Uint8Array> | null = null;

  constructor(file: ServedFile) {
    this.#file = file;
  }

  /** @throws the system's error, or what reading throws */
  async bytes(): Promise<Uint8Array> {
    const { mtimeMs, size, ino } = statSync(this.#file.path);
    const version = `${mtimeMs} ${size} ${ino}`;
    if (this.#bytes === null || this.#version !== version) {
      this.#version = version;
      this.#bytes = this.#file.read();
    }
    const bytes = this.#bytes;
    try {
      return await bytes;
    } catch (error) {
      // The next request tries again.
      if (this.#bytes === bytes) this.#bytes = null;
      throw error;
    }
  }
}

function words(status: number, text: string): Reply {
  return { status, type: 'text/plain; charset=utf-8', body: `${text}\n` };
}

/** The file is gone, or is no snapshot now; anything else is our fault. */
function failure(error: unknown): Reply {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof CudallocError) return words(422, message);
  return words((error as NodeJS.ErrnoException).code === 'ENOENT' ? 404 : 500, message);
}

function listenError(error: NodeJS.ErrnoException, host: string, port: number): Error {
  const refuse = (key: 'port' | 'host', why: string) =>
    new ConfigError(`--${key}: ${why}`, { key, value: key === 'port' ? String(port) : host });
  switch (error.code) {
    case 'EADDRINUSE':
      return refuse('port', `${port} is in use on ${host}; take another, or leave --port out for a free one`);
    case 'EACCES':
      return refuse('port', `${port} may not be used by this user; take one above 1023`);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return refuse('host', `${host} is no address of this machine`);
    default:
      return error;
  }
}

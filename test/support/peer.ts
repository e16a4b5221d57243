// Another process with an allocator of its own, which does what it is told.

import { type ChildProcess, fork } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compiled, temporaryFolder } from './child.js';

const PROGRAM = `
import { CachingAllocator, openDevice } from ${compiled('index.js')};
const device = openDevice({ backend: 'mock', capacity: 64 * 2 ** 20 });
const allocator = new CachingAllocator({ device, leakWarnings: false });
const buffers = new Map();
process.on('message', async ({ body, data }) => {
  try {
    const run = new Function('device', 'allocator', 'buffers', 'data', body);
    process.send({ result: (await run(device, allocator, buffers, data)) ?? null });
  } catch ({ name, code, message }) {
    process.send({ error: { name, code, message } });
  }
});
process.send({ result: 'ready' });
`;

export interface PeerError {
  readonly name: string;
  readonly code: string;
  readonly message: string;
}

export class Peer implements AsyncDisposable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  /** @param descriptors of this process, which it inherits as 4, 5, ... */
  static async start(descriptors: readonly number[] = []): Promise<Peer> {
    const file = join(temporaryFolder(), 'peer.mjs');
    writeFileSync(file, PROGRAM);
    const { NODE_OPTIONS: _options, VITEST: _vitest, NODE_ENV: _env, ...env } = process.env;
    const child = fork(file, { env, execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc', ...descriptors] });
    const peer = new Peer(child);
    await peer.#answer();
    return peer;
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** Runs `body` there, with `device`, `allocator`, `buffers` (a Map) and `data` in scope; what it returns, as JSON. @throws PeerError */
  ask<T>(body: string, data: unknown = null): Promise<T> {
    const answer = this.#answer<T>();
    this.#child.send({ body, data });
    return answer;
  }

  /** What the peer throws. */
  async errorOf(body: string, data: unknown = null): Promise<PeerError> {
    try {
      await this.ask(body, data);
    } catch (error) {
      return error as PeerError;
    }
    throw new Error('the other process was expected to throw and did not');
  }

  /** Ends it without a chance to give anything back. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  #answer<T>(): Promise<T> {
    return new Promise((resolve, reject) => {
      const ended = (code: number | null): void => reject(new Error(`the other process ended with status ${code}`));
      this.#child.once('exit', ended);
      this.#child.once('message', ({ result, error }: { result: T; error?: PeerError }) => {
        this.#child.off('exit', ended);
        if (error === undefined) resolve(result);
        else reject(error);
      });
    });
  }
}

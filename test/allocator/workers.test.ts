// Several threads of one process on one device: who is short takes what the others do not use, even while those are busy.

import { Worker } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import { openDevice } from '../../lib/index.js';

const MIB = 2 ** 20;
const DIST = new URL('../../dist/index.js', import.meta.url).href;

/** Runs `body` (with `device`, `allocator`, `data`, `turns` in scope) in a worker; what it returns. */
function inWorker(body: string, data: object): Promise<unknown> {
  const code = `
    const { parentPort, workerData: data } = require('node:worker_threads');
    (async () => {
      const { CachingAllocator, openDevice } = await import(${JSON.stringify(DIST)});
      const device = openDevice({ backend: 'mock', index: data.index, capacity: data.capacity });
      const allocator = new CachingAllocator({ device, policy: data.policy ?? 'paged' });
      const turns = new Int32Array(data.turns);
      const result = await (async () => { ${body} })();
      allocator.close();
      device.close();
      parentPort.postMessage(result);
    })();`;
  return new Promise((resolve, reject) => {
    const worker = new Worker(code, { eval: true, workerData: data });
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', (status) => reject(new Error(`the worker ended with status ${status} and said nothing`)));
  });
}

/** In turn, and blocked between: allocates a part of the device, writes on it, checks it, frees it. */
const ALTERNATING = `
  for (let round = 0; round < data.rounds; round++) {
    const turn = 2 * round + data.me;
    for (let now; (now = Atomics.load(turns, 0)) < turn; ) Atomics.wait(turns, 0, now);
    const buffers = data.sizes.map((size) => allocator.allocate(size));
    // The first and the last bytes of each: whole contents would take the mock long.
    const ends = (buffer) => [0, buffer.size - 65536];
    for (const [i, buffer] of buffers.entries()) for (const at of ends(buffer)) buffer.fill(16 * data.me + i, at, 65536);
    for (const [i, buffer] of buffers.entries()) {
      const expected = Buffer.alloc(65536, 16 * data.me + i);
      for (const at of ends(buffer)) if (!expected.equals(buffer.read(at, 65536))) throw new Error('overwritten');
    }
    for (const buffer of buffers) buffer.free();
    Atomics.store(turns, 0, turn + 1);
    Atomics.notify(turns, 0);
  }
  return { calls: device.driverCalls(), reserved: allocator.memoryReserved() };
`;

describe('two workers on one device', () => {
  const rounds = 20;

  test.each([
    ['the same sizes', [70 * MIB, 70 * MIB, 30 * MIB], [70 * MIB, 70 * MIB, 30 * MIB]],
    ['other sizes', [150 * MIB, 20 * MIB], [30 * MIB, 30 * MIB, 30 * MIB, 30 * MIB, 30 * MIB, 25 * MIB]],
    ['small ones and large ones', [...Array(60).fill(MIB / 2), 130 * MIB], [100 * MIB, 70 * MIB]],
  ])('whose demands together exceed it, alternately: %s', async (_, first, second) => {
    // Each needs 170 of 256 MiB, and is blocked while the other has its turn.
    const capacity = 256 * MIB;
    using device = openDevice({ backend: 'mock', capacity });
    const turns = new SharedArrayBuffer(4);
    const shared = { index: device.index, capacity, turns, rounds };
    const results = (await Promise.all([
      inWorker(ALTERNATING, { ...shared, me: 0, sizes: first }),
      inWorker(ALTERNATING, { ...shared, me: 1, sizes: second }),
    ])) as { calls: Record<string, number> }[];
    expect(results).toHaveLength(2);
    expect(device.memGetInfo().free).toBe(capacity);
  });
});

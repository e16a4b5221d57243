// Several threads of one process on one device: who is short takes what the others do not use, even while those are busy.

import { Worker } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import { CachingAllocator, InvalidSizeError, OutOfMemoryError, openDevice } from '../../lib/index.js';
import { thrownBy } from '../support/devices.js';

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

describe.each(['default', 'paged'] as const)(
  'policy %s: before a request fails, others give back what they do not use',
  (policy) => {
    test.each(['sim', 'mock'] as const)('allocators of this thread: %s', (backend) => {
      using device = openDevice({ backend, capacity: 256 * MIB });
      const keeper = new CachingAllocator({ device, policy: 'pytorch' });
      using asking = new CachingAllocator({ device, policy });
      const held = keeper.malloc(60 * MIB);
      keeper.free(keeper.malloc(150 * MIB));
      const address = asking.malloc(120 * MIB);
      expect(address).toBeGreaterThan(0);
      expect(keeper.memoryReserved()).toBe(60 * MIB);
      expect(asking.memoryStats().num_ooms).toBe(0);
      // What is in use is nobody else's.
      expect(thrownBy(() => asking.malloc(120 * MIB))).toBeInstanceOf(OutOfMemoryError);
      keeper.free(held);
      keeper.close();
      asking.malloc(120 * MIB);
    });

    test('one of another thread that has nothing to do', async () => {
      const capacity = 256 * MIB;
      using device = openDevice({ backend: 'mock', capacity });
      using asking = new CachingAllocator({ device, policy });
      const turns = new SharedArrayBuffer(4);
      const turn = new Int32Array(turns);
      const body = `
      allocator.free(allocator.malloc(150 * 2 ** 20));
      Atomics.store(turns, 0, 1);
      while (Atomics.load(turns, 0) !== 2) await new Promise((resolve) => setTimeout(resolve, 5));
      return allocator.memoryReserved();`;
      const kept = inWorker(body, { index: device.index, capacity, turns, policy: 'default' });
      while (Atomics.load(turn, 0) !== 1) await new Promise((resolve) => setTimeout(resolve, 5));
      asking.malloc(200 * MIB);
      Atomics.store(turn, 0, 2);
      expect(await kept).toBe(0);
    });
  },
);

describe.each(['pytorch', 'default', 'paged'] as const)('policy %s: trim', (policy) => {
  test.each(['', 'expandable_segments:True'])('gives back what is cached beyond a size: %s', (conf) => {
    using device = openDevice({ backend: 'sim', capacity: 1024 * MIB });
    using allocator = new CachingAllocator({ device, policy, conf });
    const held = allocator.malloc(100 * MIB);
    const addresses = Array.from({ length: 4 }, () => allocator.malloc(80 * MIB));
    for (const address of addresses) allocator.free(address);
    const cached = allocator.memoryReserved() - 100 * MIB;
    expect(allocator.trim(cached)).toBe(0);
    const given = allocator.trim(170 * MIB);
    expect(given).toBeGreaterThanOrEqual(cached - 170 * MIB);
    expect(given).toBeLessThanOrEqual(cached);
    expect(device.memGetInfo().free).toBe(1024 * MIB - allocator.memoryReserved());
    allocator.trim(0);
    expect(allocator.memoryReserved()).toBeLessThan(130 * MIB);
    allocator.free(held);
    expect(() => allocator.trim(-1)).toThrow(InvalidSizeError);
    expect(() => allocator.trim(Number.NaN)).toThrow(InvalidSizeError);
  });
});

// Free pages that openings of one device leave to each other, and requests to give memory back. Several openings in one thread stand for threads, but
// where a thread has to be busy or to end.

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, test } from 'vitest';
import type { Device, PageOffers } from '../../lib/device/types.js';
import { DriverError, InvalidAddressError } from '../../lib/errors.js';
import { MIB, type MockDevice, mapped, open, PAGE } from '../support/devices.js';

const DIST = new URL('../../dist/index.js', import.meta.url).href;

function offersOf(device: Device): PageOffers {
  if (device.offers === null) throw new Error('this device has no offers');
  return device.offers;
}

/** Two openings of one device. */
function pair(): [MockDevice, MockDevice] {
  const first = open('mock');
  return [first, open('mock', { index: first.index })];
}

describe.each(['sim', 'mock'] as const)('%s: unmapping a run in one call', (backend) => {
  test('takes whole neighbouring pages of any size', () => {
    const device = open(backend);
    const address = device.addressReserve(20 * PAGE);
    const small = new Int32Array(3);
    const large = new Int32Array(1);
    device.memCreate(PAGE, small);
    device.memCreate(4 * PAGE, large);
    device.memMap(address, PAGE, small);
    device.memMap(address + 3 * PAGE, 4 * PAGE, large);
    const before = device.driverCalls().cuMemUnmap ?? 0;
    device.memUnmapRange(address + PAGE, 6 * PAGE);
    expect((device.driverCalls().cuMemUnmap ?? 0) - before).toBe(1);
    expect(() => device.memUnmapRange(address + PAGE, PAGE)).toThrow(InvalidAddressError);
    device.memMap(address + PAGE, PAGE, small.subarray(1));
    device.memUnmapRange(address, 3 * PAGE);
    device.memRelease(small);
    device.memRelease(large);
    device.addressFree(address, 20 * PAGE);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('refuses what is no run of whole pages, and changes nothing', () => {
    const device = open(backend);
    const { address, handles } = mapped(device, 3);
    device.memUnmap(address + PAGE, PAGE, 1);
    for (const [at, bytes] of [
      [address, 2 * PAGE],
      [address + PAGE, PAGE],
      [address, PAGE / 2],
      [address + PAGE / 2, PAGE],
      [4096, PAGE],
    ] as const) {
      expect(() => device.memUnmapRange(at, bytes), `${bytes} at ${at}`).toThrow(InvalidAddressError);
    }
    device.memUnmapRange(address, PAGE);
    device.memUnmapRange(address + 2 * PAGE, PAGE);
    device.memRelease(handles);
  });

  test('a failure leaves everything mapped', () => {
    const device = open(backend);
    const { address, handles } = mapped(device, 3);
    device.mock.failNth('cuMemUnmap', 1, 'CUDA_ERROR_UNKNOWN');
    expect(() => device.memUnmapRange(address, 3 * PAGE)).toThrow(DriverError);
    device.memUnmapRange(address, 3 * PAGE);
    device.memRelease(handles);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });

  test('pages that were given up go back to the driver', () => {
    const device = open(backend);
    const { address, handles } = mapped(device, 3);
    device.memRelease(handles);
    expect(device.memGetInfo().free).toBe(64 * MIB - 3 * PAGE);
    device.memUnmapRange(address, 3 * PAGE);
    expect(device.memGetInfo().free).toBe(64 * MIB);
  });
});

describe('offered pages', () => {
  test('the simulated device has none: it is one thread alone', () => {
    expect(open('sim').offers).toBeNull();
  });

  test('there are others when another opening is there', () => {
    const alone = open('mock');
    expect(offersOf(alone).shared).toBe(false);
    const second = open('mock', { index: alone.index });
    expect(offersOf(alone).shared).toBe(true);
    second.close();
    expect(offersOf(alone).shared).toBe(false);
  });

  test('are taken with their bytes, and their owner learns of it', () => {
    const [owner, taker] = pair();
    const { address, handles } = mapped(owner, 4);
    const alias = owner.addressReserve(4 * PAGE);
    owner.memMap(alias, PAGE, handles);
    owner.memset(address, 7, 4 * PAGE);
    offersOf(owner).offer(handles.subarray(0, 3));
    expect(offersOf(owner).bytes()).toBe(0);
    expect(offersOf(taker).bytes()).toBe(3 * PAGE);

    const taken = new Int32Array(2);
    expect(offersOf(taker).take(2 * PAGE, taken)).toBe(0);
    expect(offersOf(taker).take(PAGE, taken)).toBe(2);
    expect(offersOf(taker).bytes()).toBe(PAGE);
    const room = taker.addressReserve(2 * PAGE);
    taker.memMap(room, PAGE, taken);
    const bytes = new Uint8Array(2 * PAGE);
    taker.memcpyDtoH(bytes, room);
    expect(bytes.every((byte) => byte === 7)).toBe(true);

    const claimed = handles.slice(0, 3);
    expect(offersOf(owner).claim(claimed)).toBe(2);
    expect([...claimed].filter((handle) => handle === -1)).toHaveLength(2);
    // What was taken is unmapped at both places, so that something else can be mapped there.
    const fresh = new Int32Array(1);
    owner.memCreate(PAGE, fresh);
    const gone = claimed.indexOf(-1);
    owner.memMap(address + gone * PAGE, PAGE, fresh);
    owner.memMap(alias + gone * PAGE, PAGE, fresh);
    // Nobody's memory is gone, and each has its own: closing gives it back.
    owner.close();
    expect(taker.memGetInfo().free).toBe(64 * MIB - 2 * PAGE);
    taker.memcpyDtoH(bytes, room);
    expect(bytes.every((byte) => byte === 7)).toBe(true);
  });

  test('belong to their owner as before when nobody took them', () => {
    const [owner, taker] = pair();
    const { address, handles } = mapped(owner, 2);
    offersOf(owner).offer(handles);
    const claimed = handles.slice();
    expect(offersOf(owner).claim(claimed)).toBe(0);
    expect(claimed).toEqual(handles);
    expect(offersOf(taker).take(PAGE, new Int32Array(1))).toBe(0);
    owner.memset(address, 1, 2 * PAGE);
  });

  test('can neither be mapped nor released nor offered again before they are claimed', () => {
    const [owner, taker] = pair();
    const { handles } = mapped(owner, 1);
    const room = owner.addressReserve(PAGE);
    offersOf(owner).offer(handles);
    expect(() => owner.memMap(room, PAGE, handles)).toThrow(InvalidAddressError);
    expect(() => owner.memRelease(handles.slice())).toThrow(InvalidAddressError);
    expect(() => offersOf(owner).offer(handles)).toThrow(InvalidAddressError);
    expect(() => offersOf(taker).offer(handles)).toThrow(InvalidAddressError);
    expect(() => offersOf(owner).offer(new Int32Array([-1]))).toThrow(InvalidAddressError);
    expect(() => offersOf(owner).claim(new Int32Array([2 ** 30]))).toThrow(InvalidAddressError);
  });

  test('of others are given back to the driver on request, as many as it takes', () => {
    const [owner, taker] = pair();
    const { handles } = mapped(owner, 8);
    offersOf(owner).offer(handles);
    expect(offersOf(taker).trim(3 * PAGE - 1)).toBe(3 * PAGE);
    expect(taker.memGetInfo().free).toBe(64 * MIB - 5 * PAGE);
    expect(offersOf(taker).trim(64 * MIB)).toBe(5 * PAGE);
    expect(offersOf(taker).trim(1)).toBe(0);
    expect(offersOf(owner).trim(1)).toBe(0);
    expect(taker.memGetInfo().free).toBe(64 * MIB);
    expect(offersOf(owner).claim(handles)).toBe(8);
  });

  test('an owner that closes takes them with it', () => {
    const [owner, taker] = pair();
    offersOf(owner).offer(mapped(owner, 2).handles);
    owner.close();
    expect(offersOf(taker).bytes()).toBe(0);
    expect(taker.memGetInfo().free).toBe(64 * MIB);
  });

  test.each(['take', 'trim'] as const)('whichever call fails during a %s, nothing is lost', (what) => {
    let positions = 0;
    for (let n = 1; ; n++) {
      const [owner, taker] = pair();
      const { address, handles } = mapped(owner, 3);
      const alias = owner.addressReserve(3 * PAGE);
      owner.memMap(alias, PAGE, handles);
      offersOf(owner).offer(handles);
      const taken = new Int32Array(3).fill(-1);
      taker.mock.failNth('*', n, 'CUDA_ERROR_UNKNOWN');
      let failed = false;
      try {
        const count = what === 'take' ? offersOf(taker).take(PAGE, taken) : offersOf(taker).trim(3 * PAGE) / PAGE;
        failed = count < 3;
      } catch (error) {
        expect(error).toBeInstanceOf(DriverError);
        failed = true;
      }
      taker.mock.clearFailures();
      if (!failed) break;
      positions++;
      // Each page is taken, free on the device, or still its owner's, and usable there at both addresses.
      const claimed = handles.slice();
      offersOf(owner).claim(claimed);
      claimed.forEach((handle, i) => {
        if (handle === -1) return;
        owner.memset(address + i * PAGE, 1, PAGE);
        owner.memset(alias + i * PAGE, 1, PAGE);
      });
      owner.close();
      taker.close();
      expect(open('mock', { index: owner.index }).memGetInfo().free, `after failure ${n}`).toBe(64 * MIB);
    }
    console.log(`${what}: ${positions} positions`);
    expect(positions).toBeGreaterThan(6);
  });
});

describe('requests to give memory back', () => {
  const workers: Worker[] = [];
  afterEach(async () => {
    for (const worker of workers.splice(0)) await worker.terminate();
  });

  /** A worker that has the device open and runs `body`; resolves when it says that it is ready. */
  async function worker(device: Device, body: string): Promise<Worker> {
    const code = `
      const { parentPort, workerData } = require('node:worker_threads');
      (async () => {
        const { openDevice } = await import(${JSON.stringify(DIST)});
        const device = openDevice({ backend: 'mock', index: workerData });
        ${body}
      })();`;
    const made = new Worker(code, { eval: true, workerData: device.index });
    workers.push(made);
    await once(made, 'message');
    return made;
  }

  test.each(['sim', 'mock'] as const)(
    '%s: in one thread each is asked until there is enough, but who asks',
    (backend) => {
      const device = open(backend);
      const asked: string[] = [];
      const asking = (): number => {
        asked.push('asking');
        return 100;
      };
      const ends = [
        device.trimRequests.listen(asking),
        device.trimRequests.listen(() => {
          throw new Error('in trouble');
        }),
        device.trimRequests.listen((bytes) => {
          asked.push(`first ${bytes}`);
          return 6;
        }),
        device.trimRequests.listen((bytes) => {
          asked.push(`second ${bytes}`);
          return 4;
        }),
      ];
      expect(device.trimRequests.ask(10, asking)).toBe(10);
      expect(device.trimRequests.ask(5, asking)).toBe(6);
      expect(asked).toEqual(['first 10', 'second 4', 'first 5']);
      for (const end of ends) end();
      expect(device.trimRequests.ask(10, asking)).toBe(0);
    },
  );

  test('another opening of the same device in this thread is asked', () => {
    const [first, second] = pair();
    second.trimRequests.listen((bytes) => bytes);
    expect(first.trimRequests.ask(10, () => 0)).toBe(10);
    expect(open('mock').trimRequests.ask(10, () => 0)).toBe(0);
  });

  test('another thread answers', async () => {
    const device = open('mock');
    await worker(
      device,
      'device.trimRequests.listen((bytes) => bytes + 5); parentPort.postMessage(0); setInterval(() => {}, 1e6);',
    );
    expect(device.trimRequests.ask(10, () => 0)).toBe(15);
  });

  test('one that throws there has given nothing', async () => {
    const device = open('mock');
    await worker(
      device,
      'device.trimRequests.listen(() => { throw 1; }); parentPort.postMessage(0); setInterval(() => {}, 1e6);',
    );
    expect(device.trimRequests.ask(10, () => 0)).toBe(0);
  });

  test('one that is blocked is not waited for', async () => {
    const device = open('mock');
    const body = `device.trimRequests.listen((bytes) => bytes); parentPort.postMessage(0);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000);`;
    await worker(device, body);
    const start = performance.now();
    expect(device.trimRequests.ask(10, () => 0)).toBe(0);
    expect(performance.now() - start).toBeLessThan(1500);
  });

  test('a listener does not keep its thread alive, and one that has ended is not asked', async () => {
    const device = open('mock');
    const made = await worker(device, 'device.trimRequests.listen((bytes) => bytes); parentPort.postMessage(0);');
    await once(made, 'exit');
    expect(device.trimRequests.ask(10, () => 0)).toBe(0);
  });

  test('threads may end at any moment while they are asked', async () => {
    const device = open('mock');
    for (let round = 0; round < 20; round++) {
      // It ends when it has had its message, not before somebody listens for its end.
      const made = await worker(
        device,
        `device.trimRequests.listen((bytes) => bytes);
        parentPort.once('message', () => {});
        parentPort.postMessage(0);`,
      );
      const exited = once(made, 'exit');
      const ended = round % 2 === 0 ? made.terminate() : exited;
      made.postMessage(0);
      for (let i = 0; i < 5; i++) device.trimRequests.ask(10, () => 0);
      await ended;
    }
  });

  test('two that ask each other at once do not wait for each other', async () => {
    const device = open('mock');
    const made = await worker(
      device,
      `device.trimRequests.listen(() => 1);
      parentPort.on('message', () => {
        for (let i = 0; i < 50; i++) device.trimRequests.ask(10, () => 0);
        parentPort.postMessage(0);
      });
      parentPort.postMessage(0);`,
    );
    device.trimRequests.listen(() => 1);
    made.postMessage(0);
    const start = performance.now();
    for (let i = 0; i < 50; i++) device.trimRequests.ask(10, () => 0);
    await once(made, 'message');
    expect(performance.now() - start).toBeLessThan(8000);
  });
});

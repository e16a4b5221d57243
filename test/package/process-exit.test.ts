// However a process or a worker ends, with everything still alive on its devices: the expected exit code, nothing on stderr, and
// the memory is free for the others.

import { expect, test } from 'vitest';
import { compiled, runProgram } from '../support/child.js';

/** Makes one of everything on a shared mock device and leaves it alive, with asynchronous copies in flight. */
const LEAVE_EVERYTHING = `
const MIB = 1024 * 1024, PAGE = 2 * MIB, CAPACITY = 512 * MIB;
export const kept = [];
export function leaveEverything(index) {
  const device = openDevice({ backend: 'mock', index, capacity: CAPACITY });
  const stream = device.createStream();
  const segment = device.malloc(64 * MIB);
  const handles = new Int32Array(4);
  const range = device.addressReserve(4 * PAGE);
  device.memCreate(PAGE, handles);
  device.memMap(range, PAGE, handles);
  const spare = new Int32Array(2);
  device.memCreate(PAGE, spare);
  const event = device.createEvent();
  event.record(stream);
  const pinned = new Uint8Array(device.hostAlloc(4 * MIB));
  const source = new Uint8Array(32 * MIB).fill(7), target = new Uint8Array(32 * MIB);
  kept.push(device, stream, handles, spare, event, pinned);
  for (let i = 0; i < 4; i++) {
    kept.push(device.memcpyHtoDAsync(segment, source, stream), device.memcpyDtoHAsync(target, segment, stream));
  }
  return device;
}
`;

const HEADER = `import { openDevice } from ${compiled('device/open.js')};\n${LEAVE_EVERYTHING.replaceAll('export ', '')}\n`;

const WORKER = `
import { Worker, isMainThread, workerData, parentPort } from 'node:worker_threads';
import { once } from 'node:events';
${HEADER}
async function everythingIsFree(device) {
  const { free, total } = device.memGetInfo();
  if (free !== total) throw new Error(\`\${total - free} bytes are still taken\`);
  device.free(device.malloc(CAPACITY));
}
`;

async function endsQuietly(text: string, code = 0): Promise<string> {
  const ended = await runProgram(text);
  expect({ code: ended.code, signal: ended.signal, stderr: ended.stderr }).toEqual({ code, signal: null, stderr: '' });
  return ended.stdout;
}

test('normal end', async () => {
  expect(await endsQuietly(`${HEADER} leaveEverything(0); console.log('done');`)).toBe('done\n');
});

test('normal end after everything was closed', async () => {
  await endsQuietly(`${HEADER} const device = leaveEverything(0); await Promise.all(kept); device.close();`);
});

test('closing with copies in flight waits for them', async () => {
  const text = `${HEADER} const device = leaveEverything(0); device.close();
    const results = await Promise.allSettled(kept.filter((entry) => entry instanceof Promise));
    console.log(results.map(({ status }) => status).join());`;
  expect(await endsQuietly(text)).toBe(`${Array(8).fill('fulfilled').join()}\n`);
});

test('process.exit', async () => {
  await endsQuietly(`${HEADER} leaveEverything(0); process.exit(3);`, 3);
});

test('process.exit in the middle of a turn, with several devices', async () => {
  await endsQuietly(
    `${HEADER} leaveEverything(0); leaveEverything(1); leaveEverything(0); setTimeout(() => process.exit(4), 5);`,
    4,
  );
});

test('an exit handler that still uses the device', async () => {
  const text = `${HEADER} leaveEverything(0); process.on('exit', () => { kept[0].synchronize(); process.exitCode = 5; });`;
  await endsQuietly(text, 5);
});

test('an uncaught error', async () => {
  const { code, signal, stderr } = await runProgram(`${HEADER} leaveEverything(0); throw new Error('on purpose');`);
  expect({ code, signal }).toEqual({ code: 1, signal: null });
  expect(stderr).toMatch(/^file:.*\n.*\n.*\n\nError: on purpose\n( +at .*\n)+\nNode\.js v[\d.]+\n$/);
});

test('an unhandled rejection of a copy', async () => {
  const { code, stderr } = await runProgram(
    `${HEADER} leaveEverything(0); kept[0].memcpyHtoDAsync(4096, new Uint8Array(1));`,
  );
  expect(code).toBe(1);
  expect(stderr).toContain('ERR_CUDALLOC');
});

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'])('%s', async (signal) => {
  const ended = await runProgram(
    `${HEADER} leaveEverything(0); setInterval(() => {}, 1000); process.kill(process.pid, '${signal}');`,
  );
  expect(ended).toMatchObject({ code: null, signal, stderr: '' });
});

test.each([
  ['ends normally', '', ''],
  ['calls process.exit', 'process.exit(0);', ''],
  [
    'is terminated',
    "parentPort.postMessage('ready'); setInterval(() => {}, 1000);",
    "await once(worker, 'message'); await worker.terminate();",
  ],
  [
    'is terminated inside a busy loop',
    "parentPort.postMessage('ready'); for (;;) kept[0].memGetInfo();",
    "await once(worker, 'message'); await worker.terminate();",
  ],
  ['throws', "throw new Error('on purpose');", ''],
])('a worker that %s leaves its memory to the others', async (_, inWorker, inMain) => {
  const text = `${WORKER}
    if (isMainThread) {
      const device = openDevice({ backend: 'mock', index: 0, capacity: CAPACITY });
      const worker = new Worker(new URL(import.meta.url));
      worker.on('error', () => {});
      const exited = new Promise((resolve) => worker.on('exit', resolve));
      ${inMain}
      await exited;
      await everythingIsFree(device);
      console.log('free');
    } else {
      leaveEverything(0);
      ${inWorker}
    }`;
  expect(await endsQuietly(text)).toBe('free\n');
});

test('four workers on one device end in any order while others go on', async () => {
  const text = `${WORKER}
    if (isMainThread) {
      const device = openDevice({ backend: 'mock', index: 0, capacity: CAPACITY });
      for (let round = 0; round < 5; round++) {
        const workers = [0, 1, 2, 3].map((n) => new Worker(new URL(import.meta.url), { workerData: (n + round) % 4 }));
        await Promise.all(workers.map(async (worker, n) => {
          const exited = once(worker, 'exit');
          await once(worker, 'message');
          if ((n + round) % 4 === 3) await worker.terminate();
          await exited;
        }));
        await everythingIsFree(device);
      }
      console.log('free');
    } else {
      leaveEverything(0);
      parentPort.postMessage('ready');
      if (workerData === 0) process.exit(0);
      if (workerData === 1) setTimeout(() => {}, 20);
      if (workerData === 3) setInterval(() => {}, 1000);
    }`;
  expect(await endsQuietly(text)).toBe('free\n');
});

test('the process exits while workers are in the middle of their work', async () => {
  const text = `${WORKER}
    if (isMainThread) {
      leaveEverything(0);
      const workers = [0, 1, 2].map(() => new Worker(new URL(import.meta.url)));
      await Promise.all(workers.map((worker) => once(worker, 'message')));
      process.exit(6);
    } else {
      leaveEverything(0);
      parentPort.postMessage('ready');
      for (;;) kept[0].free(kept[0].malloc(MIB));
    }`;
  await endsQuietly(text, 6);
});

test("a worker cannot use the main thread's device, and both share one memory", async () => {
  const text = `${WORKER}
    if (isMainThread) {
      const device = openDevice({ backend: 'mock', index: 0, capacity: CAPACITY });
      device.malloc(100 * MIB);
      const worker = new Worker(new URL(import.meta.url));
      const [free] = await once(worker, 'message');
      console.log(CAPACITY - free === 300 * MIB);
    } else {
      const device = openDevice({ backend: 'mock', index: 0 });
      device.malloc(200 * MIB);
      parentPort.postMessage(device.memGetInfo().free);
    }`;
  expect(await endsQuietly(text)).toBe('true\n');
});

/** Runs a program that can ask for collection: `await collect()`, and `external()` for the bytes that V8 counts. */
async function endsQuietlyCollecting(body: string): Promise<void> {
  const text = `${HEADER}
    async function collect() {
      for (let i = 0; i < 3; i++) { globalThis.gc(); await new Promise((resolve) => setTimeout(resolve, 10)); }
    }
    const external = () => process.memoryUsage().external;
    function near(actual, expected) {
      if (Math.abs(actual - expected) > MIB / 2) throw new Error(\`\${actual} bytes of external memory, not \${expected}\`);
    }
    await collect();
    const before = external();
    ${body}`;
  const ended = await runProgram(text, { args: ['--expose-gc'] });
  expect(ended).toMatchObject({ code: 0, stderr: '' });
}

test('pinned memory is reported to V8 and taken back when it is freed, or its device closed', async () => {
  await endsQuietlyCollecting(`
    const device = openDevice({ backend: 'mock', capacity: CAPACITY });
    const buffers = Array.from({ length: 16 }, () => device.hostAlloc(4 * MIB));
    near(external(), before + 64 * MIB);
    for (const buffer of buffers.splice(0, 8)) device.hostFree(buffer);
    await collect();
    near(external(), before + 32 * MIB);
    device.close();
    await collect();
    near(external(), before);
  `);
});

test('pinned buffers that are never freed are collected', async () => {
  await endsQuietlyCollecting(`
    const device = openDevice({ backend: 'mock', capacity: CAPACITY });
    for (let i = 0; i < 200; i++) device.hostAlloc(MIB);
    await collect();
    near(external(), before);
    device.free(device.malloc(CAPACITY));
  `);
});

test('devices, streams and events that are made and dropped again and again leak nothing', async () => {
  await endsQuietlyCollecting(`
    for (let round = 0; round < 200; round++) {
      const device = openDevice({ backend: 'mock', capacity: CAPACITY });
      for (let i = 0; i < 20; i++) { device.createStream(); device.createEvent(); device.hostAlloc(1 << 16); }
      device.hostFree(device.hostAlloc(MIB));
      device.close();
      if (round % 50 === 0) await collect();
    }
    await collect();
    near(external(), before);
    const resident = process.memoryUsage().rss;
    if (resident > 512 * MIB) throw new Error(\`\${resident} bytes are resident\`);
  `);
});

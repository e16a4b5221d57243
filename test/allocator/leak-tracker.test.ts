// Buffers that the garbage collector took before they were freed: warned about once, given back through the stream rules.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { compiled, runProgram } from '../support/child.js';
import { MIB, open } from '../support/devices.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

interface Warning {
  readonly name: string;
  readonly code: string;
  readonly message: string;
  readonly detail?: string;
}

let warnings: Warning[] = [];
const note = (warning: Error): void => {
  if (warning.name === 'CudallocLeakWarning') warnings.push(warning as unknown as Warning);
};

beforeEach(() => {
  warnings = [];
  process.on('warning', note);
});
afterEach(() => {
  process.off('warning', note);
});

/** Collects until it holds, or for two seconds. */
async function collectUntil(holds: () => boolean): Promise<void> {
  for (let i = 0; i < 100 && !holds(); i++) {
    collectGarbage();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Collects what the function leaves behind, and says whether the witness it made was collected too. */
async function collectAfter(make: (watch: (witness: object) => void) => void): Promise<boolean> {
  let gone = false;
  const registry = new FinalizationRegistry(() => {
    gone = true;
  });
  make((witness) => registry.register(witness, 0));
  await collectUntil(() => gone);
  await new Promise((resolve) => setTimeout(resolve, 50));
  return gone;
}

describe('a buffer that is forgotten', () => {
  test('is warned about once and its memory is used again', async () => {
    const allocator = new CachingAllocator({ device: open('sim') });
    allocator.allocate(3 * MIB);
    await collectUntil(() => warnings.length > 0);
    expect(allocator.memoryAllocated()).toBe(0);
    expect(await collectAfter((watch) => watch({}))).toBe(true);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatchObject({ name: 'CudallocLeakWarning', code: 'CUDALLOC_LEAK' });
    expect(warnings[0]?.message).toContain('3.00 MiB');
    expect(warnings[0]?.detail).toBeUndefined();
  });

  test('names the place that made it when stacks are on', async () => {
    const allocator = new CachingAllocator({ device: open('sim') });
    allocator.recordMemoryHistory({ stacks: true });
    function forgetful(): void {
      allocator.allocate(1000);
    }
    forgetful();
    await collectUntil(() => warnings.length > 0);
    expect(warnings[0]?.detail).toMatch(/^allocated\n\s+at forgetful \(.*leak-tracker\.test\.ts:\d+\)/);
  });

  test('goes back through the stream rules', async () => {
    const allocator = new CachingAllocator({ device: open('sim') });
    const { device } = allocator;
    const stream = device.createStream();
    device.mock?.holdEvents();
    allocator.allocate(3 * MIB).recordStream(stream);
    await collectUntil(() => warnings.length > 0);
    const active = (): number | undefined => allocator.memoryStats()['active_bytes.all.current'];
    allocator.malloc(1);
    expect([allocator.memoryAllocated(), active()]).toEqual([512, 3 * MIB + 512]);
    device.mock?.releaseEvents();
    allocator.malloc(1);
    expect(active()).toBe(1024);
  });

  test('is taken back silently where warnings are off', async () => {
    const allocator = new CachingAllocator({ device: open('sim'), leakWarnings: false });
    allocator.allocate(3 * MIB);
    await collectUntil(() => allocator.memoryAllocated() === 0);
    expect(allocator.memoryAllocated()).toBe(0);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(warnings).toEqual([]);
  });
});

describe('no warning', () => {
  test('for what was freed, disposed, empty, bare, or still held', async () => {
    const allocator = new CachingAllocator({ device: open('sim') });
    const held = allocator.allocate(512);
    const gone = await collectAfter((watch) => {
      allocator.allocate(512).free();
      allocator.allocate(512)[Symbol.dispose]();
      allocator.allocate(0);
      allocator.malloc(512);
      watch({});
    });
    expect(gone).toBe(true);
    expect(warnings).toEqual([]);
    expect(allocator.memoryAllocated()).toBe(1024);
    held.free();
  });

  test('for buffers of an allocator that was closed: their memory went back with it', async () => {
    const allocator = new CachingAllocator({ device: open('sim') });
    const gone = await collectAfter((watch) => {
      watch(allocator.allocate(512));
      allocator.close();
    });
    expect(gone).toBe(true);
    expect(warnings).toEqual([]);
  });
});

test('a finalizer that cannot give the memory back does not end the process', async () => {
  const ended = await runProgram(
    `
    import { CachingAllocator, openDevice } from ${compiled('index.js')};
    const device = openDevice({ backend: 'sim', capacity: 64 * 2 ** 20 });
    const allocator = new CachingAllocator({ device });
    const stream = device.createStream();
    (() => { allocator.allocate(4096).recordStream(stream); })();
    device.mock.loseDevice();
    for (let i = 0; i < 20; i++) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    console.log('alive');
  `,
    { args: ['--expose-gc'] },
  );
  expect([ended.code, ended.stdout.trim()]).toEqual([0, 'alive']);
});

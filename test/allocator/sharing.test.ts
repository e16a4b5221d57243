// Buffers that several processes map: exported here, imported there, and the other way round.

import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { ShareableHandle } from '../../lib/allocator/shareable-handle.js';
import {
  CapturingError,
  ConfigError,
  CudallocError,
  DoubleFreeError,
  DriverError,
  InvalidSizeError,
  OutOfMemoryError,
  UnsupportedError,
  UseAfterFreeError,
  WrongThreadError,
} from '../../lib/errors.js';
import { MIB, type MockDevice, open, thrownBy } from '../support/devices.js';
import { checkInvariants } from '../support/invariants.js';
import { Peer } from '../support/peer.js';

const CAPACITY = 64 * MIB;
const POLICIES = ['pytorch', 'default', 'paged'] as const;
type PolicyName = (typeof POLICIES)[number];

const IMPORT = 'buffers.set(data.token, allocator.importHandle(data)); return buffers.get(data.token).size;';

function allocatorOn(device: MockDevice, policy: PolicyName = 'default'): CachingAllocator {
  return new CachingAllocator({ device, policy, leakWarnings: false });
}

/** As it arrives in another process. */
function sent(handle: ShareableHandle): ShareableHandle {
  return JSON.parse(JSON.stringify(handle)) as ShareableHandle;
}

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}

describe.each(POLICIES)('policy %s', (policy) => {
  test('what one process writes the other reads, both ways, and neither counts the memory of the other', async () => {
    const device = open('mock');
    const allocator = allocatorOn(device, policy);
    await using peer = await Peer.start();
    const buffer = allocator.allocate(5 * MIB, { shareable: true });
    buffer.write(Uint8Array.of(1, 2, 3), 3 * MIB);
    const handle = buffer.exportHandle();
    expect(handle).toMatchObject({ backend: 'mock', device: device.uuid, size: 5 * MIB, bytes: 6 * MIB });
    expect(await peer.ask(IMPORT, sent(handle))).toBe(5 * MIB);
    const { result, stats, free } = await peer.ask<{ result: number[]; stats: Record<string, number>; free: number }>(
      `const buffer = buffers.get(data);
       const result = [...buffer.read(3 * 2 ** 20, 3)];
       buffer.write(Uint8Array.of(7, 8), 5 * 2 ** 20 - 2);
       return { result, stats: allocator.memoryStats(), free: device.memGetInfo().free };`,
      handle.token,
    );
    expect(result).toEqual([1, 2, 3]);
    expect([...buffer.read(5 * MIB - 2)]).toEqual([7, 8]);
    expect(stats).toMatchObject({ 'cudalloc.imported_bytes': 6 * MIB, 'reserved_bytes.all.current': 0 });
    expect(free).toBe(CAPACITY);
    expect(allocator.memoryStats()).toMatchObject({
      'cudalloc.shareable_bytes': 6 * MIB,
      'reserved_bytes.all.current': 6 * MIB,
      'allocated_bytes.all.current': 6 * MIB,
      'requested_bytes.all.current': 5 * MIB,
    });
    checkInvariants(allocator);
    buffer.free();
    expect(device.memGetInfo().free).toBe(CAPACITY);
    checkInvariants(allocator);
    // The other process has it until it frees it.
    expect(await peer.ask('return [...buffers.get(data).read(3 * 2 ** 20, 3)]', handle.token)).toEqual([1, 2, 3]);
    await peer.ask('buffers.get(data).free()', handle.token);
    expect(await peer.ask("return allocator.memoryStats()['cudalloc.imported_bytes']")).toBe(0);
  });

  test('takes cached memory when the device has no more, fails as any other request, and goes back at once', () => {
    const device = open('mock');
    const allocator = allocatorOn(device, policy);
    allocator.allocate(40 * MIB).free();
    const buffer = allocator.allocate(40 * MIB, { shareable: true });
    checkInvariants(allocator);
    const error = thrownBy(() => allocator.allocate(30 * MIB, { shareable: true })) as OutOfMemoryError;
    expect(error).toBeInstanceOf(OutOfMemoryError);
    expect(error.details).toMatchObject({ requested: 30 * MIB, rounded: 30 * MIB, reserved: 40 * MIB });
    checkInvariants(allocator);
    const plain = allocator.allocate(10 * MIB);
    buffer.free();
    expect(device.memGetInfo().free).toBe(CAPACITY - allocator.memoryReserved());
    expect(allocator.memoryReserved()).toBeLessThan(32 * MIB);
    // Neither comes from the cache nor goes there.
    plain.free();
    const before = allocator.memoryReserved();
    const again = allocator.allocate(2 * MIB, { shareable: true });
    expect(allocator.memoryReserved()).toBe(before + 2 * MIB);
    again.free();
    allocator.close();
    expect(device.memGetInfo().free).toBe(CAPACITY);
  });

  test('a memory fraction holds for it, a pressure handler is asked', () => {
    const device = open('mock');
    const allocator = allocatorOn(device, policy);
    allocator.setPerProcessMemoryFraction(0.5);
    expect(() => allocator.allocate(34 * MIB, { shareable: true })).toThrow(OutOfMemoryError);
    const first = allocator.allocate(30 * MIB, { shareable: true });
    const stop = allocator.registerPressureHandler({
      reclaimSync: () => {
        first.free();
        return 30 * MIB;
      },
      reclaim: async () => 0,
    });
    const second = allocator.allocate(20 * MIB, { shareable: true });
    expect(first.freed).toBe(true);
    stop();
    second.free();
    allocator.close();
  });

  test('stays where it is while the rest is paused or compacted', () => {
    const device = open('mock');
    const allocator =
      policy === 'paged'
        ? allocatorOn(device, policy)
        : new CachingAllocator({ device, policy, conf: 'expandable_segments:True' });
    const buffer = allocator.allocate(4 * MIB, { shareable: true });
    const other = allocator.allocate(3 * MIB);
    buffer.fill(5);
    other.fill(6);
    const held = allocator.memoryReserved();
    allocator.compact();
    expect(allocator.pause()).toBe(held - 4 * MIB);
    expect(allocator.memoryReserved()).toBe(4 * MIB);
    expect(device.memGetInfo().free).toBe(CAPACITY - 4 * MIB);
    expect(buffer.read(0, 1)[0]).toBe(5);
    const late = thrownBy(() => allocator.allocate(1, { shareable: true })) as CudallocError;
    expect(late.code).toBe('ERR_CUDALLOC_PAUSED');
    const exported = buffer.exportHandle();
    expect(exported.size).toBe(4 * MIB);
    allocator.resume();
    expect([buffer.read(0, 1)[0], other.read(0, 1)[0]]).toEqual([5, 6]);
    checkInvariants(allocator);
    allocator.pause();
    buffer.free();
    expect(device.memGetInfo().free).toBe(CAPACITY);
    allocator.resume();
    other.free();
    allocator.close();
    expect(device.memGetInfo().free).toBe(CAPACITY);
  });

  test('is in snapshots and in the history', () => {
    const allocator = allocatorOn(open('mock'), policy);
    allocator.recordMemoryHistory();
    const buffer = allocator.allocate(3 * MIB, { shareable: true });
    const { segments } = allocator.memorySnapshot();
    expect(segments).toMatchObject([{ totalSize: 4 * MIB, isExpandable: false, requestedSize: 3 * MIB }]);
    expect(allocator.baseAllocation(buffer.address)).toEqual({ base: buffer.address, size: 4 * MIB });
    buffer.free();
    const { deviceTraces, stacks } = allocator.memorySnapshot();
    expect(deviceTraces[0]?.entries(stacks).map(({ action }) => action)).toEqual([
      'segment_alloc',
      'alloc',
      'free_requested',
      'free_completed',
      'segment_free',
    ]);
    allocator.close();
  });
});

describe('the same again', () => {
  test('a buffer has one handle, and a handle one address', async () => {
    const allocator = allocatorOn(open('mock'));
    await using peer = await Peer.start();
    const buffer = allocator.allocate(1, { shareable: true });
    const handle = buffer.exportHandle();
    expect(buffer.exportHandle()).toEqual(handle);
    const addresses = await peer.ask<number[]>(
      `const [one, two] = [allocator.importHandle(data), allocator.importHandle({ ...data })];
       one.write(Uint8Array.of(9));
       one.free();
       buffers.set('two', two);
       return [two.address, two.read()[0]];`,
      handle,
    );
    expect(addresses[1]).toBe(9);
    const mapped = "return [buffers.get('two').address, allocator.memoryStats()['cudalloc.imported_bytes']]";
    expect(await peer.ask(mapped)).toEqual([addresses[0], 2 * MIB]);
    const third = "return allocator.importHandle(data).address === buffers.get('two').address";
    expect(await peer.ask(third, handle)).toBe(true);
    allocator.close();
  });

  test('freed and allocated again it is other memory', () => {
    const allocator = allocatorOn(open('mock'));
    const handles = Array.from({ length: 3 }, () => {
      using buffer = allocator.allocate(MIB, { shareable: true });
      return buffer.exportHandle();
    });
    expect(new Set(handles.map(({ token }) => token)).size).toBe(3);
    for (const handle of handles) expect(() => allocator.importHandle(handle)).toThrow(UseAfterFreeError);
  });
});

describe('who ends first', () => {
  test('what was freed cannot be imported any more, though its descriptor is used again', async () => {
    const allocator = allocatorOn(open('mock'));
    await using peer = await Peer.start();
    const buffer = allocator.allocate(MIB, { shareable: true });
    const handle = buffer.exportHandle();
    buffer.free();
    // The numbers of the descriptors are taken by another buffer's.
    const other = allocator.allocate(MIB, { shareable: true });
    const now = other.exportHandle();
    expect([now.descriptor, now.witness]).toEqual([handle.descriptor, handle.witness]);
    const error = await peer.errorOf(IMPORT, handle);
    expect(error).toMatchObject({ code: 'ERR_CUDALLOC_USE_AFTER_FREE' });
    expect(error.message).toContain(`Process ${process.pid} does not share this memory any more`);
    expect(await peer.ask(IMPORT, now)).toBe(MIB);
    allocator.close();
  });

  test('a process that has ended leaves its memory to those who have it mapped, and to nobody else', async () => {
    const allocator = allocatorOn(open('mock'));
    const peer = await Peer.start();
    const handle = await peer.ask<ShareableHandle>(
      `const buffer = allocator.allocate(1000, { shareable: true });
       buffers.set('kept', buffer);
       buffer.fill(3);
       return buffer.exportHandle();`,
    );
    const buffer = allocator.importHandle(handle);
    expect(buffer.size).toBe(1000);
    await peer.kill();
    expect(Buffer.alloc(1000, 3).equals(buffer.read())).toBe(true);
    buffer.free();
    expect(() => allocator.importHandle(handle)).toThrow(UseAfterFreeError);
    allocator.close();
  });

  test('closing an allocator unmaps what it had imported', () => {
    const device = open('mock');
    const exporting = allocatorOn(device);
    const importing = allocatorOn(device);
    const handle = exporting.allocate(MIB, { shareable: true }).exportHandle();
    const buffer = importing.importHandle(handle);
    const stats = importing.memoryStats();
    expect(stats['cudalloc.imported_bytes']).toBe(2 * MIB);
    importing.close();
    expect(importing.memoryStats()['cudalloc.imported_bytes']).toBe(0);
    expect(buffer.freed).toBe(true);
    expect(() => buffer.read()).toThrow(UseAfterFreeError);
    expect(() => importing.importHandle(handle)).toThrow(UseAfterFreeError);
    exporting.close();
    expect(device.memGetInfo().free).toBe(CAPACITY);
  });

  test('closing the device first is no error', () => {
    const device = open('mock');
    const allocator = allocatorOn(device);
    const buffer = allocator.allocate(MIB, { shareable: true });
    const imported = allocator.importHandle(buffer.exportHandle());
    const early = allocator.allocate(MIB, { shareable: true });
    const earlyImport = allocator.importHandle(early.exportHandle());
    device.close();
    early.free();
    earlyImport.free();
    allocator.close();
    expect([buffer.freed, imported.freed]).toEqual([true, true]);
  });

  test('no descriptor is left behind', () => {
    const device = open('mock');
    const allocator = allocatorOn(device);
    const before = openDescriptors();
    for (let round = 0; round < 5; round++) {
      const buffer = allocator.allocate(3 * MIB, { shareable: true });
      const imported = allocator.importHandle(buffer.exportHandle());
      if (round === 2) allocator.importHandle(buffer.exportHandle()).free();
      buffer.free();
      imported.free();
    }
    expect(openDescriptors()).toBe(before);
    for (let round = 0; round < 5; round++) {
      allocator.importHandle(allocator.allocate(MIB, { shareable: true }).exportHandle());
    }
    allocator.close();
    expect(openDescriptors()).toBe(before);
  });
});

describe('descriptors that are passed on by other means', () => {
  test('inherited by a child process', async () => {
    const allocator = allocatorOn(open('mock'));
    const buffer = allocator.allocate(MIB, { shareable: true });
    buffer.fill(4);
    const handle = buffer.exportHandle();
    await using peer = await Peer.start([handle.descriptor]);
    const read = 'return allocator.importHandle(data, { descriptor: 4 }).read(0, 1)[0]';
    expect(await peer.ask(read, handle)).toBe(4);
    allocator.close();
  });

  test('children inherit none that was not passed on', async () => {
    const allocator = allocatorOn(open('mock'));
    const { descriptor, witness } = allocator.allocate(MIB, { shareable: true }).exportHandle();
    await using peer = await Peer.start();
    const links = await peer.ask<string[]>(
      `const { readdirSync, readlinkSync } = process.getBuiltinModule('node:fs');
       return readdirSync('/proc/self/fd').flatMap((fd) => {
         try { return [readlinkSync('/proc/self/fd/' + fd)]; } catch { return []; }
       });`,
    );
    expect(descriptor).not.toBe(witness);
    expect(links.filter((link) => /witness|mock-page/.test(link))).toEqual([]);
    allocator.close();
  });

  test('what is no page is refused', async () => {
    const device = open('mock');
    const allocator = allocatorOn(device);
    const handle = allocator.allocate(MIB, { shareable: true }).exportHandle();
    for (const descriptor of [0, 1, handle.witness, 987_654]) {
      const error = thrownBy(() => allocator.importHandle(handle, { descriptor })) as DriverError;
      expect(error).toBeInstanceOf(DriverError);
      expect(error).toMatchObject({ fn: 'cuMemImportFromShareableHandle', cudaError: 'CUDA_ERROR_INVALID_VALUE' });
    }
    for (const descriptor of [-1, 1.5, Number.NaN]) {
      expect(() => allocator.importHandle(handle, { descriptor })).toThrow(InvalidSizeError);
    }
    allocator.close();
  });

  test.skipIf(process.getuid?.() !== 0)('another user may not take it, and is told what to do', async () => {
    const allocator = allocatorOn(open('mock'));
    const handle = allocator.allocate(MIB, { shareable: true }).exportHandle();
    await using peer = await Peer.start([handle.descriptor]);
    const nobody = 65534;
    await peer.ask('process.setgid(data); process.setuid(data)', nobody);
    const error = await peer.errorOf(IMPORT, handle);
    expect(error.code).toBe('ERR_CUDALLOC_UNSUPPORTED');
    expect(error.message).toMatch(/pidfd_getfd: Operation not permitted.*ptrace_scope.*pass the descriptor itself on/);
    const read = 'return allocator.importHandle(data, { descriptor: 4 }).size';
    expect(await peer.ask(read, handle)).toBe(MIB);
    allocator.close();
  });
});

describe('refused', () => {
  test('where there is nothing to share, with the reason', () => {
    const device = open('sim');
    expect(device.features.sharing).toMatchObject({ works: false });
    const allocator = new CachingAllocator({ device });
    const error = thrownBy(() => allocator.allocate(MIB, { shareable: true }));
    expect(error).toBeInstanceOf(UnsupportedError);
    expect((error as Error).message).toContain('the simulated device holds no bytes');
    expect(allocator.memorySnapshot().segments).toEqual([]);
    const handle = allocatorOn(open('mock')).allocate(1, { shareable: true }).exportHandle();
    expect(() => allocator.importHandle({ ...handle, backend: 'sim', device: '' })).toThrow(UnsupportedError);
  });

  test('a buffer that was not asked for as shareable, an empty one, an imported one, a freed one', () => {
    const allocator = allocatorOn(open('mock'));
    expect(() => allocator.allocate(MIB).exportHandle()).toThrow(/shareable: true/);
    const empty = allocator.allocate(0, { shareable: true });
    expect(empty.size).toBe(0);
    expect(() => empty.exportHandle()).toThrow(UnsupportedError);
    empty.free();
    const buffer = allocator.allocate(MIB, { shareable: true });
    const imported = allocator.importHandle(buffer.exportHandle());
    expect(() => imported.exportHandle()).toThrow(UnsupportedError);
    expect(() => allocator.free(buffer.address)).toThrow(CudallocError);
    expect(() => allocator.free(imported.address)).toThrow(CudallocError);
    imported.free();
    expect(() => imported.free()).toThrow(DoubleFreeError);
    buffer.free();
    expect(() => buffer.free()).toThrow(DoubleFreeError);
    expect(() => buffer.exportHandle()).toThrow(UseAfterFreeError);
  });

  test('options that contradict it', async () => {
    const allocator = allocatorOn(open('mock'));
    for (const other of [{ movable: true }, { pool: allocator.createMemPool() }]) {
      const options = { shareable: true, ...other };
      const error = thrownBy(() => allocator.allocate(MIB, options)) as ConfigError;
      expect(error).toBeInstanceOf(ConfigError);
      expect(error.key).toBe(Object.keys(other)[0]);
      await expect(allocator.allocateAsync(MIB, options)).rejects.toThrow(ConfigError);
    }
  });

  test('sizes and streams as in any other request', () => {
    const allocator = allocatorOn(open('mock'));
    for (const bytes of [-1, 1.5, Number.NaN, 2 ** 60]) {
      expect(() => allocator.allocate(bytes, { shareable: true })).toThrow(InvalidSizeError);
    }
    const stream = open('mock').createStream();
    expect(() => allocator.allocate(1, { shareable: true, stream })).toThrow(WrongThreadError);
    const handle = allocator.allocate(1, { shareable: true }).exportHandle();
    expect(() => allocator.importHandle(handle, { stream })).toThrow(WrongThreadError);
  });

  test('handles that are none', () => {
    const allocator = allocatorOn(open('mock'));
    const handle = allocator.allocate(MIB, { shareable: true }).exportHandle();
    const bad: unknown[] = [null, undefined, 1, 'handle', {}];
    for (const key of Object.keys(handle)) {
      const { [key as keyof ShareableHandle]: _, ...rest } = handle;
      bad.push(rest, { ...handle, [key]: null }, { ...handle, [key]: {} });
      if (key !== 'backend' && key !== 'device' && key !== 'token') bad.push({ ...handle, [key]: '1' });
    }
    for (const each of bad)
      expect(() => allocator.importHandle(each as ShareableHandle), String(each)).toThrow(TypeError);
    expect(() => allocator.importHandle({ ...handle, backend: 'cuda' })).toThrow(WrongThreadError);
    const off: Partial<ShareableHandle>[] = [
      { bytes: 0 },
      { bytes: -1 },
      { bytes: 4 * MIB },
      { bytes: 2 ** 53 - 1 },
      { process: -1 },
      { process: 2 ** 40 },
      { process: 0 },
      { descriptor: -1 },
      { witness: 2 ** 33 },
      { token: '' },
      { size: -1 },
      { size: 2 * MIB + 1 },
    ];
    for (const change of off) {
      const error = thrownBy(() => allocator.importHandle({ ...handle, ...change }));
      const typed = error instanceof CudallocError || error instanceof RangeError;
      expect(typed, `${JSON.stringify(change)}: ${String(error)}`).toBe(true);
    }
    checkInvariants(allocator);
    expect(allocator.importHandle(handle).size).toBe(MIB);
  });

  test('freeing during a capture; it works afterwards', () => {
    const device = open('mock');
    const allocator = allocatorOn(device);
    const stream = device.createStream();
    const buffer = allocator.allocate(MIB, { shareable: true, stream });
    device.mock.setCapturing(stream, true);
    expect(() => buffer.free()).toThrow(CapturingError);
    expect(buffer.freed).toBe(false);
    device.mock.setCapturing(stream, false);
    buffer.free();
    expect(device.memGetInfo().free).toBe(CAPACITY);
  });
});

describe('work under way', () => {
  test('is waited for before memory is unmapped', () => {
    const device = open('mock');
    const allocator = allocatorOn(device);
    const [one, two] = [device.createStream(), device.createStream()];
    device.mock.holdEvents();
    const buffer = allocator.allocate(MIB, { shareable: true, stream: one });
    const imported = allocator.importHandle(buffer.exportHandle(), { stream: two });
    buffer.recordStream(two);
    imported.recordStream(one);
    for (const stream of [one, two]) {
      const event = device.createEvent();
      event.record(stream);
    }
    buffer.free();
    imported.free();
    expect(device.mock.counters().unmapUnderPendingWork ?? 0).toBe(0);
    checkInvariants(allocator);
  });

  test('what the stream wrote before the export is there', () => {
    const device = open('mock');
    const allocator = allocatorOn(device);
    const buffer = allocator.allocate(MIB, { shareable: true, stream: device.createStream() });
    device.mock.holdEvents();
    const event = device.createEvent();
    event.record(buffer.stream);
    expect(event.query()).toBe(false);
    buffer.exportHandle();
    expect(event.query()).toBe(true);
  });

  test('an asynchronous request waits for memory as any other', async () => {
    const device = open('mock');
    const allocator = allocatorOn(device);
    const first = allocator.allocate(40 * MIB, { shareable: true });
    allocator.registerPressureHandler({
      reclaimSync: () => 0,
      reclaim: async () => {
        first.free();
        return 40 * MIB;
      },
    });
    const second = await allocator.allocateAsync(50 * MIB, { shareable: true });
    expect(second.exportHandle().bytes).toBe(50 * MIB);
    checkInvariants(allocator);
  });
});

test('every call failing once: the error is typed, nothing is lost, and the next request works', () => {
  const device = open('mock');
  // The device's own file of memory is opened with its first allocation.
  device.free(device.malloc(1));
  const steps = (allocator: CachingAllocator, attempt: <T>(step: () => T) => T): void => {
    const plain = attempt(() => allocator.allocate(1));
    const buffer = attempt(() => allocator.allocate(3 * MIB, { shareable: true }));
    const handle = attempt(() => buffer.exportHandle());
    const imported = attempt(() => allocator.importHandle(handle));
    attempt(() => imported.free());
    attempt(() => buffer.free());
    plain.free();
  };
  const run = (position: number, error: string): number => {
    const allocator = allocatorOn(device, 'paged');
    device.mock.resetCounters();
    const before = openDescriptors();
    if (position > 0) device.mock.failNth('*', position, error);
    steps(allocator, (step) => {
      try {
        return step();
      } catch (thrown) {
        expect(thrown).toBeInstanceOf(CudallocError);
        device.mock.clearFailures();
        checkInvariants(allocator);
        return step();
      }
    });
    device.mock.clearFailures();
    const calls = Object.values(device.mock.counters()).reduce((sum, count) => sum + count, 0);
    checkInvariants(allocator);
    allocator.trim(0);
    expect(allocator.memoryStats()).toMatchObject({
      'cudalloc.unreleased_page_bytes': 0,
      'cudalloc.shareable_bytes': 0,
      'cudalloc.imported_bytes': 0,
    });
    allocator.close();
    expect(device.memGetInfo().free).toBe(CAPACITY);
    expect(openDescriptors()).toBe(before);
    return calls;
  };
  for (const error of ['CUDA_ERROR_OUT_OF_MEMORY', 'CUDA_ERROR_UNKNOWN']) {
    const calls = run(0, error);
    for (let position = 1; position <= calls; position++) run(position, error);
    console.log(`sharing, ${error}: positions ${calls}`);
  }
});

// Streams and events of the stand-ins, and what becomes of everything when a device is closed.

import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import type { Device, Stream } from '../../lib/device/types.js';
import { DriverError, InvalidAddressError, UseAfterFreeError, WrongThreadError } from '../../lib/errors.js';
import { MIB, mapped, open, PAGE, thrownBy } from '../support/devices.js';

describe.each(['sim', 'mock'] as const)('%s: streams and events', (backend) => {
  test('streams are numbered in the order in which they were made', () => {
    const device = open(backend);
    expect(device.defaultStream).toMatchObject({ id: 0, handle: 0 });
    const first = device.createStream();
    first.destroy();
    const second = device.createStream({ nonBlocking: false, priority: 0 });
    expect([first.id, second.id]).toEqual([1, 2]);
    expect(second.handle).toBeGreaterThan(0);
    expect(second.device).toBe(device);
    expect(second.query()).toBe(true);
  });

  test('a wrapped stream is the same queue under a new number, and only forgotten by destroy', () => {
    const device = open(backend);
    const own = device.createStream();
    const wrapped = device.wrapStream(own.handle);
    const again = device.wrapStream(BigInt(own.handle));
    expect(wrapped).toMatchObject({ id: 2, handle: own.handle });
    expect(again.id).toBe(3);
    expect(device.wrapStream(0)).toBe(device.defaultStream);
    device.mock.holdEvents();
    const event = device.createEvent();
    event.record(wrapped);
    expect([own.query(), wrapped.query()]).toEqual([false, false]);
    wrapped.destroy();
    expect(() => wrapped.synchronize()).toThrow(UseAfterFreeError);
    own.synchronize();
    expect(event.query()).toBe(true);
  });

  test.each([-1, 0.5, Number.NaN, 2 ** 53, -1n, 2n ** 64n])('%s is no handle of a stream', (handle) => {
    expect(() => open(backend).wrapStream(handle)).toThrow(InvalidAddressError);
  });

  test('an event is complete as soon as it is recorded, unless events are held', () => {
    const device = open(backend);
    const stream = device.createStream();
    const event = device.createEvent();
    expect(event.query()).toBe(true);
    event.record(stream);
    expect(event.query()).toBe(true);
    device.mock.holdEvents();
    event.record(stream);
    expect(event.query()).toBe(false);
    expect(stream.query()).toBe(false);
    expect(device.defaultStream.query()).toBe(true);
    device.mock.completeEvents();
    expect([event.query(), stream.query()]).toEqual([true, true]);
    event.record(stream);
    expect(event.query()).toBe(false);
    device.mock.releaseEvents();
    expect(event.query()).toBe(true);
    event.record(stream);
    expect(event.query()).toBe(true);
  });

  test('events of one stream can be completed alone', () => {
    const device = open(backend);
    const streams = [device.defaultStream, device.createStream(), device.createStream()];
    const events = streams.map(() => device.createEvent());
    device.mock.holdEvents();
    for (const [i, event] of events.entries()) event.record(streams[i] as Stream);
    const done = () => events.map((event) => event.query());
    device.mock.completeEvents(streams[2]);
    expect(done()).toEqual([false, false, true]);
    device.mock.completeEvents(device.defaultStream);
    expect(done()).toEqual([true, false, true]);
  });

  test('waiting for an event completes it and those before it on its stream, no others', () => {
    const device = open(backend);
    const stream = device.createStream();
    const other = device.createStream();
    const events = [1, 2, 3, 4].map(() => device.createEvent());
    const [first, second, third, foreign] = events;
    device.mock.holdEvents();
    for (const event of [first, second, third]) event?.record(stream);
    foreign?.record(other);
    second?.synchronize();
    expect(events.map((event) => event.query())).toEqual([true, true, false, false]);
    stream.synchronize();
    expect(events.map((event) => event.query())).toEqual([true, true, true, false]);
    device.synchronize();
    expect(foreign?.query()).toBe(true);
  });

  test('a stream that waits for an event of another is done after it', () => {
    const device = open(backend);
    const producer = device.createStream();
    const consumer = device.createStream();
    const ready = device.createEvent();
    const used = device.createEvent();
    device.mock.holdEvents();
    ready.record(producer);
    consumer.waitEvent(ready);
    used.record(consumer);
    used.synchronize();
    expect([ready.query(), used.query()]).toEqual([true, true]);
  });

  test('a stream that only waits is done as soon as what it waits for is', () => {
    const device = open(backend);
    const [producer, consumer] = [device.createStream(), device.createStream()];
    const [ready, used] = [device.createEvent(), device.createEvent()];
    device.mock.holdEvents();
    ready.record(producer);
    consumer.waitEvent(ready);
    expect(consumer.query()).toBe(false);
    device.mock.completeEvents(producer);
    expect(consumer.query()).toBe(true);
    used.record(consumer);
    expect([consumer.query(), used.query()]).toEqual([false, false]);
  });

  test('elapsed time needs two events with timing that have completed', () => {
    const device = open(backend);
    const [start, end] = [device.createEvent({ timing: true }), device.createEvent({ timing: true })];
    const untimed = device.createEvent();
    for (const event of [start, untimed, end]) event.record(device.defaultStream);
    expect(end.elapsedTimeMs(start)).toBeGreaterThanOrEqual(0);
    expect(end.elapsedTimeMs(start)).toBeLessThan(60_000);
    expect(thrownBy(() => end.elapsedTimeMs(untimed))).toMatchObject({ cudaError: 'CUDA_ERROR_INVALID_HANDLE' });
    device.mock.holdEvents();
    end.record(device.defaultStream);
    expect(thrownBy(() => end.elapsedTimeMs(start))).toMatchObject({ cudaError: 'CUDA_ERROR_NOT_READY' });
    const fresh = device.createEvent({ timing: true });
    expect(() => fresh.elapsedTimeMs(start)).toThrow(DriverError);
  });

  test('a promise settles when the stream is done', async () => {
    const device = open(backend);
    const stream = device.createStream();
    device.mock.holdEvents();
    const event = device.createEvent();
    event.record(stream);
    await device.streamSynchronizeAsync(stream);
    expect(event.query()).toBe(true);
    stream.destroy();
    await expect(device.streamSynchronizeAsync(stream)).rejects.toThrow(UseAfterFreeError);
  });

  test('destroy is idempotent, and what was destroyed is refused', () => {
    const device = open(backend);
    const stream = device.createStream();
    const event = device.createEvent();
    const live = device.createEvent();
    stream.destroy();
    stream.destroy();
    event.destroy();
    event.destroy();
    const calls: (() => unknown)[] = [
      () => stream.synchronize(),
      () => stream.query(),
      () => stream.isCapturing(),
      () => stream.waitEvent(live),
      () => live.record(stream),
      () => event.record(device.defaultStream),
      () => event.query(),
      () => event.synchronize(),
      () => event.elapsedTimeMs(live),
      () => live.elapsedTimeMs(event),
      () => device.defaultStream.waitEvent(event),
      () => device.mock.completeEvents(stream),
    ];
    for (const call of calls) expect(call).toThrow(UseAfterFreeError);
    device.defaultStream.destroy();
    expect(device.defaultStream.query()).toBe(true);
  });

  test('a stream or an event of another device is refused', () => {
    const device = open(backend);
    const other = open(backend);
    const foreign = open(backend === 'sim' ? 'mock' : 'sim');
    const event = device.createEvent();
    for (const { defaultStream } of [other, foreign]) {
      expect(() => event.record(defaultStream)).toThrow(WrongThreadError);
      expect(() => device.mock.completeEvents(defaultStream)).toThrow(WrongThreadError);
      expect(() => device.mock.setCapturing(defaultStream, true)).toThrow(WrongThreadError);
    }
    for (const stranger of [other.createEvent({ timing: true }), foreign.createEvent({ timing: true })]) {
      expect(() => device.defaultStream.waitEvent(stranger)).toThrow(WrongThreadError);
      expect(() => event.elapsedTimeMs(stranger)).toThrow(WrongThreadError);
    }
  });

  test('closing releases everything, is idempotent, and refuses what comes after', async () => {
    const device = open(backend);
    const segment = device.malloc(MIB);
    const { address } = mapped(device, 1);
    const stream = device.createStream();
    const event = device.createEvent();
    device.close();
    device.close();
    device[Symbol.dispose]();
    const handles = new Int32Array(1);
    const calls: (() => unknown)[] = [
      () => device.malloc(1),
      () => device.free(segment),
      () => device.memGetInfo(),
      () => device.addressReserve(PAGE),
      () => device.addressFree(address, PAGE),
      () => device.memCreate(PAGE, handles),
      () => device.memMap(address, PAGE, handles),
      () => device.memUnmap(address, PAGE, 1),
      () => device.memRelease(handles),
      () => device.createStream(),
      () => device.wrapStream(1),
      () => device.createEvent(),
      () => device.synchronize(),
      () => device.memcpyHtoD(segment, new Uint8Array(1)),
      () => device.memcpyDtoH(new Uint8Array(1), segment),
      () => device.memcpyDtoD(segment, segment, 1),
      () => device.memset(segment, 0, 1),
      () => device.hostAlloc(1),
      () => device.loadModule(new Uint8Array(1)),
      () => device.canAccessPeer(device),
      () => device.mock.holdEvents(),
      () => device.mock.counters(),
      () => stream.synchronize(),
      () => event.record(stream),
      () => event.query(),
    ];
    for (const call of calls) expect(call).toThrow(UseAfterFreeError);
    await expect(device.streamSynchronizeAsync(stream)).rejects.toThrow(UseAfterFreeError);
    await expect(device.memcpyHtoDAsync(segment, new Uint8Array(1))).rejects.toThrow(UseAfterFreeError);
    stream.destroy();
    event.destroy();
    expect(device.closed).toBe(true);
    expect(device.driverCalls()).toMatchObject({ cudaMalloc: 1, cuMemCreate: 1 });
  });

  test('devices and streams print as one short line', () => {
    const device = open(backend);
    const stream = device.createStream();
    expect(inspect(device)).toMatch(new RegExp(`^${backend} device \\d+ \\(.*64\\.00 MiB`));
    expect(inspect(stream)).toBe(`Stream 1 of ${backend} device ${device.index}`);
    stream.destroy();
    expect(inspect(stream)).toContain('destroyed');
    device.close();
    expect(inspect(device)).toContain('closed');
  });
});

test('a device of its own is given out when no index is named', () => {
  const devices: Device[] = [open('mock'), open('mock'), open('mock')];
  expect(new Set(devices.map(({ index }) => index)).size).toBe(3);
  devices[0]?.malloc(MIB);
  expect(devices[1]?.memGetInfo().free).toBe(64 * MIB);
});

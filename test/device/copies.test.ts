// What only a device with bytes can do: copies, fills, aliases, pinned memory, peers, kernels. On the mock; the simulated
// device says that it cannot.

import { describe, expect, test } from 'vitest';
import {
  DeviceOutOfMemoryError,
  DriverError,
  InvalidAddressError,
  InvalidSizeError,
  UnsupportedError,
} from '../../lib/errors.js';
import { MIB, mapped, open, PAGE, thrownBy } from '../support/devices.js';

function pattern(bytes: number, seed = 1): Uint8Array {
  return Uint8Array.from({ length: bytes }, (_, i) => (i * 31 + seed * 17) & 0xff);
}

describe('mock: copies', () => {
  test('bytes come back as they were sent, on any stream', () => {
    const device = open('mock');
    const sent = pattern(100_000);
    const address = device.malloc(sent.length);
    for (const stream of [undefined, device.defaultStream, device.createStream()]) {
      const received = new Uint8Array(sent.length);
      device.memcpyHtoD(address, sent, stream);
      device.memcpyDtoH(received, address, stream);
      expect(received).toEqual(sent);
      device.memset(address, 0, sent.length, stream);
    }
  });

  test('a copy takes the part of a buffer that its view shows', () => {
    const device = open('mock');
    const address = device.malloc(64);
    device.memset(address, 9, 64);
    const source = pattern(64);
    device.memcpyHtoD(address + 16, source.subarray(8, 24));
    const target = new Uint8Array(64);
    device.memcpyDtoH(target.subarray(1, 63), address + 1);
    expect(target[0]).toBe(0);
    expect(target.subarray(1, 16)).toEqual(new Uint8Array(15).fill(9));
    expect(target.subarray(16, 32)).toEqual(source.subarray(8, 24));
    expect(target.subarray(32, 63)).toEqual(new Uint8Array(31).fill(9));
    expect(target[63]).toBe(0);
  });

  test('many asynchronous copies at once arrive', async () => {
    const device = open('mock', { capacity: 256 * MIB });
    const blocks = Array.from({ length: 32 }, (_, i) => ({
      address: device.malloc(MIB),
      sent: pattern(MIB, i),
      received: new Uint8Array(MIB),
    }));
    await Promise.all(blocks.map(({ address, sent }) => device.memcpyHtoDAsync(address, sent)));
    await Promise.all(
      blocks.map(({ address, received }) => device.memcpyDtoHAsync(received, address, device.createStream())),
    );
    for (const { sent, received } of blocks) expect(Buffer.compare(sent, received)).toBe(0);
  });

  test('device to device, and fills', () => {
    const device = open('mock');
    const stream = device.createStream();
    const [from, to] = [device.malloc(MIB), device.malloc(MIB)];
    device.memset(from, 0xa5, MIB, stream);
    device.memcpyDtoD(to + 10, from, 100, stream);
    device.memset(to, 1, 10, stream);
    device.memcpyDtoD(to, to, 0);
    device.memset(to, 1, 0);
    stream.synchronize();
    const received = new Uint8Array(110);
    device.memcpyDtoH(received, to);
    expect(received).toEqual(Uint8Array.from({ length: 110 }, (_, i) => (i < 10 ? 1 : 0xa5)));
  });

  test('fresh memory reads as zeros, also where pages were used before', () => {
    const device = open('mock');
    const first = mapped(device, 2);
    device.memset(first.address, 0xff, 2 * PAGE);
    device.memUnmap(first.address, PAGE, 2);
    device.memRelease(first.handles);
    const second = mapped(device, 2);
    const received = new Uint8Array(2 * PAGE).fill(1);
    device.memcpyDtoH(received, second.address);
    expect(received.every((byte) => byte === 0)).toBe(true);
  });

  test('a page mapped at two addresses shows the same bytes, and keeps them through remapping', () => {
    const device = open('mock');
    const { address, handles } = mapped(device, 2);
    const alias = device.addressReserve(2 * PAGE);
    device.memMap(alias, PAGE, Int32Array.from(handles).reverse());
    const sent = pattern(PAGE);
    device.memcpyHtoD(address, sent);
    const received = new Uint8Array(PAGE);
    device.memcpyDtoH(received, alias + PAGE);
    expect(Buffer.compare(received, sent)).toBe(0);
    device.memUnmap(address, PAGE, 2);
    device.memUnmap(alias, PAGE, 2);
    device.memMap(alias, PAGE, handles);
    received.fill(0);
    device.memcpyDtoH(received, alias);
    expect(Buffer.compare(received, sent)).toBe(0);
  });

  test('copies to memory that is not there, or beyond its end, are refused and crash nothing', async () => {
    const device = open('mock');
    const { address, bytes } = mapped(device, 2);
    const segment = device.malloc(4096);
    const one = new Uint8Array(1);
    device.memUnmap(address + PAGE, PAGE, 1);
    const wrong = [0, 4096, 0x7fffffffffff, address + PAGE, address + bytes];
    for (const at of wrong) {
      expect(() => device.memcpyHtoD(at, one)).toThrow();
      expect(() => device.memcpyDtoH(one, at)).toThrow();
      expect(() => device.memset(at, 1, 1)).toThrow();
      expect(() => device.memcpyDtoD(at, segment, 1)).toThrow();
      await expect(device.memcpyHtoDAsync(at, one)).rejects.toThrow();
      await expect(device.memcpyDtoHAsync(one, at)).rejects.toThrow();
    }
    expect(() => device.memcpyHtoD(segment, new Uint8Array(4097))).toThrow();
    expect(() => device.memcpyHtoD(address + PAGE - 1, new Uint8Array(2))).toThrow();
    device.memset(segment, 1, 4096);
  });

  test('bad arguments', async () => {
    const device = open('mock');
    const address = device.malloc(16);
    const bytes = new Uint8Array(16);
    expect(() => device.memcpyHtoD(Number.NaN, bytes)).toThrow(InvalidAddressError);
    expect(() => device.memcpyHtoD(-1, bytes)).toThrow(InvalidAddressError);
    expect(() => device.memcpyHtoD(address, 'text' as unknown as Uint8Array)).toThrow(TypeError);
    expect(() => device.memcpyDtoH(undefined as unknown as Uint8Array, address)).toThrow(TypeError);
    await expect(device.memcpyHtoDAsync(address, {} as Uint8Array)).rejects.toThrow(TypeError);
    expect(() => device.memcpyDtoD(address, address, -1)).toThrow(InvalidSizeError);
    expect(() => device.memset(address, 256, 1)).toThrow(RangeError);
    expect(() => device.memset(address, 0.5, 1)).toThrow(RangeError);
    expect(() => device.memCreate(PAGE, [0] as unknown as Int32Array)).toThrow(TypeError);
  });
});

describe('mock: pinned memory', () => {
  test('a buffer holds what it is asked for, is usable for copies, and is detached when freed', () => {
    const device = open('mock');
    const buffer = device.hostAlloc(8192);
    expect(buffer.byteLength).toBe(8192);
    const view = new Uint8Array(buffer);
    view.set(pattern(8192));
    const address = device.malloc(8192);
    device.memcpyHtoD(address, view);
    const received = new Uint8Array(8192);
    device.memcpyDtoH(received, address);
    expect(received).toEqual(pattern(8192));
    device.hostFree(buffer);
    expect([buffer.byteLength, view.length]).toEqual([0, 0]);
    expect(() => device.hostFree(buffer)).toThrow();
    expect(() => device.hostFree(new ArrayBuffer(16))).toThrow();
    expect(() => device.hostAlloc(0)).toThrow(InvalidSizeError);
  });

  test('closing the device frees its buffers', () => {
    const device = open('mock');
    const buffers = Array.from({ length: 200 }, () => device.hostAlloc(MIB / 16));
    const views = buffers.map((buffer) => new Uint8Array(buffer).fill(1));
    device.hostFree(buffers[7] as ArrayBuffer);
    device.mock.failNth('cuMemFreeHost', 3, 'CUDA_ERROR_UNKNOWN');
    device.close();
    expect(buffers.filter(({ byteLength }) => byteLength > 0)).toEqual([]);
    expect(views.every((view) => view[0] === undefined)).toBe(true);
  });
});

describe('mock: peers', () => {
  test('bytes go from one device to another', () => {
    const [one, two] = [open('mock'), open('mock')];
    const from = one.malloc(4096);
    const to = two.malloc(4096);
    one.memcpyHtoD(from, pattern(4096));
    one.memcpyPeer(two, to, from, 4096);
    one.synchronize();
    const received = new Uint8Array(4096);
    two.memcpyDtoH(received, to);
    expect(received).toEqual(pattern(4096));
  });

  test('access to a peer covers what is mapped there before and after, and is idempotent', () => {
    const [one, two] = [open('mock'), open('mock')];
    expect([one.canAccessPeer(two), one.canAccessPeer(one)]).toEqual([true, false]);
    const before = mapped(two, 1);
    const own = one.malloc(4096);
    expect(() => one.memcpyDtoD(own, before.address, 4096)).toThrow(DriverError);
    one.enablePeerAccess(two);
    one.enablePeerAccess(two);
    const after = mapped(two, 1);
    const segment = two.malloc(4096);
    for (const address of [before.address, after.address, segment]) {
      two.memcpyHtoD(address, pattern(4096, address % 97));
      one.memcpyDtoD(own, address, 4096);
      const received = new Uint8Array(4096);
      one.memcpyDtoH(received, own);
      expect(received).toEqual(pattern(4096, address % 97));
    }
  });

  test('devices of two backends do not reach each other', () => {
    const [mock, sim] = [open('mock'), open('sim')];
    const address = mock.malloc(16);
    expect([mock.canAccessPeer(sim), sim.canAccessPeer(mock)]).toEqual([false, false]);
    expect(() => mock.enablePeerAccess(sim)).toThrow(UnsupportedError);
    expect(() => sim.enablePeerAccess(mock)).toThrow(UnsupportedError);
    expect(() => mock.memcpyPeer(sim, 4096, address, 16)).toThrow(UnsupportedError);
  });
});

describe('sim: holds no bytes', () => {
  test('every copy and kernel says so', async () => {
    const device = open('sim');
    const address = device.malloc(16);
    const bytes = new Uint8Array(16);
    const calls: (() => unknown)[] = [
      () => device.memcpyHtoD(address, bytes),
      () => device.memcpyDtoH(bytes, address),
      () => device.memcpyDtoD(address, address, 16),
      () => device.memcpyPeer(open('sim'), address, address, 16),
      () => device.memset(address, 0, 16),
      () => device.hostAlloc(16),
      () => device.loadModule(bytes),
    ];
    for (const call of calls) {
      const error = thrownBy(call);
      expect(error).toBeInstanceOf(UnsupportedError);
      expect((error as Error).message).toContain('holds no bytes');
    }
    await expect(device.memcpyHtoDAsync(address, bytes)).rejects.toThrow(UnsupportedError);
    await expect(device.memcpyDtoHAsync(bytes, address)).rejects.toThrow(UnsupportedError);
    expect(device.features.copies).toMatchObject({ works: false });
    expect(device.features.kernels).toMatchObject({ works: false });
  });
});

test('an 80 GiB mock device fits on a small machine', () => {
  const gib = 1024 * MIB;
  const device = open('mock', { capacity: 80 * gib });
  const address = device.malloc(79 * gib);
  const last = address + 79 * gib - 1;
  device.memset(last, 7, 1);
  const received = new Uint8Array(1);
  device.memcpyDtoH(received, last);
  expect(received[0]).toBe(7);
  expect(() => device.malloc(2 * gib)).toThrow(DeviceOutOfMemoryError);
});

// Closing an allocator when the driver does not play along: nothing is lost for a second try, and a device that is gone holds nobody up.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import { CudallocError } from '../../lib/errors.js';
import { MIB, type MockDevice, open } from '../support/devices.js';

const CAPACITY = 96 * MIB;

/** Live and cached blocks in both pools, an event that is pending, and a hole in what is mapped. */
function busy(device: MockDevice, conf: string): CachingAllocator {
  const allocator = new CachingAllocator({ device, conf });
  const stream = device.createStream();
  allocator.malloc(512);
  const middle = [20, 20, 20].map((mib) => allocator.malloc(mib * MIB))[1] as number;
  allocator.free(middle);
  allocator.emptyCache();
  const used = allocator.malloc(1024);
  allocator.recordStream(used, stream);
  device.mock.holdEvents();
  allocator.free(used);
  return allocator;
}

/** Calls that may fail. */
function callsMade(device: MockDevice): number {
  const bookkeeping = /^(cuCtxPushCurrent|cuCtxPopCurrent|cuGetErrorName|cuGetErrorString|cudaGetLastError)/;
  const counts = Object.entries(device.mock.counters()).filter(([fn]) => !bookkeeping.test(fn));
  return counts.reduce((sum, [, count]) => sum + count, 0);
}

describe.each(['sim', 'mock'] as const)('%s', (backend) => {
  test.each(['', 'expandable_segments:True'])('everything goes back ("%s")', (conf) => {
    const device = open(backend, { capacity: CAPACITY });
    const allocator = busy(device, conf);
    allocator.close();
    const { cudaMalloc, cudaFree, cuMemCreate, cuMemRelease, cuMemAddressReserve, cuMemAddressFree } =
      device.driverCalls();
    expect(device.memGetInfo().free).toBe(CAPACITY);
    expect([cudaFree, cuMemRelease, cuMemAddressFree]).toEqual([cudaMalloc, cuMemCreate, cuMemAddressReserve]);
  });

  test.each(['', 'expandable_segments:True'])(
    'after a failure at any of its calls, closing again gives the rest back ("%s")',
    (conf) => {
      let injected = 0;
      for (let position = 1; ; position++) {
        const device = open(backend, { capacity: CAPACITY });
        const allocator = busy(device, conf);
        const before = callsMade(device);
        device.mock.failNth('*', position, 'CUDA_ERROR_UNKNOWN');
        try {
          allocator.close();
        } catch (error) {
          expect(error).toBeInstanceOf(CudallocError);
        }
        const reached = callsMade(device) - before >= position;
        device.mock.clearFailures();
        allocator.close();
        expect(device.memGetInfo().free, `after a failure at call ${position}`).toBe(CAPACITY);
        if (!reached) break;
        injected++;
      }
      expect(injected).toBeGreaterThan(4);
    },
  );

  test('a device that is lost, or closed before, does not keep an allocator from being closed', () => {
    const lost = open(backend, { capacity: CAPACITY });
    const first = busy(lost, '');
    lost.mock.loseDevice();
    first.close();
    expect(first.closed).toBe(true);
    const closed = open(backend, { capacity: CAPACITY });
    const second = busy(closed, '');
    closed.close();
    second.close();
    expect(second.closed).toBe(true);
  });
});

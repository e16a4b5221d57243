// Streams that their owner destroyed while memory of theirs is cached, or while blocks that they used still live.

import { describe, expect, test } from 'vitest';
import { CachingAllocator } from '../../lib/allocator/caching-allocator.js';
import type { Stream } from '../../lib/device/types.js';
import { MIB, open } from '../support/devices.js';

function make(backend: 'sim' | 'mock', conf = ''): { allocator: CachingAllocator; stream: Stream } {
  const device = open(backend, { capacity: 128 * MIB });
  return { allocator: new CachingAllocator({ device, conf }), stream: device.createStream() };
}

describe.each(['sim', 'mock'] as const)('%s', (backend) => {
  test.each(['', 'expandable_segments:True'])('a flush gives its cached memory back ("%s")', (conf) => {
    const { allocator, stream } = make(backend, conf);
    allocator.free(allocator.malloc(40 * MIB, stream));
    stream.destroy();
    allocator.emptyCache();
    expect(allocator.memoryReserved()).toBe(0);
  });

  test.each(['', 'expandable_segments:True'])(
    'a request on another stream can have its cached memory ("%s")',
    (conf) => {
      const { allocator, stream } = make(backend, conf);
      allocator.free(allocator.malloc(100 * MIB, stream));
      stream.destroy();
      allocator.malloc(100 * MIB);
      expect(allocator.memoryStats()).toMatchObject({ num_ooms: 0, num_alloc_retries: 1 });
    },
  );

  test('a block that it used can be freed: its work has been waited for or runs to its end', () => {
    const { allocator, stream } = make(backend);
    const address = allocator.malloc(MIB);
    allocator.recordStream(address, stream);
    stream.destroy();
    allocator.free(address);
    allocator.emptyCache();
    expect(allocator.memoryReserved()).toBe(0);
  });
});

import { describe, expect, it } from 'vitest';
import { parseSnapshot } from '../../../lib/snapshot/read-snapshot.js';
import { type Plain, type PlainDict, pickleOf } from '../../support/pickle-bytes.js';
import { BASE, block, event, failure, readExactly, segment, withTrace } from '../../support/small-snapshot.js';

const withBlocks = (blocks: readonly Plain[], more: PlainDict = {}): PlainDict => ({
  segments: [segment(BASE, blocks as readonly PlainDict[], more)],
});

describe('what analysis relies on', () => {
  const inSegment = (more: PlainDict) => ({ segments: [segment(BASE, [block(BASE, 512, 'inactive')], more)] });
  it.each<[string, PlainDict, string]>([
    [
      'a negative size',
      withBlocks([block(BASE, -512, 'inactive')]),
      'segment 0: total_size is -512, not a whole number of bytes from 0 to 2^53',
    ],
    ['a fractional size', withBlocks([block(BASE, 1.5, 'inactive')]), 'segment 0: total_size is 1.5, not'],
    [
      'a size as text',
      withBlocks([block(BASE, 512, 'inactive', { size: '512' })], { total_size: 512 }),
      'size is 512, not',
    ],
    [
      'no size',
      { segments: [{ address: BASE, total_size: 5, blocks: [{ state: 'inactive' }] }] },
      'segment 0, block 0: size is missing',
    ],
    ['an address beyond 2^53', inSegment({ address: 2n ** 63n }), 'segment 0: address is 9223372036854775808, not'],
    ['no total size', inSegment({ total_size: null }), 'segment 0: total_size is no number, not'],
    ['no blocks', inSegment({ blocks: null }), 'segment 0 has no list of blocks'],
    ['a device that is none', inSegment({ device: -1 }), 'segment 0: device is -1'],
    [
      'a gap between blocks',
      withBlocks([block(BASE, 512, 'inactive'), block(BASE + 1024, 512, 'inactive')]),
      `segment 0, block 1 is at ${BASE + 1024}, the one before it ends at ${BASE + 512}`,
    ],
    ['a first block that is elsewhere', withBlocks([block(BASE + 1, 512, 'inactive')]), 'segment 0, block 0 is at'],
    [
      'a segment that is not full',
      inSegment({ total_size: 1024 }),
      'segment 0: its blocks have 512 bytes, the segment 1024',
    ],
    ['a state that is none', withBlocks([block(BASE, 512, 'lost')]), 'segment 0, block 0 has no known state'],
    ['a segment that is no dict', { segments: [1] }, 'segment 0 is no dict'],
    [
      'a block that is no dict',
      { segments: [{ address: 1, total_size: 0, blocks: ['x'] }] },
      'segment 0, block 0 is no dict',
    ],
    [
      'segments that overlap',
      {
        segments: [
          segment(BASE + 512, [block(BASE + 512, 512, 'inactive')]),
          segment(BASE + 4096, [block(BASE + 4096, 512, 'inactive')]),
          segment(BASE, [block(BASE, 1024, 'inactive')]),
        ],
      },
      'segments 0 and 2 overlap',
    ],
    ['an event that is none', withTrace(event('alloc', 1, 2), 7), 'event 1 of a device trace is no dict'],
    ['an event with a key that is no text', withTrace(new Map([[1, 2]])), 'event 0 has a key that is no text'],
    ['a trace that is none', { segments: [], device_traces: [7] }, 'device_traces is not a list of lists of events'],
    [
      'events without a trace',
      { segments: [], device_traces: [event('alloc', 1, 2)] },
      'device_traces is not a list of lists',
    ],
  ])('%s is an error that names it', (_, value, message) => {
    expect(failure(() => parseSnapshot(pickleOf(value))).message).toContain(message);
  });

  it('sizes that an old file leaves out are those of its blocks', () => {
    const blocks = [block(BASE, 512, 'active_allocated'), block(BASE + 512, 1024, 'active_pending_free')];
    const { requested_size: _, ...bare } = blocks[0]!;
    const snapshot = readExactly({ segments: [{ address: BASE, total_size: 1536, blocks: [bare, blocks[1]!] }] });
    expect(snapshot.segments[0]).toMatchObject({ allocatedSize: 512, activeSize: 1536, requestedSize: 512 + 1012 });
  });
});

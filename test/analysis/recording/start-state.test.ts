// The state before the first event: worked out by hand for each kind of event and each trap, and compared with the truth for random
// programs.

import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../lib/allocator/config-parser.js';
import { rebuildStart } from '../../../lib/analysis/recording/start-state.js';
import { MIB } from '../../support/devices.js';
import { type Event, snapshotOf } from '../../support/recordings.js';

const A = 0x7f0000000000;

/** Per segment: its size in MiB, and `offset+size/requested` of its blocks. */
function startOf(segments: Parameters<typeof snapshotOf>[0], events: readonly Event[], conf = ''): string[] {
  const { segments: start } = rebuildStart(snapshotOf(segments, events), 0, parseConfig(conf));
  return start.map(
    ({ address, size, blocks }) =>
      `${size / MIB}: ${blocks.map((block) => `${block.address - address}+${block.size}/${block.requested}`).join(' ')}`,
  );
}

describe('each event is undone', () => {
  test('without events the start is the end', () => {
    expect(startOf([{ address: A, blocks: [[1024, 1000], [2 * MIB - 1024]] }], [])).toEqual(['2: 0+1024/1000']);
  });

  test('an allocation was not there, a free was', () => {
    const segments = [{ address: A, blocks: [[1024, 1000] as const, [2 * MIB - 1024] as const] }];
    expect(startOf(segments, [['alloc', A, 1000]])).toEqual(['2: ']);
    const events: Event[] = [
      ['free_requested', A + 1024, 600],
      ['free_completed', A + 1024, 600],
    ];
    expect(startOf(segments, events)).toEqual(['2: 0+1024/1000 1024+1024/600']);
  });

  test('an address that was used again is followed through its lives', () => {
    const events: Event[] = [
      ['free_requested', A, 700],
      ['free_completed', A, 700],
      ['alloc', A, 300],
      ['free_requested', A, 300],
      ['free_completed', A, 300],
      ['alloc', A, 1000],
    ];
    expect(startOf([{ address: A, blocks: [[1024, 1000], [2 * MIB - 1024]] }], events)).toEqual(['2: 0+1024/700']);
  });

  test('segments come and go', () => {
    const made: Event[] = [
      ['segment_alloc', A, 20 * MIB],
      ['alloc', A, 5 * MIB],
    ];
    expect(startOf([{ address: A, blocks: [[5 * MIB, 5 * MIB], [15 * MIB]] }], made)).toEqual([]);
    const gone: Event[] = [
      ['free_requested', A, 12 * MIB],
      ['free_completed', A, 12 * MIB],
      ['segment_free', A, 12 * MIB],
    ];
    expect(startOf([], gone)).toEqual([`12: 0+${12 * MIB}/${12 * MIB}`]);
  });

  test('pages of expandable segments come, go and join', () => {
    const events: Event[] = [
      ['segment_unmap', A + 20 * MIB, 20 * MIB],
      ['segment_unmap', A, 20 * MIB],
      ['segment_map', A + 60 * MIB, 20 * MIB],
      ['segment_unmap', A + 40 * MIB, 20 * MIB],
    ];
    const segments = [{ address: A + 60 * MIB, blocks: [[20 * MIB] as const] }];
    expect(startOf(segments, events)).toEqual(['60: ']);
  });

  test('a free that began before the recording waits at its start', () => {
    const snapshot = snapshotOf([{ address: A, blocks: [[2 * MIB]] }], [['free_completed', A, 600]]);
    expect(rebuildStart(snapshot).segments[0]?.blocks).toMatchObject([{ size: 1024, state: 'active_pending_free' }]);
  });
});

describe('sizes that the file does not state', () => {
  const freed = (address: number, size: number): Event[] => [
    ['free_requested', address, size],
    ['free_completed', address, size],
  ];

  test('a gap too small to have been cut off belongs to the block before it', () => {
    const segments = [{ address: A, blocks: [[12 * MIB] as const] }];
    expect(startOf(segments, freed(A, 11 * MIB))).toEqual([`12: 0+${12 * MIB}/${11 * MIB}`]);
    expect(startOf(segments, freed(A, 11 * MIB - 512))).toEqual([`12: 0+${11 * MIB - 512}/${11 * MIB - 512}`]);
  });

  test('of a larger gap it may own the start, up to where the first later block in it begins', () => {
    const rest = 300 * 1024;
    const segments = [{ address: A, blocks: [[20 * MIB] as const] }];
    const inGap = A + 5 * MIB + rest;
    const events: Event[] = [
      ['alloc', inGap, 3 * MIB],
      ['free_requested', inGap, 3 * MIB],
      ['free_completed', inGap, 3 * MIB],
      ...freed(A, 5 * MIB),
    ];
    expect(startOf(segments, events)).toEqual([`20: 0+${5 * MIB + rest}/${5 * MIB}`]);
    // What comes when the block is gone says nothing about it.
    const [alloc, ...others] = events as [Event, ...Event[]];
    const later: Event[] = [...others.slice(2), alloc, ...others.slice(0, 2)];
    expect(startOf(segments, later)).toEqual([`20: 0+${5 * MIB}/${5 * MIB}`]);
  });

  test('small and expandable blocks own no rest; from the split limit on a block owns its segment', () => {
    expect(startOf([{ address: A, blocks: [[2 * MIB]] }], freed(A, MIB))).toEqual([`2: 0+${MIB}/${MIB}`]);
    const segments = [{ address: A, blocks: [[40 * MIB] as const] }];
    expect(startOf(segments, freed(A, 39.5 * MIB), 'expandable_segments:True')).toEqual([
      `40: 0+${39.5 * MIB}/${39.5 * MIB}`,
    ]);
    expect(startOf(segments, freed(A, 30 * MIB), 'max_split_size_mb:25')).toEqual([`40: 0+${40 * MIB}/${30 * MIB}`]);
  });
});

describe('what is not known is counted', () => {
  test('blocks without an event, and of these the ones without a size', () => {
    const events: Event[] = [
      ['alloc', A + 4096, 500],
      ['free_requested', A + 1024, 600],
      ['free_completed', A + 1024, 600],
    ];
    const segments = [
      { address: A, blocks: [[1024, 1000] as const, [3072] as const, [512, 500] as const, [2 * MIB - 4608] as const] },
    ];
    const start = rebuildStart(snapshotOf(segments, events));
    expect(start).toMatchObject({ liveWithoutEvent: 2, unknownBlocks: 1, conflictsTotal: 0 });
  });

  test.each<[string, Event[], RegExp]>([
    [
      'an allocation of which nothing is left',
      [['alloc', A + 512, 500]],
      /event 0 allocates \d+, where nothing lives later/,
    ],
    ['a free that never completes', [['free_requested', A + 512, 500]], /event 0 frees \d+, which never completes/],
    ['a free of what lives on', [['free_completed', A, 1000]], /event 0 completes the free of \d+, which lives later/],
    ['a segment that is not there', [['segment_alloc', A + 64 * MIB, 2 * MIB]], /in no segment later/],
    ['a release of what is there', [['segment_free', A, 2 * MIB]], /which are there later/],
    ['a block outside', [['free_completed', A + 64 * MIB, 512]], /lies in no segment/],
    ['a block beyond the end', [['free_completed', A + 2 * MIB - 512, 1024]], /longer than its segment/],
    ['blocks over each other', [['free_completed', A + 512, 2048]], /overlap/],
  ])('%s is a conflict', (_, events, message) => {
    const start = rebuildStart(snapshotOf([{ address: A, blocks: [[1024, 1000], [2 * MIB - 1024]] }], events));
    expect(start.conflicts.join()).toMatch(message);
    expect(start.conflictsTotal).toBe(start.conflicts.length);
  });
});

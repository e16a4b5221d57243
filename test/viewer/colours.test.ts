// Groups of blocks and their colours.

import { describe, expect, test } from 'vitest';
import { blockColours, groupBlocks, groupColours } from '../../lib/viewer/colours.js';
import { deviceHistory } from '../../lib/viewer/device-history.js';
import { DARK, LIGHT, mixed, pixelOf } from '../../lib/viewer/palette.js';
import { programs } from '../support/programs.js';
import { smallHistory } from '../support/small-history.js';

describe.each(['site', 'category', 'stream', 'pool'] as const)('groups by %s', (colouring) => {
  test('hold every byte of the peak, the largest first', () => {
    for (const { name, snapshot } of programs(8)) {
      const history = deviceHistory(snapshot, 0);
      const { groupOf, names, peakBytes } = groupBlocks(history, colouring, 3);
      expect(groupOf, name).toHaveLength(history.lifetimes.blocks.length);
      expect(names.length, name).toBeLessThanOrEqual(4);
      expect(
        peakBytes.reduce((sum, bytes) => sum + bytes, 0),
        name,
      ).toBe(history.lifetimes.allocated[history.peak + 1]);
      const own = peakBytes.slice(0, -1);
      expect(own, name).toEqual([...own].sort((a, b) => b - a));
      expect(
        groupOf.every((group) => group < names.length),
        name,
      ).toBe(true);
    }
  });

  test('have a colour each, in light and in dark', () => {
    const grouping = groupBlocks(smallHistory(), colouring, 20);
    for (const palette of [LIGHT, DARK]) {
      const colours = groupColours(grouping, palette);
      expect(new Set(colours).size).toBe(grouping.names.length);
      expect(blockColours(grouping, palette)).toHaveLength(3);
    }
  });
});

test('groups by site are call sites, by stream and pool those of the blocks', () => {
  const history = smallHistory();
  const sites = groupBlocks(history, 'site', 20).names.slice(0, -1);
  expect(sites.map((name) => name.split(' ')[0])).toEqual(['forward', 'onStream', '<anonymous>']);
  expect(groupBlocks(history, 'stream', 20).names[0]).toBe('default stream');
  expect(groupBlocks(history, 'pool', 20).names.slice(0, -1)).toContain('large');
  expect(groupBlocks(history, 'site', 1).names).toEqual([expect.stringContaining('forward'), '2 other call sites']);
});

test('a pixel has the bytes of its colour in the order of ImageData, and is opaque', () => {
  const bytes = new Uint8Array(Int32Array.of(pixelOf('#102030')).buffer);
  expect([...bytes]).toEqual([0x10, 0x20, 0x30, 0xff]);
  expect(mixed('#000000', '#ffffff', 0.5)).toBe('#808080');
  expect(mixed('#102030', '#ffffff', 0)).toBe('#102030');
});

// Pictures in files: the timeline as PNG.

import { decode } from 'fast-png';
import { describe, expect, test } from 'vitest';
import { deviceHistory } from '../../lib/viewer/device-history.js';
import { LIGHT, pixelOf } from '../../lib/viewer/palette.js';
import { Canvas, cut } from '../../lib/viewer/pictures/canvas.js';
import { timelinePng } from '../../lib/viewer/pictures/timeline-png.js';
import { programs } from '../support/programs.js';
import { smallHistory } from '../support/small-history.js';

function pixelsOf(png: Uint8Array): Int32Array {
  const { data } = decode(png);
  return new Int32Array(Uint8Array.from(data as Uint8Array).buffer);
}

describe('the timeline', () => {
  test('has the size asked for, bands of the colours of the groups, and a mark where memory ran out', () => {
    const png = timelinePng(smallHistory(), { name: 'small', width: 900, height: 500 });
    const { width, height, channels } = decode(png);
    expect([width, height, channels]).toEqual([900, 500, 4]);
    const pixels = new Set(pixelsOf(png));
    for (const colour of [LIGHT.background, LIGHT.ink, LIGHT.reserved, LIGHT.outOfMemory, LIGHT.series[0]!])
      expect(pixels).toContain(pixelOf(colour));
  });

  test('draws a capacity that lies within it', () => {
    const count = (capacity: number | null): number =>
      pixelsOf(timelinePng(smallHistory(), { name: 'small', width: 900, height: 500, capacity })).filter(
        (pixel) => pixel === pixelOf(LIGHT.capacity),
      ).length;
    expect(count(null)).toBe(0);
    expect(count(60 * 2 ** 20)).toBeGreaterThan(300);
    expect(count(2 ** 40)).toBe(0);
  });

  test('of any program, and of no events, is a picture', () => {
    for (const { snapshot } of programs(3)) {
      for (const one of [snapshot, { ...snapshot, deviceTraces: [] }, { ...snapshot, deviceTraces: [], segments: [] }])
        expect(decode(timelinePng(deviceHistory(one, 0), { name: 'x', width: 700, height: 400 })).width).toBe(700);
    }
  });

  test('too small is refused', () => {
    expect(() => timelinePng(smallHistory(), { name: 'x', width: 200, height: 100 })).toThrow(
      /200 x 100 pixels are too few/,
    );
  });
});

describe('text', () => {
  test('is drawn in its colour, within the picture, wherever it is put', () => {
    const canvas = new Canvas(60, 20, '#ffffff');
    canvas.text('Ab…', -10, -4, '#ff0000');
    canvas.text('right', 60, 4, '#0000ff', 'right');
    expect(canvas.pixels).toContain(pixelOf('#ff0000'));
    expect(canvas.pixels).toContain(pixelOf('#0000ff'));
    expect(canvas.pixels).toHaveLength(1200);
  });

  test('too long ends in dots', () => {
    expect([cut('short', 5), cut('longer', 5)]).toEqual(['short', 'lo...']);
  });
});

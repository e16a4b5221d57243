// The map as SVG.

import { describe, expect, test } from 'vitest';
import { deviceHistory } from '../../../lib/viewer/device-history.js';
import { segmentsSvg } from '../../../lib/viewer/segments/picture.js';
import { programs } from '../../support/programs.js';
import { smallHistory } from '../../support/small-history.js';

describe('the picture', () => {
  test('says the sums of its moment in words, and names call sites', () => {
    const history = smallHistory();
    const svg = segmentsSvg(history, history.events - 1, { name: 'a <small> "file"' });
    expect(svg).toContain('a &lt;small&gt; &quot;file&quot;, device 0, after event');
    expect(svg).toMatch(/12\.10 MiB allocated of/);
    expect(svg).toContain('onStream (small-history.ts');
    expect(svg).not.toMatch(/href=|src=|<script/);
  });

  test('is the state after the event that is asked for', () => {
    const history = smallHistory();
    expect(segmentsSvg(history, -1, { name: 'x' })).toContain(
      'before the first event: 0 bytes allocated of 0 bytes reserved',
    );
    expect(() => segmentsSvg(history, history.events, { name: 'x' })).toThrow(/there is no event/);
    expect(() => segmentsSvg(history, 0.5, { name: 'x' })).toThrow(/there is no event 0.5/);
  });

  test('says what is too thin to be drawn', () => {
    const history = smallHistory();
    const thin = segmentsSvg(history, history.events - 1, { name: 'x', width: 80, height: 100 });
    const wide = segmentsSvg(history, history.events - 1, { name: 'x', width: 200_000, height: 4000 });
    expect(thin).toMatch(/Too thin to be seen: \d+ block(s and holes| or hole), [\d.]+ (KiB|MiB)/);
    expect(wide).not.toContain('Too thin');
  });

  test('of any program is well-formed, light and dark', () => {
    for (const { snapshot } of programs(4)) {
      for (const one of [
        snapshot,
        { ...snapshot, deviceTraces: [] },
        { ...snapshot, segments: [], deviceTraces: [] },
      ]) {
        const history = deviceHistory(one, 0);
        const svg = segmentsSvg(history, history.events - 1, { name: 'x', theme: 'dark', width: 800, height: 400 });
        expect(svg.match(/<(g|text|svg)\b/g)!.length).toBe(svg.match(/<\/(g|text|svg)>/g)!.length);
        expect(svg).not.toContain('NaN');
      }
    }
  });
});

// The map of segments as a picture that stands alone (SVG), for documents and logs. Must not know files.

import { formatSize } from '../../units.js';
import { COLOURED_GROUPS, groupBlocks, groupColours } from '../colours.js';
import type { DeviceHistory } from '../device-history.js';
import { DARK, LIGHT, type Palette } from '../palette.js';
import { extentsOf, LINE, MapLayout } from './layout.js';
import { kindColour } from './raster.js';
import { type MapState, mapState, type RunKind } from './state.js';

export interface SegmentsSvgOptions {
  /** Name of the file, for the title. */
  readonly name: string;
  /** Default 1600 x 900. */
  readonly width?: number;
  readonly height?: number;
  readonly theme?: 'light' | 'dark';
}

export const KIND_NAMES: Readonly<Record<RunKind, string>> = {
  allocated: 'allocated, by call site',
  pending: 'pending: freed, another stream may still use it',
  stuck: 'stuck: free, in a segment that live blocks pin',
  wholly_free: 'wholly free: in a segment without a live block',
};

const MARGIN = 16;
const TEXT = 20;
/** Call sites in the legend. */
const NAMED = 8;

/** The state after an event; -1: before the first. Linear in blocks and ranges. @throws RangeError when there is no such event */
export function segmentsSvg(history: DeviceHistory, event: number, options: SegmentsSvgOptions): string {
  if (!(Number.isInteger(event) && event >= -1 && event < Math.max(1, history.events)))
    throw new RangeError(`there is no event ${event}: the ${history.events} events are numbered from 0`);
  const { name, width = 1600, height = 900, theme = 'light' } = options;
  const palette = theme === 'dark' ? DARK : LIGHT;
  const state = mapState(history.lifetimes, event);
  const legend = legendOf(history, state, palette);
  const rows = Math.ceil(legend.length / 2);
  const top = MARGIN + 3 * TEXT;
  const layout = new MapLayout(extentsOf(history.lifetimes.ranges), {
    width: width - 2 * MARGIN,
    height: height - top - (rows + 1) * TEXT - MARGIN,
    zoom: 1,
  });
  const below = top + layout.height + TEXT;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${below + rows * TEXT + MARGIN}" font-family="system-ui, sans-serif" font-size="14">`,
    `<rect width="100%" height="100%" fill="${palette.background}"/>`,
    ...title(history, event, { name, state, layout, palette }),
    `<g transform="translate(${MARGIN} ${top})">`,
    ...map(history, state, layout, palette),
    '</g>',
    ...legend.map(({ text, colour }, i) => {
      const x = MARGIN + Math.floor(i / rows) * ((width - 2 * MARGIN) / 2);
      const y = below + (i % rows) * TEXT;
      return `<rect x="${x}" y="${y}" width="13" height="13" fill="${colour}"/><text x="${x + 20}" y="${y + 11}" fill="${palette.ink}">${escapeXml(text)}</text>`;
    }),
    '</svg>',
    '',
  ];
  return parts.join('\n');
}

interface TitleParts {
  readonly name: string;
  readonly state: MapState;
  readonly layout: MapLayout;
  readonly palette: Palette;
}

function title(history: DeviceHistory, event: number, { name, state, layout, palette }: TitleParts): string[] {
  const { allocated, pending, stuck, wholly_free: whollyFree } = state.sums;
  const reserved = allocated + pending + stuck + whollyFree;
  const moment = event < 0 ? 'before the first event' : `after event ${event.toLocaleString('en')}`;
  const thin = layout.thin.count > 0 ? `; ${layout.thin.count} smaller segments are one grey box at the end` : '';
  const lines = [
    `${name}, device ${history.device}, ${moment}: ${formatSize(allocated)} allocated of ${formatSize(reserved)} reserved`,
    `The gap of ${formatSize(reserved - allocated)}: ${formatSize(stuck)} stuck, ${formatSize(whollyFree)} wholly free, ${formatSize(pending)} pending.`,
    `Every box is a segment, in the order of addresses; a line goes on in the next. One pixel is ${formatSize(Math.round(layout.bytesPerPixel))}${thin}.`,
  ];
  return lines.map(
    (text, i) =>
      `<text x="${MARGIN}" y="${MARGIN + 12 + i * TEXT}" fill="${i === 0 ? palette.ink : palette.faintInk}"${i === 0 ? ' font-weight="600"' : ''}>${escapeXml(text)}</text>`,
  );
}

function map(history: DeviceHistory, { runs }: MapState, layout: MapLayout, palette: Palette): string[] {
  const grouping = groupBlocks(history, 'site', COLOURED_GROUPS);
  const colours = groupColours(grouping, palette);
  const pitch = LINE.height + LINE.gap;
  const box = (x: number, line: number, width: number, fill: string): string =>
    `<rect x="${x}" y="${line * pitch}" width="${width}" height="${LINE.height}" fill="${fill}"/>`;
  const found: string[] = [];
  for (const extent of layout.placed)
    for (const { x, line, width } of layout.partsOf(extent, extent.address, extent.size))
      found.push(box(x, line, width, palette.unmapped));
  for (const { address, size, kind, row } of runs) {
    const extent = layout.extentAt(address);
    if (extent === undefined) continue;
    const fill =
      kind === 'allocated' ? (colours[grouping.groupOf[row] as number] as string) : kindColour(kind, palette);
    for (const { x, line, width } of layout.partsOf(extent, address, size)) found.push(box(x, line, width, fill));
  }
  if (layout.thin.bytes > 0) {
    const extent = { address: 0, size: layout.thin.bytes, at: layout.thinAt };
    for (const { x, line, width } of layout.partsOf(extent, 0, layout.thin.bytes))
      found.push(box(x, line, width, palette.others));
  }
  return found;
}

function legendOf(
  history: DeviceHistory,
  { runs, sums }: MapState,
  palette: Palette,
): { readonly text: string; readonly colour: string }[] {
  const grouping = groupBlocks(history, 'site', COLOURED_GROUPS);
  const colours = groupColours(grouping, palette);
  const bytes = new Float64Array(grouping.names.length);
  for (const { kind, row, size } of runs) {
    if (kind !== 'allocated') continue;
    const group = grouping.groupOf[row] as number;
    bytes[group] = (bytes[group] as number) + size;
  }
  const kinds = (['stuck', 'wholly_free', 'pending'] as const).map((kind) => ({
    text: `${KIND_NAMES[kind]}: ${formatSize(sums[kind])}`,
    colour: kindColour(kind, palette),
  }));
  const groups = [...bytes.keys()]
    .filter((group) => (bytes[group] as number) > 0)
    .sort((a, b) => (bytes[b] as number) - (bytes[a] as number));
  const named = groups.slice(0, NAMED).map((group) => ({
    text: `${grouping.names[group]}: ${formatSize(bytes[group] as number)}`,
    colour: colours[group] as string,
  }));
  const rest = groups.slice(NAMED).reduce((sum, group) => sum + (bytes[group] as number), 0);
  return [
    ...kinds,
    { text: 'not reserved at this moment, but at another', colour: palette.unmapped },
    ...named,
    ...(rest > 0
      ? [{ text: `other call sites, in their own colours: ${formatSize(rest)}`, colour: palette.others }]
      : []),
  ];
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

// The map of segments as a picture that stands alone (SVG), for documents and logs. Must not know files.

import { formatSize } from '../../units.js';
import { COLOURED_GROUPS, groupBlocks, groupColours } from '../colours.js';
import type { DeviceHistory } from '../device-history.js';
import { DARK, LIGHT, mixed, type Palette } from '../palette.js';
import { type Extent, extentsOf, LINE, MapLayout, PITCH, type Placed } from './layout.js';
import { kindColour, MapRaster, STRIPE } from './raster.js';
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
/** How much neighbours of one call site differ, so that they are seen to be two. */
const SHADES = [0, 0.14, 0.07, 0.21];
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
  const top = MARGIN + 3 * TEXT + 4;
  const layout = new MapLayout(extentsOf(history.lifetimes.ranges), {
    width: width - 2 * MARGIN,
    height: height - top - (rows + 1) * TEXT - MARGIN,
    zoom: 1,
  });
  const below = top + layout.height + TEXT;
  const drawn = { state, layout, palette };
  const heading = titleOf(history, event, name, state);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${below + rows * TEXT + MARGIN}" role="img" font-family="system-ui, sans-serif" font-size="14">`,
    `<title>${escapeXml(heading)}</title>`,
    pattern(palette),
    `<rect width="100%" height="100%" fill="${palette.background}"/>`,
    textAt(heading, MARGIN + 12, palette.ink, ' font-weight="600"'),
    ...explanation(drawn),
    `<g transform="translate(${MARGIN} ${top})">`,
    ...map(history, drawn),
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

interface Drawn {
  readonly state: MapState;
  readonly layout: MapLayout;
  readonly palette: Palette;
}

function titleOf({ device }: DeviceHistory, event: number, name: string, { sums }: MapState): string {
  const { allocated, pending, stuck, wholly_free: whollyFree } = sums;
  const moment = event < 0 ? 'before the first event' : `after event ${event.toLocaleString('en')}`;
  const reserved = formatSize(allocated + pending + stuck + whollyFree);
  return `${name}, device ${device}, ${moment}: ${formatSize(allocated)} allocated of ${reserved} reserved`;
}

function explanation({ state, layout, palette }: Drawn): string[] {
  const { pending, stuck, wholly_free: whollyFree } = state.sums;
  const raster = new MapRaster(layout);
  raster.draw(state);
  const { thin } = layout;
  const lines = [
    `The gap of ${formatSize(pending + stuck + whollyFree)}: ${formatSize(stuck)} stuck, ${formatSize(whollyFree)} wholly free, ${formatSize(pending)} pending.`,
    'Boxes are segments, in the order of addresses; a line goes on in the next. ' +
      `One pixel is ${formatSize(Math.round(layout.bytesPerPixel))}. ${[
        ...(raster.hidden.count > 0
          ? [`Too thin to be seen: ${countOf(raster.hidden, 'block or hole', 'blocks and holes')}.`]
          : []),
        ...(thin.count > 0
          ? [`The grey box at the end: ${countOf(thin, 'thinner segment', 'thinner segments')}.`]
          : []),
      ].join(' ')}`.trimEnd(),
  ];
  return lines.map((text, i) => textAt(text, MARGIN + 12 + (i + 1) * TEXT, palette.faintInk));
}

function countOf(
  { count, bytes }: { readonly count: number; readonly bytes: number },
  one: string,
  more: string,
): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : more}, ${formatSize(bytes)}`;
}

function textAt(text: string, y: number, fill: string, rest = ''): string {
  return `<text x="${MARGIN}" y="${y}" fill="${fill}"${rest}>${escapeXml(text)}</text>`;
}

function map(history: DeviceHistory, { state, layout, palette }: Drawn): string[] {
  const grouping = groupBlocks(history, 'site', COLOURED_GROUPS);
  const colours = groupColours(grouping, palette);
  const found: string[] = [];
  const boxes = (extent: Placed, { address, size }: Extent, fill: string): void => {
    for (const { x, line, width } of layout.partsOf(extent, address, size))
      found.push(`<rect x="${x}" y="${line * PITCH}" width="${width}" height="${LINE.height}" fill="${fill}"/>`);
  };
  for (const extent of layout.placed) boxes(extent, extent, palette.unmapped);
  for (const run of state.runs) {
    const extent = layout.extentAt(run.address);
    if (extent === undefined) continue;
    if (run.row === -1) boxes(extent, run, kindColour(run.kind, palette));
    else {
      const colour = colours[grouping.groupOf[run.row] as number] as string;
      boxes(extent, run, mixed(colour, palette.background, SHADES[run.row % SHADES.length] as number));
      if (run.kind === 'pending') boxes(extent, run, 'url(#pending)');
    }
  }
  const { thin, thinAt } = layout;
  if (thin.bytes > 0)
    boxes({ address: 0, size: thin.bytes, at: thinAt }, { address: 0, size: thin.bytes }, palette.others);
  return found;
}

/** Stripes over the colour of the block. */
function pattern({ pending }: Palette): string {
  return (
    `<defs><pattern id="pending" width="${2 * STRIPE}" height="${2 * STRIPE}" patternUnits="userSpaceOnUse">` +
    `<rect width="${STRIPE}" height="${2 * STRIPE}" fill="${pending}"/></pattern></defs>`
  );
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
    colour: kind === 'pending' ? 'url(#pending)' : kindColour(kind, palette),
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

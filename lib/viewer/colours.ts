// Which colour each block has: by call site, kind of work, stream or pool. The groups with most bytes at the peak get colours of their own,
// the rest share one. Must not know where the colours are used.

import { CATEGORIES } from './categories.js';
import type { DeviceHistory } from './device-history.js';
import { poolOfBlock } from './filter.js';
import { mixed, type Palette, pixelOf } from './palette.js';

export type Colouring = 'site' | 'category' | 'stream' | 'pool';

/** So many groups have a colour of their own. */
export const COLOURED_GROUPS = 20;

/** Groups with a colour of their own, in the order of bytes at the peak; the last is that of all others. */
export interface Grouping {
  /** By group. */
  readonly names: readonly string[];
  /** Group of each row of the blocks. */
  readonly groupOf: Uint8Array;
  /** Allocated bytes of each group at the peak. */
  readonly peakBytes: readonly number[];
}

/** Linear in rows. @param most groups with colours of their own */
export function groupBlocks(history: DeviceHistory, colouring: Colouring, most: number): Grouping {
  const { blocks } = history.lifetimes;
  const keys = keysOf(history, colouring);
  const bytes = new Float64Array(keys.names.length);
  // A group that holds nothing at the peak still comes before those that never hold anything.
  const everBytes = new Float64Array(keys.names.length);
  for (let row = 0; row < blocks.length; row++) {
    const key = keys.keyOf(row);
    const size = blocks.sizes[row] as number;
    everBytes[key] = (everBytes[key] as number) + size;
    if ((blocks.starts[row] as number) <= history.peak && (blocks.freed[row] as number) > history.peak)
      bytes[key] = (bytes[key] as number) + size;
  }
  const order = Array.from(bytes.keys())
    .filter((key) => (everBytes[key] as number) > 0)
    .sort((a, b) => (bytes[b] as number) - (bytes[a] as number) || (everBytes[b] as number) - (everBytes[a] as number));
  const own = order.slice(0, most);
  const groupOfKey = new Uint8Array(keys.names.length).fill(own.length);
  own.forEach((key, group) => {
    groupOfKey[key] = group;
  });
  const groupOf = new Uint8Array(blocks.length);
  for (let row = 0; row < blocks.length; row++) groupOf[row] = groupOfKey[keys.keyOf(row)] as number;
  const rest = order.slice(most);
  const noun = { site: 'call sites', category: 'kinds of work', stream: 'streams', pool: 'pools' }[colouring];
  return {
    names: [...own.map((key) => keys.names[key] as string), `${rest.length.toLocaleString('en')} other ${noun}`],
    groupOf,
    peakBytes: [...own.map((key) => bytes[key] as number), rest.reduce((sum, key) => sum + (bytes[key] as number), 0)],
  };
}

interface Keys {
  readonly names: readonly string[];
  readonly keyOf: (row: number) => number;
}

function keysOf(history: DeviceHistory, colouring: Colouring): Keys {
  const { blocks } = history.lifetimes;
  const { sites } = history;
  switch (colouring) {
    case 'site':
      return { names: sites.names, keyOf: (row) => sites.siteOf[blocks.stacks[row] as number] as number };
    case 'category':
      return { names: CATEGORIES, keyOf: (row) => sites.categoryOf[blocks.stacks[row] as number] as number };
    case 'stream':
      return numbered(blocks.length, (row) => streamName(blocks.streams[row] as number));
    case 'pool':
      return numbered(blocks.length, (row) => poolOfBlock(history, row));
  }
}

function streamName(stream: number): string {
  return stream === 0 ? 'default stream' : `stream ${stream}`;
}

/** Linear in rows. */
function numbered(rows: number, nameOf: (row: number) => string): Keys {
  const numbers = new Map<string, number>();
  const keys = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) {
    const name = nameOf(row);
    const known = numbers.get(name) ?? numbers.size;
    numbers.set(name, known);
    keys[row] = known;
  }
  return { names: [...numbers.keys()], keyOf: (row) => keys[row] as number };
}

/** `#rrggbb` of each group. */
export function groupColours({ names }: Grouping, palette: Palette): string[] {
  return names.map((_, group) =>
    group === names.length - 1 ? palette.others : (palette.series[group % palette.series.length] as string),
  );
}

/** How much neighbours of one group differ, so that they are seen to be two. */
const SHADES = [0, 0.14, 0.07, 0.21];

/** A pixel of each row of the blocks. Linear in rows. */
export function blockColours(grouping: Grouping, palette: Palette): Int32Array {
  const colours = groupColours(grouping, palette);
  const shades = colours.map((colour) => SHADES.map((share) => pixelOf(mixed(colour, palette.background, share))));
  const { groupOf } = grouping;
  const pixels = new Int32Array(groupOf.length);
  for (let row = 0; row < pixels.length; row++)
    pixels[row] = (shades[groupOf[row] as number] as readonly number[])[row % SHADES.length] as number;
  return pixels;
}

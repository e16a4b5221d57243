// The colours of pages and pictures, light and dark, as `#rrggbb`. Must not know what is drawn with them.

export interface Palette {
  readonly background: string;
  /** Behind panels and tables. */
  readonly panel: string;
  readonly ink: string;
  readonly faintInk: string;
  readonly grid: string;
  readonly accent: string;
  readonly reserved: string;
  readonly capacity: string;
  readonly outOfMemory: string;
  /** Freed, awaited by another stream. */
  readonly pending: string;
  /** Free, in a segment with live blocks. */
  readonly stuck: string;
  /** Free, in a segment without live blocks. */
  readonly whollyFree: string;
  /** Not backed by memory. */
  readonly unmapped: string;
  /** Everything too thin to be drawn alone, and call sites beyond the named ones. */
  readonly others: string;
  /** What a filter leaves out. */
  readonly dimmed: string;
  /** Told apart by people who do not see all colours alike: after the palettes of Okabe and Ito (2008) and Tol (2021). */
  readonly series: readonly string[];
}

const SERIES = [
  '#0072b2',
  '#e69f00',
  '#009e73',
  '#cc79a7',
  '#56b4e9',
  '#d55e00',
  '#882255',
  '#999933',
  '#44aa99',
  '#aa4499',
  '#332288',
  '#ddcc77',
  '#117733',
  '#cc6677',
  '#88ccee',
  '#6699cc',
  '#997700',
  '#994455',
  '#ee99aa',
  '#225522',
];

export const LIGHT: Palette = {
  background: '#ffffff',
  panel: '#f5f6f8',
  ink: '#1b1f24',
  faintInk: '#5b6470',
  grid: '#dde1e6',
  accent: '#0b62c4',
  reserved: '#3d4650',
  capacity: '#c62828',
  outOfMemory: '#d50000',
  pending: '#f2b84b',
  stuck: '#f3c9c9',
  whollyFree: '#d5ecd4',
  unmapped: '#eceff2',
  others: '#a9b1ba',
  dimmed: '#e4e7eb',
  series: SERIES,
};

export const DARK: Palette = {
  background: '#14171b',
  panel: '#1d2126',
  ink: '#e8eaed',
  faintInk: '#a3abb5',
  grid: '#30363d',
  accent: '#6cb2ff',
  reserved: '#c3cad3',
  capacity: '#ff7b72',
  outOfMemory: '#ff5449',
  pending: '#d9982b',
  stuck: '#693434',
  whollyFree: '#2c4a33',
  unmapped: '#22272d',
  others: '#6b7480',
  dimmed: '#2a2f36',
  series: SERIES.map((colour) =>
    colour === '#332288' ? '#8878d8' : colour === '#225522' ? '#5c9c5c' : colour === '#882255' ? '#c2558a' : colour,
  ),
};

/**
 * `#rrggbb` as the four bytes of an opaque pixel, little-endian as ImageData has them. A signed number: engines keep those of 32 bits as
 * integers, unsigned ones not.
 */
export function pixelOf(colour: string): number {
  const value = Number.parseInt(colour.slice(1), 16);
  return 0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >>> 16);
}

/** A colour between two: 0 is the first, 1 the second. */
export function mixed(first: string, second: string, share: number): string {
  const [a, b] = [Number.parseInt(first.slice(1), 16), Number.parseInt(second.slice(1), 16)];
  const part = (shift: number): number =>
    Math.round(((a >>> shift) & 0xff) * (1 - share) + ((b >>> shift) & 0xff) * share);
  return `#${((part(16) << 16) | (part(8) << 8) | part(0)).toString(16).padStart(6, '0')}`;
}

// What the page shows, as one value: it can be written into the address and read back. Must not know how anything is drawn.

import type { Colouring } from '../colours.js';

export type ViewName = 'timeline' | 'segments' | 'holders' | 'diagnosis';
export const VIEWS: readonly ViewName[] = ['timeline', 'segments', 'holders', 'diagnosis'];
export const COLOURINGS: readonly Colouring[] = ['site', 'category', 'stream', 'pool'];

export interface ViewState {
  readonly view: ViewName;
  /** Position among the open files. */
  readonly file: number;
  readonly device: number;
  readonly axis: 'events' | 'time';
  /** The part of the timeline that is shown, in events, with fractions; both null: all of it. */
  readonly from: number | null;
  readonly to: number | null;
  /** The highest and the lowest bytes that are shown; null: all. */
  readonly top: number | null;
  readonly bottom: number | null;
  /** The moment that all views show: a number of an event, the state after it; null: the end. */
  readonly cursor: number | null;
  /** A second moment, to compare with. */
  readonly other: number | null;
  /** Row of the block that was clicked. */
  readonly pinned: number | null;
  /** What is looked for in stacks. */
  readonly search: string;
  readonly stream: number | null;
  readonly pool: string | null;
  readonly colouring: Colouring;
  /** What the holders are compared with: nothing, the second moment, or the file at a position. */
  readonly compare: '' | 'moment' | `file${number}`;
  /** Of another file. */
  readonly compareAt: 'end' | 'peak';
  /** What the segments view points out. */
  readonly highlight: 'stuck' | 'wholly_free' | 'pending' | 'other_stream' | null;
  /** Address that the segments view points out. */
  readonly address: number | null;
  readonly theme: 'auto' | 'light' | 'dark';
}

export const START: ViewState = {
  view: 'timeline',
  file: 0,
  device: 0,
  axis: 'events',
  from: null,
  to: null,
  top: null,
  bottom: null,
  cursor: null,
  other: null,
  pinned: null,
  search: '',
  stream: null,
  pool: null,
  colouring: 'site',
  compare: '',
  compareAt: 'end',
  highlight: null,
  address: null,
  theme: 'auto',
};

export type Update = (patch: Partial<ViewState>) => void;

/** Of each key: how its text becomes a value; undefined for a text that is none. */
const READ: { readonly [K in keyof ViewState]: (text: string) => ViewState[K] | undefined } = {
  view: oneOf(VIEWS),
  file: whole,
  device: whole,
  axis: oneOf(['events', 'time'] as const),
  from: number,
  to: number,
  top: number,
  bottom: number,
  cursor: number,
  other: number,
  pinned: whole,
  search: (text) => text,
  stream: number,
  pool: (text) => text,
  colouring: oneOf(COLOURINGS),
  compare: (text) => (text === 'moment' || /^file\d+$/.test(text) ? (text as ViewState['compare']) : undefined),
  compareAt: oneOf(['end', 'peak'] as const),
  highlight: oneOf(['stuck', 'wholly_free', 'pending', 'other_stream'] as const),
  address: whole,
  theme: oneOf(['auto', 'light', 'dark'] as const),
};

/** What differs from the start, for the part of an address after `#`. */
export function formatState(state: ViewState): string {
  const params = new URLSearchParams();
  for (const key of Object.keys(START) as (keyof ViewState)[])
    if (state[key] !== START[key]) params.set(key, String(state[key]));
  return params.toString();
}

/** What it says is taken over, what it says wrongly is left out. */
export function parseState(hash: string): ViewState {
  const state: Record<string, unknown> = { ...START };
  for (const [key, text] of new URLSearchParams(hash.replace(/^#/, ''))) {
    if (!Object.hasOwn(READ, key)) continue;
    const value = READ[key as keyof ViewState](text);
    if (value !== undefined) state[key] = value;
  }
  return state as unknown as ViewState;
}

function oneOf<T extends string>(values: readonly T[]): (text: string) => T | undefined {
  return (text) => values.find((value) => value === text);
}

function number(text: string): number | undefined {
  const value = Number(text);
  return text.trim() === '' || !Number.isFinite(value) ? undefined : value;
}

function whole(text: string): number | undefined {
  const value = number(text);
  return value === undefined || !Number.isSafeInteger(value) || value < 0 ? undefined : value;
}

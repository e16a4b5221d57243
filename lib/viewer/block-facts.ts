// What is known of one block, in words and numbers, for tooltips and details. Must not know where they are shown.

import { formatSize } from '../units.js';
import type { DeviceHistory } from './device-history.js';
import { poolOfBlock } from './filter.js';
import { formatDuration } from './timeline/ticks.js';

export interface BlockFacts {
  readonly row: number;
  readonly address: number;
  readonly size: number;
  readonly requested: number;
  readonly stream: number;
  readonly pool: string;
  readonly site: string;
  /** -1: it was there before the recording. */
  readonly allocatedAt: number;
  /** Null: it is still there at the end. */
  readonly freedAt: number | null;
  readonly completedAt: number | null;
  readonly state: 'not yet allocated' | 'allocated' | 'pending' | 'freed';
  /** From its allocation to the moment, or to its free where that was before: `1,204 events, 3.4 ms`. */
  readonly age: string;
  /** From its allocation to its free; null while it lives. */
  readonly life: string | null;
}

/** Constant. */
export function blockFacts(history: DeviceHistory, row: number, moment: number): BlockFacts {
  const { blocks } = history.lifetimes;
  const [start, freed, end] = [blocks.starts[row], blocks.freed[row], blocks.ends[row]] as [number, number, number];
  const known = (event: number): number | null => (event < history.events ? event : null);
  return {
    row,
    address: blocks.addresses[row] as number,
    size: blocks.sizes[row] as number,
    requested: blocks.requested[row] as number,
    stream: blocks.streams[row] as number,
    pool: poolOfBlock(history, row),
    site: history.sites.names[history.sites.siteOf[blocks.stacks[row] as number] as number] as string,
    allocatedAt: start,
    freedAt: known(freed),
    completedAt: known(end),
    state: moment < start ? 'not yet allocated' : moment < freed ? 'allocated' : moment < end ? 'pending' : 'freed',
    age: between(history, start, Math.max(start, Math.min(moment, freed))),
    life: freed < history.events ? between(history, start, freed) : null,
  };
}

function between({ times }: DeviceHistory, from: number, to: number): string {
  if (from < 0) return `from before the recording, ${(to + 1).toLocaleString('en')} events or more`;
  const events = `${(to - from).toLocaleString('en')} event${to - from === 1 ? '' : 's'}`;
  if (times === null) return events;
  return `${events}, ${formatDuration((times[to] as number) - (times[from] as number))}`;
}

/** `12.00 MiB (11.50 MiB requested)`. */
export function sizeWords({ size, requested }: Pick<BlockFacts, 'size' | 'requested'>): string {
  return size === requested || requested === 0
    ? formatSize(size)
    : `${formatSize(size)} (${formatSize(requested)} requested)`;
}

// Who holds how much at a moment, by stack and by call site, and how two moments differ. Must not know how it is shown.

import { EMPTY_STACK } from '../../snapshot/model.js';
import { NO_SITE } from '../call-sites.js';
import type { DeviceHistory } from '../device-history.js';

/** Allocated blocks of each stack, by its number. */
export interface StackSums {
  readonly bytes: Float64Array;
  readonly counts: Uint32Array;
  readonly largest: Float64Array;
  readonly totalBytes: number;
  readonly totalCount: number;
  /** Of blocks without a stack, those that were there before the recording. */
  readonly beforeBytes: number;
}

/** After an event, of the rows that pass. Linear in rows. */
export function stackSums(history: DeviceHistory, event: number, passing: Uint8Array | null): StackSums {
  const { starts, freed, sizes, stacks, length } = history.lifetimes.blocks;
  const size = history.snapshot.stacks.size;
  // One event is no history: PyTorch leaves the last one where the recording was off.
  const wasRecorded = history.events > 1;
  const [bytes, counts, largest] = [new Float64Array(size), new Uint32Array(size), new Float64Array(size)];
  let totalBytes = 0;
  let totalCount = 0;
  let beforeBytes = 0;
  for (let row = 0; row < length && (starts[row] as number) <= event; row++) {
    if ((freed[row] as number) <= event || (passing !== null && passing[row] === 0)) continue;
    const stack = stacks[row] as number;
    const own = sizes[row] as number;
    bytes[stack] = (bytes[stack] as number) + own;
    counts[stack] = (counts[stack] as number) + 1;
    largest[stack] = Math.max(largest[stack] as number, own);
    totalBytes += own;
    totalCount++;
    if (stack === EMPTY_STACK && starts[row] === -1 && wasRecorded) beforeBytes += own;
  }
  return { bytes, counts, largest, totalBytes, totalCount, beforeBytes };
}

/** One call site; with `_a` the values that it is compared with, 0 where nothing is compared. */
export interface SiteRow {
  /** The same for the same site of any file. */
  readonly key: string;
  readonly name: string;
  bytes: number;
  count: number;
  largest: number;
  bytesA: number;
  countA: number;
  /** Stacks of it that hold something, of the shown file, those with most bytes first. */
  readonly stacks: { readonly stack: number; readonly bytes: number; readonly count: number }[];
}

/** Rows of all sites that hold something on either side, most bytes first. Linear in stacks. */
export function siteRows(
  shown: { readonly history: DeviceHistory; readonly sums: StackSums },
  compared: { readonly history: DeviceHistory; readonly sums: StackSums } | null,
): SiteRow[] {
  const rows = new Map<string, SiteRow>();
  const rowOf = ({ sites }: DeviceHistory, stack: number): SiteRow => {
    const site = sites.siteOf[stack] as number;
    const key = sites.keys[site] as string;
    let row = rows.get(key);
    if (row === undefined) {
      row = {
        key,
        name: sites.names[site] as string,
        bytes: 0,
        count: 0,
        largest: 0,
        bytesA: 0,
        countA: 0,
        stacks: [],
      };
      rows.set(key, row);
    }
    return row;
  };
  const { history, sums } = shown;
  sums.counts.forEach((count, stack) => {
    if (count === 0) return;
    const row = rowOf(history, stack);
    const bytes = sums.bytes[stack] as number;
    row.bytes += bytes;
    row.count += count;
    row.largest = Math.max(row.largest, sums.largest[stack] as number);
    row.stacks.push({ stack, bytes, count });
  });
  compared?.sums.counts.forEach((count, stack) => {
    if (count === 0) return;
    const row = rowOf(compared.history, stack);
    row.bytesA += compared.sums.bytes[stack] as number;
    row.countA += count;
  });
  const sorted = [...rows.values()].sort((a, b) => b.bytes - a.bytes || b.bytesA - a.bytesA);
  for (const row of sorted) row.stacks.sort((a, b) => b.bytes - a.bytes);
  return sorted;
}

/** Why blocks have no stack, in words. */
export function noStackWords({ sums, history }: { readonly sums: StackSums; readonly history: DeviceHistory }): string {
  const site = history.sites.names[NO_SITE] as string;
  const bytes = sums.bytes[EMPTY_STACK] as number;
  if (bytes === 0) return site;
  if (sums.beforeBytes === bytes) return `${site}: allocated before the recording`;
  return sums.beforeBytes === 0 ? `${site}: none was recorded` : `${site}: in part from before the recording`;
}

// Call sites in one line each, and how rows that share one are summed. Pure text.

import type { ReportFrame } from '../../analysis/report/format.js';
import { formatCallSite, namingFrame } from '../../snapshot/call-site.js';

/** `forward (net.py:12)`; what there is instead of a stack where there is none. */
export function siteOf(frames: readonly ReportFrame[], noStack?: string): string {
  const frame = namingFrame(frames);
  return frame === null ? `no stack (${(noStack ?? 'not_recorded').replaceAll('_', ' ')})` : formatCallSite(frame);
}

/** Sums rows whose call sites look alike: deeper down their stacks differ, which is of no interest in a table. Order of first appearance. */
export function sumBySite<T>(
  rows: readonly T[],
  site: (row: T) => string,
  add: (sum: T, row: T) => T,
): { readonly site: string; readonly row: T }[] {
  const sums = new Map<string, T>();
  for (const row of rows) {
    const name = site(row);
    const sum = sums.get(name);
    sums.set(name, sum === undefined ? row : add(sum, row));
  }
  return [...sums].map(([name, row]) => ({ site: name, row }));
}

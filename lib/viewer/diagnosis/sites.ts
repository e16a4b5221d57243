// The call sites that a report names by their frames: in a line, as a search that finds them, and summed. Must not know how they are shown.

import type { ReportFrame } from '../../analysis/report/format.js';
import { formatCallSite, namingFrame } from '../../snapshot/call-site.js';

/** `forward (net.py:12)`; where there is no stack, why. */
export function siteName(frames: readonly ReportFrame[], noStack = 'not_recorded'): string {
  const frame = namingFrame(frames);
  return frame === null ? `no stack (${noStack.replaceAll('_', ' ')})` : formatCallSite(frame);
}

/** A search that finds the stacks with this call site's frame in them, and no other line; null where there is no frame. */
export function siteSearch(frames: readonly ReportFrame[]): string | null {
  const frame = namingFrame(frames);
  return frame === null ? null : `${frame.name} ${frame.filename}:${frame.line} `;
}

export interface SiteSum<T> {
  readonly name: string;
  readonly search: string | null;
  readonly sum: T;
}

type Sited = { readonly frames: readonly ReportFrame[]; readonly no_stack?: string };

/** Entries with the same call site as one, in the order of the first of each. Linear in frames. */
export function sumBySite<T extends Sited>(entries: readonly T[], add: (sum: T, entry: T) => T): SiteSum<T>[] {
  const sums = new Map<string, T>();
  for (const entry of entries) {
    const key = siteSearch(entry.frames) ?? siteName([], entry.no_stack);
    const sum = sums.get(key);
    sums.set(key, sum === undefined ? entry : add(sum, entry));
  }
  return [...sums.values()].map((sum) => ({
    name: siteName(sum.frames, sum.no_stack),
    search: siteSearch(sum.frames),
    sum,
  }));
}

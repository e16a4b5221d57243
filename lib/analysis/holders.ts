// Who holds the memory: live blocks summed by call site. Must not know how the blocks were found.

import { EMPTY_STACK, type Snapshot } from '../snapshot/model.js';
import type { LiveBlock } from './live-blocks.js';
import type { Holder } from './report-format.js';
import { reportFrames } from './report-frames.js';

/** Most bytes first. Linear in blocks. */
export function holdersOf(snapshot: Snapshot, device: number, blocks: readonly LiveBlock[]): Holder[] {
  const hasEvents = (snapshot.deviceTraces[device]?.length ?? 0) > 1;
  const sites = new Map<string, { stack: number; before: boolean; bytes: number; count: number }>();
  for (const { stack, size, event } of blocks) {
    // Without a stack it matters whether it could have had one.
    const before = stack === EMPTY_STACK && event < 0 && hasEvents;
    const key = `${stack} ${before}`;
    const site = sites.get(key) ?? { stack, before, bytes: 0, count: 0 };
    site.bytes += size;
    site.count++;
    sites.set(key, site);
  }
  return [...sites.values()]
    .sort((a, b) => b.bytes - a.bytes || a.stack - b.stack)
    .map(({ stack, before, bytes, count }) => ({
      device,
      frames: reportFrames(snapshot.stacks, stack),
      bytes,
      count,
      ...(stack === EMPTY_STACK && { no_stack: before ? ('before_recording' as const) : ('not_recorded' as const) }),
    }));
}

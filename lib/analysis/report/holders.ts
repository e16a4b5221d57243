// Who holds the memory: live blocks summed by call site. Must not know how the blocks were found.

import { scriptExtension } from '../../snapshot/call-site.js';
import { EMPTY_STACK, type Snapshot } from '../../snapshot/model.js';
import type { Holder, ReportFrame } from './format.js';
import { reportFrames } from './frames.js';
import type { LiveBlock } from './live-blocks.js';

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
    .map(({ stack, before, bytes, count }) => {
      const frames = reportFrames(snapshot.stacks, stack);
      const reason = reasonOf(frames, before);
      return { device, frames, bytes, count, ...(reason !== null && { no_stack: reason }) };
    });
}

function reasonOf(frames: readonly ReportFrame[], before: boolean): NonNullable<Holder['no_stack']> | null {
  if (frames.length === 0) return before ? 'before_recording' : 'not_recorded';
  return frames.some(({ filename }) => scriptExtension(filename) !== null) ? null : 'native_only';
}

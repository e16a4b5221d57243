// Which live blocks keep how many free bytes from being given back: segments that are partly in use. Must not know the events.

import type { Snapshot, SnapshotBlock } from '../../snapshot/model.js';
import type { Pinning } from './format.js';
import { reportFrames } from './frames.js';

/** Most pinned bytes first. Linear in blocks. */
export function pinningOf(snapshot: Snapshot): Pinning[] {
  const found: Pinning[] = [];
  for (const segment of snapshot.segments) {
    const live = segment.blocks.filter(({ state }) => state !== 'inactive');
    const liveBytes = live.reduce((sum, { size }) => sum + size, 0);
    const pinned = segment.totalSize - liveBytes;
    if (live.length === 0 || pinned <= 0) continue;
    const largest = live.reduce((most: SnapshotBlock, block) => (block.size > most.size ? block : most));
    found.push({
      device: segment.device,
      stream: segment.stream,
      pool: segment.segmentType,
      segment: segment.address,
      live_blocks: live.length,
      live_bytes: liveBytes,
      pinned_bytes: pinned,
      frames: reportFrames(snapshot.stacks, largest.stack),
    });
  }
  return found.sort((a, b) => b.pinned_bytes - a.pinned_bytes || a.segment - b.segment);
}

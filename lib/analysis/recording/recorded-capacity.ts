// How large the device must have been, judged by what a recording says of requests that ran short. Must not know how it is used.

import type { Config } from '../../allocator/config.js';
import { segmentSize } from '../../allocator/rounding.js';
import {
  type DeviceTrace,
  OOM,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
} from '../../snapshot/model.js';
import type { StartState } from './start-state.js';

/**
 * Bytes that the allocator could have: at least what it had at its peak, less than what every request that failed would have needed, in
 * between what the device reported at the last failure. Null without a failure, and where failures contradict each other (another process
 * took or gave memory in between).
 */
export function recordedCapacity(trace: DeviceTrace, start: StartState, config: Config): number | null {
  let reserved = start.segments.reduce((sum, { size }) => sum + size, 0);
  let peak = reserved;
  let ceiling = Number.POSITIVE_INFINITY;
  let reported: number | null = null;
  for (let event = 0; event < trace.length; event++) {
    const size = trace.sizes[event] as number;
    switch (trace.actions[event]) {
      case SEGMENT_ALLOC:
      case SEGMENT_MAP:
        reserved += size;
        peak = Math.max(peak, reserved);
        break;
      case SEGMENT_FREE:
      case SEGMENT_UNMAP:
        reserved -= size;
        break;
      case OOM:
        // An expandable segment may have been filled page by page before the last one failed.
        ceiling = Math.min(ceiling, reserved + segmentSize(size, config));
        reported = reserved + (trace.addresses[event] as number);
    }
  }
  if (reported === null || peak >= ceiling) return null;
  return Math.min(Math.max(reported, peak), ceiling - 1);
}

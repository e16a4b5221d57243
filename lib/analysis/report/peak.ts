// Allocated, active and reserved bytes along the events: the peaks, and a timeline of about 200 points. Walked back from the final state, so
// that the last point is that state. Must not know who holds the memory.

import type { Config } from '../../allocator/config.js';
import {
  ALLOC,
  type DeviceTrace,
  FREE_COMPLETED,
  FREE_REQUESTED,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
  type Snapshot,
} from '../../snapshot/model.js';
import { blockSizes } from '../recording/block-sizes.js';
import { completesAtOnce } from '../recording/snapshot-trace.js';
import type { StartState } from '../recording/start-state.js';
import type { DeviceReport } from './format.js';

export type Course = Pick<DeviceReport, 'peak' | 'pending_peak' | 'timeline'>;

/** The timeline has about this many points. */
const POINTS = 200;

/** After each event. Linear in events. @param start what `rebuildStart` gave, where it is there already */
export function courseOf(snapshot: Snapshot, device: number, config: Config, start?: StartState): Course {
  const trace = snapshot.deviceTraces[device];
  // One event is no history: PyTorch leaves the last one where the recording was off.
  if (trace === undefined || trace.length < 2) return { peak: null, pending_peak: null, timeline: [] };
  return new Walk(snapshot, device, trace, blockSizes(snapshot, device, config, start?.segments)).course();
}

class Walk {
  readonly #trace: DeviceTrace;
  /** Size of the block of each event. */
  readonly #blockSizes: Float64Array;
  /** Size of each block in use, by address. */
  readonly #sizes = new Map<number, number>();
  readonly #pendingByStream = new Map<number, number>();
  #allocated = 0;
  #pending = 0;
  #reserved = 0;

  constructor(snapshot: Snapshot, device: number, trace: DeviceTrace, sizes: Float64Array) {
    this.#trace = trace;
    this.#blockSizes = sizes;
    for (const segment of snapshot.segments) {
      if (segment.device !== device) continue;
      this.#reserved += segment.totalSize;
      for (const { address, size, state } of segment.blocks) {
        if (state === 'inactive') continue;
        this.#sizes.set(address, size);
        if (state === 'active_allocated') this.#allocated += size;
        else this.#addPending(segment.stream, size);
      }
    }
  }

  course(): Course {
    const { length, times, actions } = this.#trace;
    const step = Math.max(1, Math.ceil(length / POINTS));
    const timeline: (number | null)[][] = [];
    let peak: Course['peak'] = null;
    let pendingPeak: Course['pending_peak'] = null;
    for (let event = length - 1; event >= 0; event--) {
      const time = times[event] as number;
      const timeUs = Number.isNaN(time) ? null : time;
      // Of equal ones the earliest.
      if (peak === null || this.#allocated >= peak.allocated) {
        peak = { event, time_us: timeUs, allocated: this.#allocated, reserved: this.#reserved };
      }
      // A free that had nothing to wait for is pending only between its own two events.
      const waits = actions[event] !== FREE_REQUESTED || !completesAtOnce(this.#trace, event);
      if (waits && this.#pending > 0 && this.#pending >= (pendingPeak?.bytes ?? 0)) {
        const streams = [...this.#pendingByStream].filter(([, bytes]) => bytes > 0);
        const byStream = streams.map(([stream, bytes]) => ({ stream, bytes })).sort((a, b) => b.bytes - a.bytes);
        pendingPeak = { event, bytes: this.#pending, by_stream: byStream };
      }
      if (event === length - 1 || event % step === 0) {
        timeline.push([event, timeUs, this.#allocated, this.#allocated + this.#pending, this.#reserved]);
      }
      this.#undo(event);
    }
    return { peak, pending_peak: pendingPeak, timeline: timeline.reverse() };
  }

  #undo(event: number): void {
    const { actions, addresses, sizes, streams } = this.#trace;
    const address = addresses[event] as number;
    const bytes = sizes[event] as number;
    const stream = streams[event] as number;
    switch (actions[event]) {
      case ALLOC:
        this.#allocated -= this.#sizes.get(address) ?? 0;
        this.#sizes.delete(address);
        return;
      case FREE_COMPLETED: {
        const size = this.#blockSizes[event] as number;
        this.#sizes.set(address, size);
        return this.#addPending(stream, size);
      }
      case FREE_REQUESTED: {
        const size = this.#sizes.get(address) ?? 0;
        this.#allocated += size;
        return this.#addPending(stream, -size);
      }
      case SEGMENT_ALLOC:
      case SEGMENT_MAP:
        this.#reserved -= bytes;
        return;
      case SEGMENT_FREE:
      case SEGMENT_UNMAP:
        this.#reserved += bytes;
    }
  }

  #addPending(stream: number, bytes: number): void {
    this.#pending += bytes;
    this.#pendingByStream.set(stream, (this.#pendingByStream.get(stream) ?? 0) + bytes);
  }
}

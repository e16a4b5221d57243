// Order between streams: memory that one stream has used may be used by another after the first one's work so far. Must not know what memory.

import type { Device, Stream } from '../device/types.js';

/** Later work of `stream` waits for the work of the others so far, without blocking this thread. Destroyed ones are waited for at once. */
export function waitForStreams(stream: Stream, others: readonly Stream[], device: Device): void {
  for (const other of new Set(others)) {
    if (other === stream) continue;
    if (other.destroyed) {
      device.synchronize();
      continue;
    }
    const event = device.createEvent({ timing: false });
    try {
      event.record(other);
      stream.waitEvent(event);
    } finally {
      event.destroy();
    }
  }
}

/** Waits for all work of these streams so far. */
export function synchronizeAll(streams: readonly Stream[], device: Device): void {
  for (const stream of new Set(streams)) {
    if (stream.destroyed) device.synchronize();
    else stream.synchronize();
  }
}

// Frees that wait: a block used on other streams returns to its pool only when events recorded there have completed.
// Rules: PyTorch's record_stream (insert_events, process_events, synchronize_and_free_events).

import type { Device, Event, Stream } from '../device/types.js';
import { CapturingError } from '../errors.js';
import type { Block } from './block.js';
import type { Heap } from './heap.js';

interface Awaited {
  readonly event: Event;
  readonly block: Block;
}

/** First in, first out; the head moves so that taking is constant. */
interface Queue {
  readonly stream: Stream;
  readonly entries: Awaited[];
  head: number;
}

export class DeferredFrees {
  readonly #heap: Heap;
  readonly #device: Device;
  readonly #queues = new Map<number, Queue>();
  /** Completed events, to be recorded again. */
  readonly #spareEvents: Event[] = [];
  /** Freed while a stream was being captured; their events are recorded when the capture has ended. */
  #captured: Block[] = [];
  /** Events outstanding, and blocks freed during a capture. */
  outstanding = 0;

  constructor(heap: Heap, device: Device) {
    this.#heap = heap;
    this.#device = device;
  }

  /** Streams with outstanding events that can be waited for. */
  get streams(): Stream[] {
    return [...this.#queues.values()].map((queue) => queue.stream).filter((stream) => !stream.destroyed);
  }

  /**
   * Takes a block with `streamUses` that its user freed, and says whether it has to wait: not when all of those streams were destroyed,
   * whose work is then waited for here. After an error nothing has changed.
   */
  defer(block: Block): boolean {
    const uses = block.streamUses as Stream[];
    const streams = uses.filter((stream) => !stream.destroyed);
    if (streams.some((stream) => stream.isCapturing())) {
      this.#captured.push(block);
      this.outstanding++;
      return true;
    }
    if (streams.length < uses.length) this.#device.synchronize();
    if (streams.length > 0) this.#recordEvents(block, streams);
    block.streamUses = null;
    return streams.length > 0;
  }

  /** Returns the blocks whose events have completed, each queue up to its first event that has not. Never waits. */
  process(): void {
    this.#retryCaptured();
    try {
      for (const queue of this.#queues.values()) {
        while (queue.head < queue.entries.length) {
          if (!(queue.entries[queue.head] as Awaited).event.query()) break;
          this.#complete(queue);
        }
        this.#tidy(queue);
      }
    } catch (error) {
      // During a capture nothing may be asked; the next allocation after it looks again.
      if (!(error instanceof CapturingError)) throw error;
    }
  }

  /** Waits for every outstanding event. Synchronising. */
  synchronize(): void {
    this.#heap.stats.counters.num_sync_all_streams++;
    this.#retryCaptured();
    for (const queue of this.#queues.values()) {
      while (queue.head < queue.entries.length) {
        (queue.entries[queue.head] as Awaited).event.synchronize();
        this.#complete(queue);
      }
      this.#tidy(queue);
    }
  }

  /** Destroys all events. For closing only. */
  destroy(): void {
    for (const queue of this.#queues.values()) {
      for (const entry of queue.entries.slice(queue.head)) entry.event.destroy();
    }
    for (const event of this.#spareEvents) event.destroy();
    this.#queues.clear();
    this.#spareEvents.length = 0;
    this.#captured = [];
    this.outstanding = 0;
  }

  #recordEvents(block: Block, streams: readonly Stream[]): void {
    const recorded: Event[] = [];
    try {
      for (const stream of streams) {
        const event = this.#spareEvents.pop() ?? this.#device.createEvent({ timing: false });
        recorded.push(event);
        event.record(stream);
      }
    } catch (error) {
      this.#spareEvents.push(...recorded);
      throw error;
    }
    streams.forEach((stream, i) => {
      this.#queueOf(stream).entries.push({ event: recorded[i] as Event, block });
    });
    block.pendingEvents = streams.length;
    this.outstanding += streams.length;
  }

  #queueOf(stream: Stream): Queue {
    const existing = this.#queues.get(stream.id);
    if (existing !== undefined) return existing;
    const queue = { stream, entries: [], head: 0 };
    this.#queues.set(stream.id, queue);
    return queue;
  }

  #complete(queue: Queue): void {
    const { event, block } = queue.entries[queue.head++] as Awaited;
    this.#spareEvents.push(event);
    this.outstanding--;
    if (--block.pendingEvents > 0) return;
    this.#heap.completeFree(block);
  }

  #tidy(queue: Queue): void {
    if (queue.head === queue.entries.length) {
      this.#queues.delete(queue.stream.id);
    } else if (queue.head > 1024) {
      queue.entries.splice(0, queue.head);
      queue.head = 0;
    }
  }

  #retryCaptured(): void {
    if (this.#captured.length === 0) return;
    const captured = this.#captured;
    this.#captured = [];
    this.outstanding -= captured.length;
    captured.forEach((block, i) => {
      try {
        if (!this.defer(block)) this.#heap.completeFree(block);
      } catch (error) {
        const rest = captured.slice(i);
        this.#captured.push(...rest);
        this.outstanding += rest.length;
        throw error;
      }
    });
  }
}

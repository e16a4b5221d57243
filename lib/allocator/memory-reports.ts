// What can be read of an allocator: settings, statistics, history, snapshots. Changes no memory.

import type { Device, Feature } from '../device/types.js';
import type { Snapshot } from '../snapshot/model.js';
import type { Config } from './config.js';
import type { Heap } from './heap.js';
import { type HistoryOptions, MemoryHistory } from './history.js';
import { memorySummary } from './memory-summary.js';
import type { Policy } from './policy.js';
import { snapshotOf } from './state-snapshot.js';
import { ALLOCATED_BYTES, RESERVED_BYTES } from './stats.js';

export abstract class MemoryReports {
  readonly device: Device;
  readonly #heap: Heap;
  /** As at the start: `setConf` does not change what the statistics report. */
  readonly #reportedMaxSplitSize: number;

  protected constructor(device: Device, heap: Heap) {
    const { maxSplitSize } = heap.config;
    this.device = device;
    this.#heap = heap;
    this.#reportedMaxSplitSize = Number.isFinite(maxSplitSize) ? maxSplitSize : -1;
  }

  /** Statistics of its parts, by name. */
  protected abstract otherStats(): Record<string, number>;

  /** The settings in force. */
  get config(): Config {
    return this.#heap.config;
  }

  get policy(): Policy {
    return this.#heap.policy;
  }

  /** Whether the expandable segments that the settings ask for can be had. */
  get expandableSegments(): Feature {
    const reason = this.#heap.expandableRefused;
    return reason === '' ? { works: true } : { works: false, reason };
  }

  /** Bytes in use by callers, rounded to blocks. Constant. */
  memoryAllocated(): number {
    return this.#heap.stats.current(ALLOCATED_BYTES);
  }

  /** Bytes held from the device. Constant. */
  memoryReserved(): number {
    return this.#heap.reserved;
  }

  maxMemoryAllocated(): number {
    return this.#heap.stats.peak(ALLOCATED_BYTES);
  }

  maxMemoryReserved(): number {
    return this.#heap.stats.peak(RESERVED_BYTES);
  }

  /** Every statistic under PyTorch's flat keys (`allocated_bytes.all.peak`), and ours under `cudalloc.`. */
  memoryStats(): Record<string, number> {
    return {
      ...this.#heap.stats.flat(),
      max_split_size: this.#reportedMaxSplitSize,
      ...this.otherStats(),
    };
  }

  /** The statistics as a table for people. */
  memorySummary(): string {
    const { device } = this;
    return memorySummary(
      this.#heap.stats,
      `cudalloc memory summary, device ${device.index} (${device.name}), policy ${this.#heap.policy.name}`,
    );
  }

  resetPeakMemoryStats(): void {
    this.#heap.stats.resetPeak();
  }

  resetAccumulatedMemoryStats(): void {
    this.#heap.stats.resetAccumulated();
  }

  /** The largest free block, or the free bytes of the device when those are more. */
  cacheInfo(): { largestBlock: number } {
    return { largestBlock: Math.max(this.device.memGetInfo().free, this.#heap.largestFree()) };
  }

  /** Starts recording events, afresh; null stops it and drops them. */
  recordMemoryHistory(options: HistoryOptions | null = {}): void {
    this.#heap.history = options === null ? null : new MemoryHistory(options);
  }

  /** The recorded events; null while recording is off. */
  get history(): MemoryHistory | null {
    return this.#heap.history;
  }

  /** The present state and the recorded events. Linear. */
  memorySnapshot(): Snapshot {
    return snapshotOf(this.#heap, this.device);
  }

  /** Short for `memorySnapshot`. */
  snapshot(): Snapshot {
    return this.memorySnapshot();
  }
}

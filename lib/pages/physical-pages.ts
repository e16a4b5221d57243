// Physical pages of one device: created for a mapping, given back after it. What the driver refuses to take back is kept and used
// again before anything new is created, so that a failed release loses nothing. Must not know where pages are mapped.

import type { Device } from '../device/types.js';
import { DriverError } from '../errors.js';

export class PhysicalPages {
  readonly device: Device;
  /** Handles that a failed release left behind, by page size. Empty unless the driver failed. */
  readonly #kept = new Map<number, number[]>();

  constructor(device: Device) {
    this.device = device;
  }

  /** Bytes of pages that belong to no mapping because the driver refused to take them back. Constant in practice. */
  get keptBytes(): number {
    let bytes = 0;
    for (const [pageBytes, handles] of this.#kept) bytes += pageBytes * handles.length;
    return bytes;
  }

  /**
   * Fills `handles` with pages. All or none.
   * @throws DeviceOutOfMemoryError
   */
  create(pageBytes: number, handles: Int32Array): void {
    const kept = this.#kept.get(pageBytes) ?? [];
    const reused = Math.min(kept.length, handles.length);
    if (reused < handles.length) this.device.memCreate(pageBytes, handles.subarray(reused));
    for (let i = 0; i < reused; i++) handles[i] = kept.pop() as number;
  }

  /** Gives pages back. After a driver error the rest is kept for reuse. */
  release(pageBytes: number, handles: Int32Array): void {
    try {
      this.device.memRelease(handles);
    } catch (error) {
      const kept = this.#kept.get(pageBytes) ?? [];
      for (const handle of handles) if (handle !== -1) kept.push(handle);
      this.#kept.set(pageBytes, kept);
      throw error;
    }
  }

  /** Gives pages back, or keeps those that the driver refuses to take. */
  releaseOrKeep(pageBytes: number, handles: Int32Array): void {
    try {
      this.release(pageBytes, handles);
    } catch (error) {
      if (!(error instanceof DriverError)) throw error;
    }
  }

  /** Tries again to give back what an earlier failure left. */
  releaseKept(): void {
    for (const [pageBytes, handles] of this.#kept) {
      this.#kept.delete(pageBytes);
      this.release(pageBytes, Int32Array.from(handles));
    }
  }
}

// The pinned buffers that JavaScript may still hold. Their memory goes with the device, so whoever closes it detaches them first.
// Knows nothing of the addon.

const LEAST_CAPACITY = 64;

export class PinnedBuffers {
  #refs = new Set<WeakRef<ArrayBuffer>>();
  #pruneAt = LEAST_CAPACITY;

  /** Amortised constant: the collected and the freed ones are forgotten as new ones come. */
  add(buffer: ArrayBuffer): void {
    if (this.#refs.size >= this.#pruneAt) {
      this.#refs = new Set(Array.from(this.alive(), (alive) => new WeakRef(alive)));
      this.#pruneAt = Math.max(LEAST_CAPACITY, 2 * this.#refs.size);
    }
    this.#refs.add(new WeakRef(buffer));
  }

  /** Those that are neither collected nor freed. */
  *alive(): Generator<ArrayBuffer> {
    for (const ref of this.#refs) {
      const buffer = ref.deref();
      if (buffer !== undefined && buffer.byteLength > 0) yield buffer;
    }
  }
}

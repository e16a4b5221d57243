// What the threads that have one device of CUDA or of the mock open leave to each other: free pages, and requests to give memory back.

import { isMainThread } from 'node:worker_threads';
import { checkBytes, checkOpen } from './check.js';
import type { NativeContext } from './native-stream.js';
import { TrimListeners } from './trim-listeners.js';
import type { PageOffers, TrimListener, TrimRequests } from './types.js';

/** Milliseconds that a busy thread is waited for. */
const PATIENCE_MS = 100;

export class NativePageOffers implements PageOffers {
  readonly #context: NativeContext;

  constructor(context: NativeContext) {
    this.#context = context;
  }

  get shared(): boolean {
    const { binding, id, device } = this.#context;
    return !isMainThread || (!device.closed && binding.deviceOpenings(id) > 1);
  }

  offer(handles: Int32Array): void {
    this.#open().binding.memOffer(this.#context.id, handles);
  }

  claim(handles: Int32Array): number {
    return this.#open().binding.memClaim(this.#context.id, handles);
  }

  take(pageBytes: number, handles: Int32Array): number {
    checkBytes(pageBytes, 'pageBytes');
    return this.#open().binding.memTake(this.#context.id, pageBytes, handles);
  }

  trim(bytes: number): number {
    return this.#open().binding.memTrim(this.#context.id, bytes);
  }

  bytes(): number {
    return this.#open().binding.memOffered(this.#context.id);
  }

  #open(): NativeContext {
    checkOpen(this.#context.device);
    return this.#context;
  }
}

/** The openings of this thread that have listeners, by device. */
const here = new Map<string, Set<NativeTrimRequests>>();

export class NativeTrimRequests implements TrimRequests {
  readonly #context: NativeContext;
  readonly #siblings: Set<NativeTrimRequests>;
  readonly #listeners = new TrimListeners();

  constructor(context: NativeContext) {
    this.#context = context;
    const key = `${context.device.backend} ${context.device.index}`;
    this.#siblings = here.get(key) ?? new Set();
    here.set(key, this.#siblings);
  }

  listen(listener: TrimListener): () => void {
    const { binding, id, device } = this.#context;
    checkOpen(device);
    if (this.#listeners.none) binding.onTrimRequest(id, (bytes) => this.#listeners.ask(bytes, null));
    this.#siblings.add(this);
    const end = this.#listeners.listen(listener);
    return () => {
      end();
      if (!this.#listeners.none) return;
      this.#siblings.delete(this);
      if (!device.closed) binding.onTrimRequest(id, null);
    };
  }

  ask(bytes: number, asking: TrimListener): number {
    const { binding, id, device } = this.#context;
    checkOpen(device);
    let freed = 0;
    for (const opening of this.#siblings) {
      // A listener ends with its device.
      if (opening.#context.device.closed) this.#siblings.delete(opening);
      else if (freed < bytes) freed += opening.#listeners.ask(bytes - freed, asking);
    }
    if (freed >= bytes || binding.deviceOpenings(id) === 1) return freed;
    return freed + binding.requestTrim(id, bytes - freed, PATIENCE_MS);
  }
}

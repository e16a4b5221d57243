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

/** Those of this thread, by device, however often it is open here. */
const here = new Map<string, TrimListeners>();

export class NativeTrimRequests implements TrimRequests {
  readonly #context: NativeContext;
  readonly #key: string;
  /** Those of this opening, for other threads. */
  readonly #own = new TrimListeners();

  constructor(context: NativeContext) {
    this.#context = context;
    this.#key = `${context.device.backend} ${context.device.index}`;
  }

  listen(listener: TrimListener): () => void {
    const { binding, id, device } = this.#context;
    checkOpen(device);
    if (this.#own.none) binding.onTrimRequest(id, (bytes) => this.#own.ask(bytes, null));
    const listeners = here.get(this.#key) ?? new TrimListeners();
    here.set(this.#key, listeners);
    const ends = [listeners.listen(listener), this.#own.listen(listener)];
    return () => {
      for (const end of ends) end();
      if (this.#own.none && !device.closed) binding.onTrimRequest(id, null);
      if (listeners.none) here.delete(this.#key);
    };
  }

  ask(bytes: number, asking: TrimListener): number {
    const { binding, id, device } = this.#context;
    checkOpen(device);
    const freed = here.get(this.#key)?.ask(bytes, asking) ?? 0;
    if (freed >= bytes || binding.deviceOpenings(id) === 1) return freed;
    return freed + binding.requestTrim(id, bytes - freed, PATIENCE_MS);
  }
}

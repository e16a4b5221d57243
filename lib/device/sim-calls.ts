// The simulated device's front door: counts every CUDA call it stands in for and makes calls fail on demand. Knows neither
// memory nor streams.

import { ConfigError } from '../errors.js';
import { cudaErrorCode, cudaErrorName, cudaFailure } from './cuda-error.js';
import { countedName, normalizeCounts } from './driver-calls.js';

/** The functions the simulated device stands in for, by number: they are counted in the hot path of a replay. */
export const CALL = {
  cudaMalloc: 0,
  cudaFree: 1,
  cudaMemGetInfo: 2,
  cudaEventCreate: 3,
  cudaEventRecord: 4,
  cudaEventQuery: 5,
  cudaEventSynchronize: 6,
  cudaStreamSynchronize: 7,
  cudaDeviceSynchronize: 8,
  cuMemAddressReserve: 9,
  cuMemAddressFree: 10,
  cuMemCreate: 11,
  cuMemRelease: 12,
  cuMemMap: 13,
  cuMemUnmap: 14,
  cuMemSetAccess: 15,
  cuStreamCreateWithPriority: 16,
  cuStreamDestroy: 17,
  cuStreamQuery: 18,
  cuStreamWaitEvent: 19,
  cuEventDestroy: 20,
  cuEventElapsedTime: 21,
} as const;

const NAMES: readonly string[] = Object.keys(CALL);
const ANY = -1;

interface Failure {
  readonly call: number;
  /** Calls until it happens; 1: the next one. */
  left: number;
  readonly code: number;
}

export class SimCalls {
  readonly #counts = new Float64Array(NAMES.length);
  readonly #failed = new Float64Array(NAMES.length);
  #countsAtReset = new Float64Array(NAMES.length);
  #failedAtReset = new Float64Array(NAMES.length);
  #failures: Failure[] = [];
  #lost: Failure | null = null;
  #armed = false;

  /** A call that succeeds unless it was told to fail. @throws the injected error, or DeviceLostError */
  enter(call: number): void {
    if (this.#armed) this.#failWhenTold(call);
    this.#counts[call] = (this.#counts[call] ?? 0) + 1;
  }

  /** A call that undoes others: whether it succeeded. */
  attempt(call: number): boolean {
    try {
      this.enter(call);
      return true;
    } catch {
      return false;
    }
  }

  /** Turns the call that has just entered into a failed one. */
  fail(call: number, name: string, why: string): Error {
    this.#counts[call] = (this.#counts[call] ?? 0) - 1;
    return this.#failure(call, cudaErrorCode(name), why);
  }

  failNth(fn: string, n: number, error: string | number): void {
    const call = fn === '*' ? ANY : NAMES.indexOf(countedName(fn));
    if (call === ANY && fn !== '*') {
      const message = `fn: the simulated device has no function ${JSON.stringify(fn)}; it has *, ${NAMES.join(', ')}`;
      throw new ConfigError(message, { key: 'fn', value: fn });
    }
    if (!Number.isSafeInteger(n) || n < 1) {
      throw new ConfigError(`n: ${n} is not a positive whole number`, { key: 'n', value: String(n) });
    }
    this.#failures.push({ call, left: n, code: cudaErrorCode(error) });
    this.#armed = true;
  }

  clearFailures(): void {
    this.#failures = [];
    this.#armed = this.#lost !== null;
  }

  lose(error: string | number): void {
    this.#lost = { call: ANY, left: 0, code: cudaErrorCode(error) };
    this.#armed = true;
  }

  /** All calls since the start, by name. */
  total(): Record<string, number> {
    return byName(this.#counts, this.#failed);
  }

  /** The calls since `reset()`, by name. */
  sinceReset(): Record<string, number> {
    return byName(
      this.#counts.map((count, call) => count - (this.#countsAtReset[call] ?? 0)),
      this.#failed.map((count, call) => count - (this.#failedAtReset[call] ?? 0)),
    );
  }

  reset(): void {
    this.#countsAtReset = this.#counts.slice();
    this.#failedAtReset = this.#failed.slice();
  }

  #failWhenTold(call: number): void {
    if (this.#lost !== null) throw this.#failure(call, this.#lost.code, 'the device is lost');
    let due: Failure | undefined;
    for (const failure of this.#failures) {
      if (failure.call !== ANY && failure.call !== call) continue;
      if (failure.left > 1) failure.left -= 1;
      // Of two that are due at once the second waits for the next call.
      else due ??= failure;
    }
    if (due === undefined) return;
    this.#failures = this.#failures.filter((failure) => failure !== due);
    this.#armed = this.#failures.length > 0;
    throw this.#failure(call, due.code, 'the call was told to fail');
  }

  #failure(call: number, code: number, why: string): Error {
    this.#failed[call] = (this.#failed[call] ?? 0) + 1;
    const fn = NAMES[call] ?? '';
    const name = cudaErrorName(fn, code);
    return cudaFailure(fn, name, code, `${fn} failed with ${name}: ${why}`);
  }
}

function byName(counts: Float64Array, failed: Float64Array): Record<string, number> {
  const raw: Record<string, number> = {};
  NAMES.forEach((name, call) => {
    if (counts[call]) raw[name] = counts[call];
    if (failed[call]) raw[`${name}_failed`] = failed[call];
  });
  return normalizeCounts(raw);
}

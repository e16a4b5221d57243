// The controls of the mock, over the addon. Knows the binding and the names of calls, decides nothing.

import { ConfigError, InvalidSizeError } from '../errors.js';
import { checkOpen } from './check.js';
import { cudaErrorCode } from './cuda-error.js';
import { driverName, normalizeCounts } from './driver-calls.js';
import { type NativeContext, NativeStream } from './native-stream.js';
import type { DriverCallCounts, MockControls, Stream } from './types.js';

const ALL_STREAMS = -1;

export class NativeControls implements MockControls {
  readonly #context: NativeContext;

  constructor(context: NativeContext) {
    this.#context = context;
  }

  failNth(fn: string, n: number, error: string | number = 'CUDA_ERROR_OUT_OF_MEMORY'): void {
    const { binding, id } = this.#open();
    if (!Number.isSafeInteger(n) || n < 1) {
      throw new ConfigError(`n: ${n} is not a positive whole number`, { key: 'n', value: String(n) });
    }
    binding.mockFailNth(id, driverName(fn), n, String(cudaErrorCode(error)));
  }

  clearFailures(): void {
    const { binding, id } = this.#open();
    binding.mockClearFailures(id);
  }

  holdEvents(): void {
    const { binding, id } = this.#open();
    binding.mockHoldEvents(id, true);
  }

  completeEvents(stream?: Stream): void {
    const { binding, id, device } = this.#open();
    binding.mockCompleteEvents(id, stream === undefined ? ALL_STREAMS : NativeStream.idOf(stream, device));
  }

  releaseEvents(): void {
    const { binding, id } = this.#open();
    binding.mockHoldEvents(id, false);
    binding.mockCompleteEvents(id, ALL_STREAMS);
  }

  takeByOthers(bytes: number): void {
    const { binding, id } = this.#open();
    if (!Number.isSafeInteger(bytes))
      throw new InvalidSizeError(bytes, `bytes: ${String(bytes)} is not a whole number of bytes`);
    binding.mockTakeByOthers(id, bytes);
  }

  loseDevice(error: string | number = 'CUDA_ERROR_LAUNCH_FAILED'): void {
    const { binding, id } = this.#open();
    binding.mockLoseDevice(id, String(cudaErrorCode(error)));
  }

  setCapturing(stream: Stream, capturing: boolean): void {
    const { binding, id, device } = this.#open();
    binding.mockSetCapturing(id, NativeStream.idOf(stream, device), capturing);
  }

  counters(): DriverCallCounts {
    const { binding, id } = this.#open();
    return normalizeCounts(binding.mockCounters(id));
  }

  resetCounters(): void {
    const { binding, id } = this.#open();
    binding.mockResetCounters(id);
  }

  #open(): NativeContext {
    checkOpen(this.#context.device);
    return this.#context;
  }
}

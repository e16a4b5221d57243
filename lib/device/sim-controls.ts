// The controls of the simulated device: injected failures, held events, other processes. Changes state, decides nothing.

import { InvalidSizeError } from '../errors.js';
import { checkOpen, checkOwner } from './check.js';
import type { SimCalls } from './sim-calls.js';
import type { SimMemory } from './sim-memory.js';
import { SimStream, type SimTime } from './sim-stream.js';
import type { Device, DriverCallCounts, MockControls, Stream } from './types.js';

export class SimControls implements MockControls {
  readonly #device: Device;
  readonly #calls: SimCalls;
  readonly #memory: SimMemory;
  readonly #time: SimTime;

  constructor(device: Device, calls: SimCalls, memory: SimMemory, time: SimTime) {
    this.#device = device;
    this.#calls = calls;
    this.#memory = memory;
    this.#time = time;
  }

  failNth(fn: string, n: number, error: string | number = 'CUDA_ERROR_OUT_OF_MEMORY'): void {
    checkOpen(this.#device);
    this.#calls.failNth(fn, n, error);
  }

  clearFailures(): void {
    checkOpen(this.#device);
    this.#calls.clearFailures();
  }

  holdEvents(): void {
    checkOpen(this.#device);
    this.#time.held = true;
  }

  completeEvents(stream?: Stream): void {
    checkOpen(this.#device);
    if (stream === undefined) {
      this.#time.completeAll();
      return;
    }
    const queue = SimStream.queueOf(stream, this.#device);
    queue.completeTo(queue.recorded);
  }

  releaseEvents(): void {
    checkOpen(this.#device);
    this.#time.held = false;
    this.#time.completeAll();
  }

  takeByOthers(bytes: number): void {
    checkOpen(this.#device);
    if (!Number.isSafeInteger(bytes))
      throw new InvalidSizeError(bytes, `bytes: ${String(bytes)} is not a whole number of bytes`);
    this.#memory.takeByOthers(bytes);
  }

  loseDevice(error: string | number = 'CUDA_ERROR_LAUNCH_FAILED'): void {
    checkOpen(this.#device);
    this.#calls.lose(error);
  }

  setCapturing(stream: Stream, capturing: boolean): void {
    checkOpen(this.#device);
    checkOwner(this.#device, stream.device, `stream ${stream.id}`);
    const queue = SimStream.queueOf(stream, this.#device);
    if (queue.capturing === capturing) return;
    queue.capturing = capturing;
    this.#time.capturing += capturing ? 1 : -1;
  }

  counters(): DriverCallCounts {
    checkOpen(this.#device);
    return this.#calls.sinceReset();
  }

  resetCounters(): void {
    checkOpen(this.#device);
    this.#calls.reset();
  }
}

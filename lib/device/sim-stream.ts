// Streams and events of the simulated device. No work is ever waiting: an event is complete as soon as it is recorded, unless
// events are held. Knows nothing of memory.

import { CapturingError, UseAfterFreeError, WrongThreadError } from '../errors.js';
import { checkOwner } from './check.js';
import { CALL, type SimCalls } from './sim-calls.js';
import type { Device, Event, Stream } from './types.js';

const INSPECT = Symbol.for('nodejs.util.inspect.custom');

/** What the streams of one simulated device share. */
export class SimTime {
  readonly calls: SimCalls;
  /** Those that can still hold pending events. */
  readonly queues = new Set<SimQueue>();
  readonly queueByHandle = new Map<number, SimQueue>();
  held = false;
  capturing = 0;

  constructor(calls: SimCalls) {
    this.calls = calls;
  }

  /** @throws CapturingError when a stream of the device is being captured */
  refuseWhileCapturing(fn: string): void {
    if (this.capturing === 0) return;
    throw new CapturingError(`${fn} would break the capture of a stream into a graph; end the capture first`);
  }

  completeAll(): void {
    for (const queue of this.queues) queue.completeTo(queue.recorded);
  }
}

/** A stream's points in order, numbered from 1: events recorded, and waits for events of other streams. */
export class SimQueue {
  recorded = 0;
  completed = 0;
  capturing = false;
  #waits: { readonly point: number; readonly queue: SimQueue; readonly target: number }[] = [];

  record(held: boolean): number {
    const complete = !held && this.reached(this.recorded);
    this.recorded += 1;
    if (complete) this.completed = this.recorded;
    return this.recorded;
  }

  wait(queue: SimQueue, target: number): void {
    if (queue.reached(target)) return;
    this.recorded += 1;
    this.#waits.push({ point: this.recorded, queue, target });
  }

  reached(point: number): boolean {
    if (this.completed >= point) return true;
    // A wait passes by itself once its event is complete and everything before it is.
    for (let next = this.#waits[0]; next?.point === this.completed + 1; next = this.#waits[0]) {
      if (!next.queue.reached(next.target)) break;
      this.completed += 1;
      this.#waits.shift();
    }
    return this.completed >= point;
  }

  /** Lets time pass until `point` is complete, and with it what it waits for. */
  completeTo(point: number): void {
    if (this.completed >= point) return;
    for (let next = this.#waits[0]; next !== undefined && next.point <= point; next = this.#waits[0]) {
      next.queue.completeTo(next.target);
      this.#waits.shift();
    }
    this.completed = point;
  }
}

export class SimStream implements Stream {
  readonly device: Device;
  readonly id: number;
  readonly handle: number;
  readonly #time: SimTime;
  readonly #queue: SimQueue;
  readonly #wrapped: boolean;
  #destroyed = false;

  /** @param wrapped the stream of this device that the new one is another name for */
  constructor(device: Device, time: SimTime, id: number, wrapped?: { handle: number; queue: SimQueue }) {
    this.device = device;
    this.id = id;
    this.handle = wrapped?.handle ?? id;
    this.#time = time;
    this.#queue = wrapped?.queue ?? new SimQueue();
    this.#wrapped = wrapped !== undefined;
    time.queues.add(this.#queue);
    time.queueByHandle.set(this.handle, this.#queue);
  }

  /** The queue of a stream of `device` that may still be used. */
  static queueOf(stream: Stream, device: Device): SimQueue {
    if (!(stream instanceof SimStream)) throw new WrongThreadError('a simulated device takes only streams of its own');
    checkOwner(device, stream.device, `stream ${stream.id}`);
    return stream.#usable();
  }

  synchronize(): void {
    const queue = this.#usable();
    this.#time.refuseWhileCapturing('cudaStreamSynchronize');
    this.#time.calls.enter(CALL.cudaStreamSynchronize);
    queue.completeTo(queue.recorded);
  }

  query(): boolean {
    const queue = this.#usable();
    this.#time.refuseWhileCapturing('cudaStreamQuery');
    this.#time.calls.enter(CALL.cuStreamQuery);
    return queue.reached(queue.recorded);
  }

  waitEvent(event: Event): void {
    const queue = this.#usable();
    const point = SimEvent.pointOf(event, this.device);
    this.#time.calls.enter(CALL.cuStreamWaitEvent);
    if (point !== null) queue.wait(point.queue, point.number);
  }

  isCapturing(): boolean {
    return this.#usable().capturing;
  }

  get destroyed(): boolean {
    return this.#destroyed;
  }

  destroy(): void {
    if (this.#destroyed || this.id === 0 || this.device.closed) return;
    if (!this.#wrapped) {
      this.#time.calls.enter(CALL.cuStreamDestroy);
      if (this.#queue.capturing) {
        throw this.#time.calls.fail(
          CALL.cuStreamDestroy,
          'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED',
          'the stream is being captured',
        );
      }
    }
    this.#destroyed = true;
    if (this.#wrapped) return;
    this.#time.queueByHandle.delete(this.handle);
    // Events that are still pending complete later, as those of a destroyed CUDA stream do.
    if (this.#queue.reached(this.#queue.recorded)) this.#time.queues.delete(this.#queue);
  }

  #usable(): SimQueue {
    if (this.#destroyed) throw new UseAfterFreeError(`stream ${this.id} was destroyed`);
    if (this.device.closed) throw new UseAfterFreeError(`the device of stream ${this.id} was closed`);
    return this.#queue;
  }

  [INSPECT](): string {
    return `Stream ${this.id} of sim device ${this.device.index}${this.#destroyed ? ' (destroyed)' : ''}`;
  }
}

export class SimEvent implements Event {
  readonly #device: Device;
  readonly #time: SimTime;
  readonly #timing: boolean;
  #queue: SimQueue | null = null;
  #point = 0;
  #recordedMs = 0;
  #destroyed = false;

  constructor(device: Device, time: SimTime, timing: boolean) {
    this.#device = device;
    this.#time = time;
    this.#timing = timing;
    time.calls.enter(CALL.cudaEventCreate);
  }

  /** Where the event was recorded; null when it was not. */
  static pointOf(event: Event, device: Device): { queue: SimQueue; number: number } | null {
    const { sim, queue } = SimEvent.#usableOf(event, device);
    return queue === null ? null : { queue, number: sim.#point };
  }

  static #usableOf(event: Event, device: Device): { sim: SimEvent; queue: SimQueue | null } {
    if (!(event instanceof SimEvent)) throw new WrongThreadError('a simulated device takes only events of its own');
    checkOwner(device, event.#device, 'an event');
    event.#check();
    return { sim: event, queue: event.#queue };
  }

  record(stream: Stream): void {
    this.#check();
    const queue = SimStream.queueOf(stream, this.#device);
    this.#time.calls.enter(CALL.cudaEventRecord);
    this.#point = queue.record(this.#time.held);
    this.#queue = queue;
    if (this.#timing) this.#recordedMs = performance.now();
  }

  query(): boolean {
    this.#check();
    this.#time.refuseWhileCapturing('cudaEventQuery');
    this.#time.calls.enter(CALL.cudaEventQuery);
    return this.#queue === null || this.#queue.reached(this.#point);
  }

  synchronize(): void {
    this.#check();
    this.#time.refuseWhileCapturing('cudaEventSynchronize');
    this.#time.calls.enter(CALL.cudaEventSynchronize);
    this.#queue?.completeTo(this.#point);
  }

  elapsedTimeMs(earlier: Event): number {
    this.#check();
    const { sim: start } = SimEvent.#usableOf(earlier, this.#device);
    this.#time.calls.enter(CALL.cuEventElapsedTime);
    const refuse = (name: string, why: string) => this.#time.calls.fail(CALL.cuEventElapsedTime, name, why);
    for (const event of [start, this as SimEvent]) {
      if (!event.#timing) throw refuse('CUDA_ERROR_INVALID_HANDLE', 'an event was made without timing');
      if (event.#queue === null) throw refuse('CUDA_ERROR_INVALID_HANDLE', 'an event was not recorded');
      if (!event.#queue.reached(event.#point)) throw refuse('CUDA_ERROR_NOT_READY', 'an event is not complete');
    }
    return this.#recordedMs - start.#recordedMs;
  }

  destroy(): void {
    if (this.#destroyed || this.#device.closed) return;
    this.#time.calls.enter(CALL.cuEventDestroy);
    this.#destroyed = true;
  }

  #check(): void {
    if (this.#destroyed) throw new UseAfterFreeError('the event was destroyed');
    if (this.#device.closed) throw new UseAfterFreeError('the device of the event was closed');
  }
}

// Streams and events of CUDA and of the mock: small objects around the addon's numbers. Knows the binding, not the device class.

import type { Binding, DeviceId, EventId, StreamId } from '../../binding.js';
import { UseAfterFreeError, WrongThreadError } from '../errors.js';
import { checkOwner, describe } from './check.js';
import type { Device, Event, Stream } from './types.js';

/** What the objects of one opened device share. */
export interface NativeContext {
  readonly binding: Binding;
  readonly id: DeviceId;
  readonly device: Device;
}

export class NativeStream implements Stream {
  readonly id: number;
  readonly #context: NativeContext;
  readonly #stream: StreamId;
  #handle: number | undefined;
  #destroyed = false;

  /** @param id number of the stream on its device. @param stream the addon's number for it */
  constructor(context: NativeContext, id: number, stream: StreamId) {
    this.#context = context;
    this.id = id;
    this.#stream = stream;
  }

  /** The addon's number for a stream of `device` that may still be used; that of the default stream when left out. */
  static idOf(stream: Stream | undefined, device: Device): StreamId {
    if (stream === undefined) return 0;
    if (!(stream instanceof NativeStream))
      throw new WrongThreadError(`${describe(device)} takes only streams of its own`);
    checkOwner(device, stream.device, `stream ${stream.id}`);
    return stream.#usable();
  }

  get device(): Device {
    return this.#context.device;
  }

  get handle(): number {
    const stream = this.#usable();
    this.#handle ??= stream === 0 ? 0 : this.#context.binding.streamHandle(this.#context.id, stream);
    return this.#handle;
  }

  synchronize(): void {
    this.#context.binding.streamSynchronize(this.#context.id, this.#usable());
  }

  query(): boolean {
    return this.#context.binding.streamQuery(this.#context.id, this.#usable());
  }

  waitEvent(event: Event): void {
    const stream = this.#usable();
    this.#context.binding.streamWaitEvent(this.#context.id, stream, NativeEvent.idOf(event, this.device));
  }

  isCapturing(): boolean {
    return this.#context.binding.streamIsCapturing(this.#context.id, this.#usable());
  }

  get destroyed(): boolean {
    return this.#destroyed;
  }

  destroy(): void {
    if (this.#destroyed || this.id === 0 || this.device.closed) return;
    this.#context.binding.streamDestroy(this.#context.id, this.#stream);
    this.#destroyed = true;
  }

  #usable(): StreamId {
    if (this.#destroyed) throw new UseAfterFreeError(`stream ${this.id} was destroyed`);
    if (this.device.closed) throw new UseAfterFreeError(`the device of stream ${this.id} was closed`);
    return this.#stream;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `Stream ${this.id} of ${describe(this.device)}${this.#destroyed ? ' (destroyed)' : ''}`;
  }
}

export class NativeEvent implements Event {
  readonly #context: NativeContext;
  readonly #event: EventId;
  #destroyed = false;

  constructor(context: NativeContext, timing: boolean) {
    this.#context = context;
    this.#event = context.binding.eventCreate(context.id, timing);
  }

  /** The addon's number for an event of `device` that may still be used. */
  static idOf(event: Event, device: Device): EventId {
    if (!(event instanceof NativeEvent)) throw new WrongThreadError(`${describe(device)} takes only events of its own`);
    checkOwner(device, event.#context.device, 'an event');
    return event.#usable();
  }

  record(stream: Stream): void {
    const event = this.#usable();
    this.#context.binding.eventRecord(this.#context.id, event, NativeStream.idOf(stream, this.#context.device));
  }

  query(): boolean {
    return this.#context.binding.eventQuery(this.#context.id, this.#usable());
  }

  synchronize(): void {
    this.#context.binding.eventSynchronize(this.#context.id, this.#usable());
  }

  elapsedTimeMs(earlier: Event): number {
    const start = NativeEvent.idOf(earlier, this.#context.device);
    return this.#context.binding.eventElapsedTime(this.#context.id, start, this.#usable());
  }

  destroy(): void {
    if (this.#destroyed || this.#context.device.closed) return;
    this.#context.binding.eventDestroy(this.#context.id, this.#event);
    this.#destroyed = true;
  }

  #usable(): EventId {
    if (this.#destroyed) throw new UseAfterFreeError('the event was destroyed');
    if (this.#context.device.closed) throw new UseAfterFreeError('the device of the event was closed');
    return this.#event;
  }
}

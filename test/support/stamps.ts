// Patterns in device memory: written into each allocation, read back when it is freed, so that memory given out twice, moved or lost
// shows as a difference. Knows addresses and sizes, no allocator.

import type { Device, Stream } from '../../lib/device/types.js';

const EDGE = 64;
const STEP = 2 * 1024 * 1024;

export class Stamps {
  readonly #device: Device;
  /** Of its own: a copy waits for its stream, and with that completes events that a test may be holding there. */
  readonly #stream: Stream;
  readonly #marks = new Map<number, { readonly bytes: number; readonly number: number }>();
  #numbers = 0;

  constructor(device: Device) {
    this.#device = device;
    this.#stream = device.createStream();
  }

  write(address: number, bytes: number): void {
    const number = ++this.#numbers;
    this.#marks.set(address, { bytes, number });
    for (const [offset, length] of places(bytes)) {
      this.#device.memcpyHtoD(address + offset, pattern(number, offset, length), this.#stream);
    }
  }

  /** @throws Error at the first byte that is not what was written */
  check(address: number): void {
    const mark = this.#marks.get(address);
    if (mark === undefined) throw new Error(`nothing was written at ${address}`);
    for (const [offset, length] of places(mark.bytes)) {
      const found = new Uint8Array(length);
      this.#device.memcpyDtoH(found, address + offset, this.#stream);
      if (Buffer.compare(found, pattern(mark.number, offset, length)) !== 0) {
        throw new Error(`the bytes at ${address} + ${offset} are not those that were written`);
      }
    }
  }

  checkAll(): void {
    for (const address of this.#marks.keys()) this.check(address);
  }

  forget(address: number): void {
    this.#marks.delete(address);
  }
}

/** The first and the last bytes, and some in every page. */
function places(bytes: number): [offset: number, length: number][] {
  const length = Math.min(EDGE, bytes);
  const result: [number, number][] = [[bytes - length, length]];
  for (let offset = 0; offset + length <= bytes - length; offset += STEP) result.push([offset, length]);
  return result;
}

function pattern(number: number, offset: number, length: number): Uint8Array {
  const seed = (number * 2654435761 + offset / 64) >>> 0;
  return Uint8Array.from({ length }, (_, i) => (seed >>> (8 * (i % 4))) + i);
}

// One physical page with a range of addresses of its own, which other processes may map, or which another process made. Must not know what the memory is
// used for.

import type { Device, PageExport, PageSharing } from '../device/types.js';

export class SharedRange {
  readonly address: number;
  /** Bytes of addresses, and of the page. */
  readonly bytes: number;
  readonly #device: Device;
  readonly #sharing: PageSharing;
  /** -1 once the page was released. */
  readonly #handle: Int32Array;
  #mapped = true;
  #reserved = true;

  /** @param bytes a multiple of the granularity. @throws DeviceOutOfMemoryError, AddressSpaceError */
  static create(device: Device, sharing: PageSharing, bytes: number): SharedRange {
    return new SharedRange(device, sharing, bytes, sharing.createPage(bytes));
  }

  /** Maps what another process exported, or what is behind a descriptor of this one. @throws UseAfterFreeError, UnsupportedError, AddressSpaceError */
  static importPage(device: Device, sharing: PageSharing, bytes: number, source: PageExport | number): SharedRange {
    return new SharedRange(device, sharing, bytes, sharing.importPage(bytes, source));
  }

  /** Takes over the page; after an error it has been released. */
  private constructor(device: Device, sharing: PageSharing, bytes: number, handle: number) {
    this.#device = device;
    this.#sharing = sharing;
    this.#handle = Int32Array.of(handle);
    this.bytes = bytes;
    let address: number | null = null;
    try {
      address = device.addressReserve(bytes);
      device.memMap(address, bytes, this.#handle);
    } catch (error) {
      device.memRelease(this.#handle);
      if (address !== null) device.addressFree(address, bytes);
      throw error;
    }
    this.address = address;
  }

  /** The page as a whole is mapped, or not. */
  get pageBytes(): number {
    return this.bytes;
  }

  /** Bytes of the page that the driver has not taken back. */
  get heldBytes(): number {
    return this.#handle[0] === -1 ? 0 : this.bytes;
  }

  /** Where other processes find the page, until it is unmapped. */
  exportPage(): PageExport {
    return this.#sharing.exportPage(this.#handle[0] as number);
  }

  /** No work uses the memory any more. After an error all is as before, or it has been unmapped already. */
  unmap(): void {
    if (!this.#mapped) return;
    this.#device.memUnmap(this.address, this.bytes, 1);
    this.#mapped = false;
  }

  /** Gives page and addresses back; unmapped. After an error it can be called again. */
  release(): void {
    if (this.#handle[0] !== -1) this.#device.memRelease(this.#handle);
    if (!this.#reserved) return;
    this.#device.addressFree(this.address, this.bytes);
    this.#reserved = false;
  }
}

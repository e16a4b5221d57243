// Checks of arguments that every implementation of a device shares. Knows types and errors only.

import {
  ConfigError,
  InvalidAddressError,
  InvalidSizeError,
  UnsupportedError,
  UseAfterFreeError,
  WrongThreadError,
} from '../errors.js';
import type { Device } from './types.js';

/** @throws InvalidSizeError unless `bytes` is a whole number from 1 to 2^53 - 1 */
export function checkBytes(bytes: number, what = 'bytes'): void {
  if (Number.isSafeInteger(bytes) && bytes > 0) return;
  throw new InvalidSizeError(bytes, `${what}: ${String(bytes)} is not a whole number of bytes from 1 to 2^53 - 1`);
}

/** @throws InvalidSizeError unless `count` is a whole number from 0 on */
export function checkCount(count: number, what: string): void {
  if (Number.isSafeInteger(count) && count >= 0) return;
  throw new InvalidSizeError(count, `${what}: ${String(count)} is not a whole number from 0 to 2^53 - 1`);
}

/** @throws InvalidAddressError unless `address` can be an address at all */
export function checkAddress(address: number, what = 'address'): void {
  if (Number.isSafeInteger(address) && address >= 0) return;
  throw new InvalidAddressError(address, `${what}: ${String(address)} is not an address`);
}

/** @throws InvalidAddressError unless `handle` can be a pointer of 64 bits */
export function checkHandle(handle: number | bigint): void {
  if (typeof handle === 'number') checkAddress(handle, 'handle');
  else if (handle < 0n || handle >= 2n ** 64n) {
    throw new InvalidAddressError(handle, `handle: ${handle} is not a pointer of 64 bits`);
  }
}

/** @throws UseAfterFreeError when the device was closed */
export function checkOpen(device: Device): void {
  if (device.closed) throw new UseAfterFreeError(`${describe(device)} was closed`);
}

/** @throws ConfigError unless the option is a whole number from `least` on */
export function checkOption(key: string, value: number, least: number): void {
  if (Number.isSafeInteger(value) && value >= least) return;
  throw new ConfigError(`${key}: ${String(value)} is not a whole number from ${least} on`, {
    key,
    value: String(value),
  });
}

/** @throws WrongThreadError when something made by `owner` is given to `device` */
export function checkOwner(device: Device, owner: Device, what: string): void {
  if (owner === device) return;
  throw new WrongThreadError(`${what} belongs to ${describe(owner)} and was given to ${describe(device)}`);
}

/** @throws UnsupportedError when devices of two backends are to work together */
export function checkPeerBackend(device: Device, peer: Device): void {
  if (peer.backend === device.backend) return;
  throw new UnsupportedError(
    `${describe(device)} and ${describe(peer)} are of different backends and cannot reach each other`,
  );
}

/** `mock device 0`, for messages. */
export function describe(device: Device): string {
  return `${device.backend} device ${device.index}`;
}

// What one process tells another one about memory that it shares. Plain data, checked where it arrives.

import type { Backend, Device, PageExport, PageSharing } from '../device/types.js';
import { InvalidSizeError, UnsupportedError, WrongThreadError } from '../errors.js';

/** Memory of a shareable buffer, for other processes of the machine: JSON, to be sent by whatever means. */
export interface ShareableHandle extends PageExport {
  readonly backend: Backend;
  /** `uuid` of the device. */
  readonly device: string;
  /** Bytes of the buffer. */
  readonly size: number;
  /** Bytes of the memory: the buffer's, rounded up to the granularity. */
  readonly bytes: number;
}

/** @throws UnsupportedError that says what is missing */
export function sharingOf({ sharing, features }: Device): PageSharing {
  if (sharing !== null) return sharing;
  const reason = features.sharing.works ? '' : features.sharing.reason;
  throw new UnsupportedError(`memory cannot be shared between processes: ${reason}`);
}

const SHAPE: { readonly [Key in keyof ShareableHandle]: 'string' | 'number' } = {
  backend: 'string',
  device: 'string',
  size: 'number',
  bytes: 'number',
  process: 'number',
  descriptor: 'number',
  witness: 'number',
  token: 'string',
};

/** @throws TypeError or InvalidSizeError for anything else, WrongThreadError for memory of another device */
export function checkShareableHandle(handle: ShareableHandle, device: Device): void {
  if (typeof handle !== 'object' || handle === null) throw new TypeError('a shareable handle is an object');
  for (const [key, type] of Object.entries(SHAPE)) {
    const value: unknown = handle[key as keyof ShareableHandle];
    if (typeof value === type && (type === 'string' || Number.isSafeInteger(value))) continue;
    throw new TypeError(`a shareable handle has a ${type} '${key}', not ${String(value)}`);
  }
  const { size, bytes } = handle;
  if (size < 0 || size > bytes) {
    throw new InvalidSizeError(size, `size: a buffer of ${size} bytes does not lie in memory of ${bytes} bytes`);
  }
  // Devices of the mock are all alike.
  const { backend, uuid } = device;
  if (handle.backend === backend && (backend === 'mock' || handle.device === uuid)) return;
  throw new WrongThreadError(
    `the memory is of ${handle.backend} device ${handle.device}, and was given to ${backend} device ${uuid}`,
  );
}

// Every error that this package throws on purpose: one class a cause, each with a stable `code`, the numbers involved and
// one sentence on what to do. Knows nothing of who throws it; texts for people are made here and nowhere else.

/** The stable codes. A page in `docs/errors.md` explains each one. */
export type ErrorCode = `ERR_CUDALLOC_${
  | 'OUT_OF_MEMORY'
  | 'ADDRESS_SPACE'
  | 'DRIVER'
  | 'DEVICE_LOST'
  | 'NO_DEVICE'
  | 'ADDON_MISSING'
  | 'UNSUPPORTED'
  | 'CONFIG'
  | 'INVALID_SIZE'
  | 'INVALID_ADDRESS'
  | 'DOUBLE_FREE'
  | 'USE_AFTER_FREE'
  | 'WRONG_THREAD'
  | 'CAPTURING'
  | 'PAUSED'
  | 'TRACE_FORMAT'
  | 'SNAPSHOT_FORMAT'}`;

/** Base class. `code` identifies the cause, `message` is for people and may change. */
export class CudallocError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }

  static {
    // On the prototype, as the built-in errors have it, so that it is not printed among the numbers.
    Object.defineProperty(CudallocError.prototype, 'name', {
      value: 'CudallocError',
      writable: true,
      configurable: true,
    });
  }
}

/** A CUDA function returned an error that is not one of the more special classes below. */
export class DriverError extends CudallocError {
  /** The CUDA function, as CUDA names it (`cuMemCreate`). */
  readonly fn: string;
  /** The error's CUDA name (`CUDA_ERROR_INVALID_VALUE`, `cudaErrorInvalidValue`). */
  readonly cudaError: string;
  /** The error's number. */
  readonly cudaCode: number;

  constructor(
    fn: string,
    cudaError: string,
    cudaCode: number,
    message: string,
    code: ErrorCode = 'ERR_CUDALLOC_DRIVER',
  ) {
    super(code, message);
    this.fn = fn;
    this.cudaError = cudaError;
    this.cudaCode = cudaCode;
  }
}

/** The device answered that it has no memory left (`CUDA_ERROR_OUT_OF_MEMORY`, `cudaErrorMemoryAllocation`). */
export class DeviceOutOfMemoryError extends DriverError {}

/** The device is unusable until the process ends: lost, faulted, or its context destroyed. */
export class DeviceLostError extends DriverError {
  constructor(fn: string, cudaError: string, cudaCode: number, message: string) {
    super(fn, cudaError, cudaCode, message, 'ERR_CUDALLOC_DEVICE_LOST');
  }
}

/** The driver refused to reserve a range of addresses. Not a lack of memory. */
export class AddressSpaceError extends DriverError {
  constructor(fn: string, cudaError: string, cudaCode: number, message: string) {
    super(fn, cudaError, cudaCode, message, 'ERR_CUDALLOC_ADDRESS_SPACE');
  }
}

/** A stream is being captured into a graph, and the call would break the capture. */
export class CapturingError extends CudallocError {
  constructor(message: string) {
    super('ERR_CUDALLOC_CAPTURING', message);
  }
}

/** The allocator is paused: its memory is the device's until `resume()`. */
export class PausedError extends CudallocError {
  constructor(message: string) {
    super('ERR_CUDALLOC_PAUSED', message);
  }
}

/** There is no such device, or no driver. The message says what is missing. */
export class NoDeviceError extends CudallocError {
  constructor(message: string) {
    super('ERR_CUDALLOC_NO_DEVICE', message);
  }
}

/** The native addon could not be loaded. The message names what was tried and the one command that builds it. */
export class AddonMissingError extends CudallocError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('ERR_CUDALLOC_ADDON_MISSING', message, options);
  }
}

/** This device, driver or platform cannot do it. The message says why. */
export class UnsupportedError extends CudallocError {
  constructor(message: string) {
    super('ERR_CUDALLOC_UNSUPPORTED', message);
  }
}

/** A settings string or an option is wrong. */
export class ConfigError extends CudallocError {
  /** The option's name. */
  readonly key: string;
  /** The refused value as written; null where the key itself is unknown. */
  readonly value: string | null;
  /** Position of the fault in the settings string, in characters from 0; null for an option that was not part of one. */
  readonly position: number | null;

  constructor(message: string, at: { key: string; value?: string | null; position?: number | null }) {
    super('ERR_CUDALLOC_CONFIG', message);
    this.key = at.key;
    this.value = at.value ?? null;
    this.position = at.position ?? null;
  }
}

/** A number of bytes that is negative, fractional, not a number, or beyond 2^53. */
export class InvalidSizeError extends CudallocError {
  readonly size: unknown;

  constructor(size: unknown, message: string) {
    super('ERR_CUDALLOC_INVALID_SIZE', message);
    this.size = size;
  }
}

/** An address that this allocator did not give out, or a range beyond its buffer. */
export class InvalidAddressError extends CudallocError {
  readonly address: unknown;

  constructor(address: unknown, message: string) {
    super('ERR_CUDALLOC_INVALID_ADDRESS', message);
    this.address = address;
  }
}

/** An address or a buffer was freed twice. */
export class DoubleFreeError extends CudallocError {
  readonly address: number;

  constructor(address: number, message: string) {
    super('ERR_CUDALLOC_DOUBLE_FREE', message);
    this.address = address;
  }
}

/** A buffer, stream, event, device or allocator was used after it was freed, destroyed or closed. */
export class UseAfterFreeError extends CudallocError {
  constructor(message: string) {
    super('ERR_CUDALLOC_USE_AFTER_FREE', message);
  }
}

/** An object of another thread or another device was passed in. */
export class WrongThreadError extends CudallocError {
  constructor(message: string) {
    super('ERR_CUDALLOC_WRONG_THREAD', message);
  }
}

/** A trace file is malformed. `line` counts from 1. */
export class TraceFormatError extends CudallocError {
  readonly line: number;

  constructor(line: number, message: string) {
    super('ERR_CUDALLOC_TRACE_FORMAT', `line ${line}: ${message}`);
    this.line = line;
  }
}

/** A snapshot file is cut, damaged, or no snapshot. `position` says where, in bytes from 0 of the (decompressed) file. */
export class SnapshotFormatError extends CudallocError {
  /** Null where the fault has no place: a snapshot without segments, say. */
  readonly position: number | null;

  constructor(message: string, position: number | null = null, options?: { cause?: unknown }) {
    super('ERR_CUDALLOC_SNAPSHOT_FORMAT', position === null ? message : `byte ${position}: ${message}`, options);
    this.position = position;
  }
}

/** Memory of one pool and stream at an out of memory. Bytes. */
export interface PoolFigures {
  readonly pool: 'small' | 'large';
  /** Id of the stream. */
  readonly stream: number;
  /** `[0, 0]` for the default pools. */
  readonly poolId: readonly [number, number];
  readonly reserved: number;
  readonly allocated: number;
  readonly active: number;
  readonly free: number;
  readonly largestFreeBlock: number;
}

/** Every number of an out of memory. Bytes. */
export interface OutOfMemoryDetails {
  readonly device: number;
  /** What the caller asked for. */
  readonly requested: number;
  /** That, rounded to a block. */
  readonly rounded: number;
  /** What the device was asked for: the segment. */
  readonly segmentSize: number;
  /** As the device reported them. */
  readonly free: number;
  readonly total: number;
  /** What the memory fraction allows; `total` without one. */
  readonly limit: number;
  readonly allocated: number;
  readonly reserved: number;
  readonly active: number;
  readonly inactiveSplit: number;
  /** Over all pools. */
  readonly largestFreeBlock: number;
  readonly pools: readonly PoolFigures[];
  readonly verdict: {
    readonly kind: string;
    readonly shortBy: number | null;
    readonly advice: string | null;
    readonly sentence: string;
  };
  /** The sizes of PyTorch's message, formatted as there: wanted, total, free, allocated, reserved but unallocated. */
  readonly figures: readonly string[];
  /** The file written on account of `dumpOnOutOfMemory`; null when none was. */
  readonly snapshot: string | null;
}

/** No memory for a request after everything was tried. Carries every number; `verdict` says why and what to do. */
export class OutOfMemoryError extends CudallocError {
  readonly details: OutOfMemoryDetails;

  constructor(message: string, details: OutOfMemoryDetails) {
    super('ERR_CUDALLOC_OUT_OF_MEMORY', message);
    this.details = details;
  }

  get requested(): number {
    return this.details.requested;
  }

  get verdict(): OutOfMemoryDetails['verdict'] {
    return this.details.verdict;
  }
}

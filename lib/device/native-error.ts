// Turns what the addon throws into the classes of errors.ts, for every function of the binding at once. Knows the shape of the
// addon's errors and no device.

import type { Binding, BindingError } from '../../binding.js';
import {
  AddressSpaceError,
  CapturingError,
  ConfigError,
  DeviceLostError,
  DeviceOutOfMemoryError,
  DriverError,
  InvalidAddressError,
  InvalidSizeError,
  NoDeviceError,
  UnsupportedError,
  UseAfterFreeError,
  WrongThreadError,
} from '../errors.js';

const OUT_OF_MEMORY: ReadonlySet<string> = new Set(['CUDA_ERROR_OUT_OF_MEMORY', 'cudaErrorMemoryAllocation']);

/** The same binding, throwing (and rejecting with) subclasses of CudallocError. */
export function translateErrors(binding: Binding): Binding {
  const entries = Object.entries(binding).map(([name, value]) => {
    // `identity` is there to measure the bare crossing.
    return [name, typeof value === 'function' && name !== 'identity' ? guard(value) : value];
  });
  return Object.fromEntries(entries) as Binding;
}

function guard(fn: (...args: unknown[]) => unknown): (...args: unknown[]) => unknown {
  return (...args) => {
    try {
      const result = fn(...args);
      return result instanceof Promise ? result.catch(rethrow) : result;
    } catch (error) {
      rethrow(error);
    }
  };
}

function rethrow(error: unknown): never {
  throw isBindingError(error) ? translate(error) : error;
}

function isBindingError(error: unknown): error is BindingError {
  return error instanceof Error && typeof (error as Partial<BindingError>).code === 'string';
}

function translate(error: BindingError): Error {
  const { code, message, fn = '', cudaError = '', cudaCode = 0 } = error;
  switch (code) {
    case 'ERR_CUDALLOC_DRIVER':
      if (OUT_OF_MEMORY.has(cudaError)) return new DeviceOutOfMemoryError(fn, cudaError, cudaCode, message);
      return new DriverError(fn, cudaError, cudaCode, message);
    case 'ERR_CUDALLOC_DEVICE_LOST':
      return new DeviceLostError(fn, cudaError, cudaCode, message);
    case 'ERR_CUDALLOC_ADDRESS_SPACE':
      return new AddressSpaceError(fn, cudaError, cudaCode, message);
    case 'ERR_CUDALLOC_NO_DEVICE':
      return new NoDeviceError(message);
    case 'ERR_CUDALLOC_UNSUPPORTED':
      return new UnsupportedError(message);
    case 'ERR_CUDALLOC_CAPTURING':
      return new CapturingError(message);
    case 'ERR_CUDALLOC_CONFIG':
      return new ConfigError(message, { key: 'capacity' });
    case 'ERR_CUDALLOC_INVALID_ADDRESS':
      return new InvalidAddressError(undefined, message);
    case 'ERR_CUDALLOC_INVALID_SIZE':
      return new InvalidSizeError(undefined, message);
    case 'ERR_CUDALLOC_USE_AFTER_FREE':
      return new UseAfterFreeError(message);
    case 'ERR_CUDALLOC_WRONG_THREAD':
      return new WrongThreadError(message);
    default:
      return error;
  }
}

// CUDA's error codes by name, and which class of ours an error becomes. A table and one rule: knows no device and no addon.

import {
  AddressSpaceError,
  CapturingError,
  ConfigError,
  type CudallocError,
  DeviceLostError,
  DeviceOutOfMemoryError,
  DriverError,
} from '../errors.js';

/** The `CUresult` values that a stand-in can be told to return. */
export const CUDA_ERRORS: Readonly<Record<string, number>> = {
  CUDA_ERROR_INVALID_VALUE: 1,
  CUDA_ERROR_OUT_OF_MEMORY: 2,
  CUDA_ERROR_NOT_INITIALIZED: 3,
  CUDA_ERROR_DEINITIALIZED: 4,
  CUDA_ERROR_STUB_LIBRARY: 34,
  CUDA_ERROR_DEVICE_UNAVAILABLE: 46,
  CUDA_ERROR_NO_DEVICE: 100,
  CUDA_ERROR_INVALID_DEVICE: 101,
  CUDA_ERROR_INVALID_IMAGE: 200,
  CUDA_ERROR_INVALID_CONTEXT: 201,
  CUDA_ERROR_ECC_UNCORRECTABLE: 214,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: 217,
  CUDA_ERROR_NVLINK_UNCORRECTABLE: 220,
  CUDA_ERROR_INVALID_HANDLE: 400,
  CUDA_ERROR_NOT_FOUND: 500,
  CUDA_ERROR_NOT_READY: 600,
  CUDA_ERROR_ILLEGAL_ADDRESS: 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: 701,
  CUDA_ERROR_LAUNCH_TIMEOUT: 702,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: 704,
  CUDA_ERROR_CONTEXT_IS_DESTROYED: 709,
  CUDA_ERROR_ASSERT: 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR: 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION: 715,
  CUDA_ERROR_MISALIGNED_ADDRESS: 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE: 717,
  CUDA_ERROR_INVALID_PC: 718,
  CUDA_ERROR_LAUNCH_FAILED: 719,
  CUDA_ERROR_NOT_PERMITTED: 800,
  CUDA_ERROR_NOT_SUPPORTED: 801,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: 900,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: 906,
  CUDA_ERROR_UNKNOWN: 999,
};

/** The same errors as functions of the CUDA runtime library name them, where a stand-in returns them. */
const RUNTIME_NAMES: ReadonlyMap<number, string> = new Map([
  [1, 'cudaErrorInvalidValue'],
  [2, 'cudaErrorMemoryAllocation'],
  [3, 'cudaErrorInitializationError'],
  [4, 'cudaErrorCudartUnloading'],
]);

const OUT_OF_MEMORY = 2;
// Sticky: the context is gone, every later call fails as well.
const LOST: ReadonlySet<number> = new Set([46, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719]);
const CAPTURE: ReadonlySet<number> = new Set([900, 906]);

/** The number of an error given by its name or number. @throws ConfigError when there is no such error. */
export function cudaErrorCode(error: string | number): number {
  const text = String(error);
  for (const [name, code] of Object.entries(CUDA_ERRORS)) if (name === text || String(code) === text) return code;
  for (const [code, name] of RUNTIME_NAMES) if (name === text) return code;
  throw new ConfigError(
    `error: ${JSON.stringify(error)} is no CUDA error; give its name (CUDA_ERROR_OUT_OF_MEMORY) or number`,
    {
      key: 'error',
      value: String(error),
    },
  );
}

/** The error's name as this CUDA function returns it: the runtime library's functions have names of their own. */
export function cudaErrorName(fn: string, code: number): string {
  const runtime = fn === 'cudaMalloc' || fn === 'cudaFree' ? RUNTIME_NAMES.get(code) : undefined;
  return runtime ?? Object.keys(CUDA_ERRORS).find((name) => CUDA_ERRORS[name] === code) ?? String(code);
}

/** The error class for what a CUDA function returned. */
export function cudaFailure(fn: string, name: string, code: number, message: string): CudallocError {
  if (LOST.has(code)) return new DeviceLostError(fn, name, code, message);
  if (CAPTURE.has(code)) return new CapturingError(message);
  if (fn === 'cuMemAddressReserve') return new AddressSpaceError(fn, name, code, message);
  if (code === OUT_OF_MEMORY) return new DeviceOutOfMemoryError(fn, name, code, message);
  return new DriverError(fn, name, code, message);
}

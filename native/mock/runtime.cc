// The part of the CUDA runtime that is used: over the same memory, in the same primary contexts. The runtime
// initialises itself, makes a device's primary context current when it first needs one, and keeps it.
#include "context_stack.h"
#include "fn.h"
#include "memory.h"

namespace cudalloc::mock {
namespace {

constexpr cudaError_t kInsufficientDriver = 35;

/** Runs the body and remembers its error for cudaGetLastError. The numbers of both error types agree where
 * both have one. */
template <class Body>
cudaError_t runtime_call(Fn fn, int about, Body&& body) {
  const cudaError_t result = call(fn, about, [&](State& state) -> CUresult {
    if (state.configuration.runtime_version / 1000 > state.configuration.driver_version / 1000) {
      return kInsufficientDriver;
    }
    if (state.configuration.device_count == 0) return CUDA_ERROR_NO_DEVICE;
    state.initialized = true;
    return body(state);
  });
  if (result != cudaSuccess) context_stack.runtime_error = result;
  return result;
}

void make_current(Device& device) {
  device.retained_by_runtime = true;
  if (context_stack.depth == 0) context_stack.depth = 1;
  context_stack.devices[context_stack.depth - 1] = device.index;
}

/** The device whose context the runtime works in: the current one, else that of cudaSetDevice. */
Device* runtime_device(State& state, CUresult* result) {
  if (context_stack.depth == 0) {
    Device* device = device_at(state, context_stack.runtime_device);
    make_current(*device);
    return device;
  }
  return current_device(state, result);
}

}  // namespace

cudaError_t fn::cudaMalloc(void** address, size_t bytes) {
  return runtime_call(Fn::cudaMalloc, context_stack.runtime_device, [&](State& state) -> CUresult {
    if (address == nullptr) return cudaErrorInvalidValue;
    CUresult result = CUDA_SUCCESS;
    Device* device = runtime_device(state, &result);
    if (device == nullptr) return result;
    if (is_capturing(state, *device)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (bytes == 0) {
      *address = nullptr;
      return CUDA_SUCCESS;
    }
    CUdeviceptr allocated = 0;
    result = allocate(state, *device, bytes, &allocated);
    if (result == CUDA_SUCCESS) *address = reinterpret_cast<void*>(allocated);
    return result;
  });
}

cudaError_t fn::cudaFree(void* address) {
  return runtime_call(Fn::cudaFree, context_stack.runtime_device, [&](State& state) -> CUresult {
    CUresult result = CUDA_SUCCESS;
    if (runtime_device(state, &result) == nullptr) return result;
    if (address == nullptr) return CUDA_SUCCESS;
    return free_allocation(state, reinterpret_cast<CUdeviceptr>(address));
  });
}

cudaError_t fn::cudaSetDevice(int ordinal) {
  return runtime_call(Fn::cudaSetDevice, ordinal, [&](State& state) -> CUresult {
    Device* device = device_at(state, ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    context_stack.runtime_device = ordinal;
    make_current(*device);
    return CUDA_SUCCESS;
  });
}

cudaError_t fn::cudaGetLastError() {
  return call(Fn::cudaGetLastError, -1, [](State&) {
    const cudaError_t error = context_stack.runtime_error;
    context_stack.runtime_error = cudaSuccess;
    return error;
  });
}

cudaError_t fn::cudaRuntimeGetVersion(int* version) {
  return call(Fn::cudaRuntimeGetVersion, -1, [&](State& state) -> CUresult {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = state.configuration.runtime_version;
    return CUDA_SUCCESS;
  });
}

}  // namespace cudalloc::mock

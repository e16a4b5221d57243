// Copies and fills. Executed when they are enqueued, under the lock, after every byte has been checked; on a
// capturing stream accepted and not executed.
#include <cstring>

#include "context_stack.h"
#include "fn.h"
#include "memory.h"
#include "streams.h"

namespace cudalloc::mock {
namespace {

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

/** Host memory that a copy may use: not null, and not the address space of a device. */
bool is_host(const State& state, const void* address, size_t bytes) {
  return address != nullptr && !overlaps_device_space(state, reinterpret_cast<uint64_t>(address), bytes);
}

/** Finds the stream for work of the current context, then runs the work unless the stream is being captured.
 */
template <class Check, class Work>
CUresult enqueue(Fn fn, CUstream stream, size_t bytes, Check&& check, Work&& work) {
  return call_in_context(fn, [&](State& state, Device& device) {
    StreamPointer on;
    CUresult result = stream_for_work(state, device, stream, &on);
    if (result != CUDA_SUCCESS || bytes == 0) return result;
    result = check(state, device);
    if (result == CUDA_SUCCESS && on->capture == 0) work();
    return result;
  });
}

CUresult valid(bool condition) { return condition ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

}  // namespace

CUresult fn::cuMemcpyHtoDAsync(CUdeviceptr target, const void* source, size_t bytes, CUstream stream) {
  return enqueue(
      Fn::cuMemcpyHtoDAsync, stream, bytes,
      [&](State& state, Device& device) {
        return valid(is_host(state, source, bytes) && accessible(state, device, target, bytes, true));
      },
      [&] { std::memcpy(pointer(target), source, bytes); });
}

CUresult fn::cuMemcpyDtoHAsync(void* target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enqueue(
      Fn::cuMemcpyDtoHAsync, stream, bytes,
      [&](State& state, Device& device) {
        return valid(is_host(state, target, bytes) && accessible(state, device, source, bytes, false));
      },
      [&] { std::memcpy(target, pointer(source), bytes); });
}

CUresult fn::cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enqueue(
      Fn::cuMemcpyDtoDAsync, stream, bytes,
      [&](State& state, Device& device) {
        return valid(accessible(state, device, target, bytes, true) &&
                     accessible(state, device, source, bytes, false));
      },
      [&] { std::memmove(pointer(target), pointer(source), bytes); });
}

CUresult fn::cuMemcpyPeerAsync(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                               CUcontext source_context, size_t bytes, CUstream stream) {
  return enqueue(
      Fn::cuMemcpyPeerAsync, stream, bytes,
      [&](State& state, Device&) -> CUresult {
        const Device* to = device_at(state, device_of(target_context));
        const Device* from = device_at(state, device_of(source_context));
        if (to == nullptr || from == nullptr || !to->context_active() || !from->context_active()) {
          return CUDA_ERROR_INVALID_CONTEXT;
        }
        return valid(accessible(state, *to, target, bytes, true) &&
                     accessible(state, *from, source, bytes, false));
      },
      [&] { std::memmove(pointer(target), pointer(source), bytes); });
}

CUresult fn::cuMemsetD8Async(CUdeviceptr address, unsigned char byte, size_t bytes, CUstream stream) {
  return enqueue(
      Fn::cuMemsetD8Async, stream, bytes,
      [&](State& state, Device& device) { return valid(accessible(state, device, address, bytes, true)); },
      [&] { std::memset(pointer(address), byte, bytes); });
}

}  // namespace cudalloc::mock

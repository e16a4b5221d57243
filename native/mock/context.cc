// Initialisation, primary contexts, the thread's stack of contexts, peer access.
#include "context_stack.h"
#include "fn.h"
#include "state.h"

namespace cudalloc::mock {

CUresult fn::cuInit(unsigned flags) {
  return call(Fn::cuInit, -1, [&](State& state) -> CUresult {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (state.configuration.device_count == 0) return CUDA_ERROR_NO_DEVICE;
    state.initialized = true;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  return call(Fn::cuDevicePrimaryCtxRetain, ordinal, [&](State& state) -> CUresult {
    Device* device = device_at(state, ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ++device->retained;
    *context = context_of(ordinal);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  return call(Fn::cuDevicePrimaryCtxRelease, ordinal, [&](State& state) -> CUresult {
    Device* device = device_at(state, ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (device->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    --device->retained;
    if (!device->context_active()) destroy_context(state, *device);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuCtxPushCurrent(CUcontext context) {
  return call(Fn::cuCtxPushCurrent, device_of(context), [&](State& state) -> CUresult {
    const Device* device = device_at(state, device_of(context));
    if (device == nullptr || !device->context_active()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context_stack.depth == ContextStack::kDepth) return CUDA_ERROR_INVALID_VALUE;
    context_stack.devices[context_stack.depth++] = device->index;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuCtxPopCurrent(CUcontext* context) {
  return call(Fn::cuCtxPopCurrent, -1, [&](State&) -> CUresult {
    if (context_stack.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    const int device = context_stack.devices[--context_stack.depth];
    if (context != nullptr) *context = context_of(device);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuCtxSynchronize() {
  return call_in_context(Fn::cuCtxSynchronize, [](State& state, Device& device) -> CUresult {
    if (is_capturing(state, device)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    synchronize_device(state, device);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuDeviceCanAccessPeer(int* can, CUdevice ordinal, CUdevice peer) {
  return call(Fn::cuDeviceCanAccessPeer, ordinal, [&](State& state) -> CUresult {
    if (device_at(state, ordinal) == nullptr || device_at(state, peer) == nullptr)
      return CUDA_ERROR_INVALID_DEVICE;
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *can = ordinal != peer && state.configuration.peer_access ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuCtxEnablePeerAccess(CUcontext peer_context, unsigned flags) {
  return call_in_context(Fn::cuCtxEnablePeerAccess, [&](State& state, Device& device) -> CUresult {
    const Device* peer = device_at(state, device_of(peer_context));
    if (peer == nullptr || !peer->context_active() || peer == &device) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!state.configuration.peer_access) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    const uint64_t bit = uint64_t{1} << peer->index;
    if ((device.peers & bit) != 0) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    device.peers |= bit;
    return CUDA_SUCCESS;
  });
}

}  // namespace cudalloc::mock

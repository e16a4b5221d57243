// What can be asked about driver and devices.
#include <cstdio>
#include <cstring>

#include "fn.h"
#include "state.h"

namespace cudalloc::mock {
namespace {

/** @return whether the mock knows the attribute. */
bool attribute(const State& state, int number, int* value) {
  constexpr int kMaxThreadsPerBlock = 1;
  constexpr int kWarpSize = 10;
  constexpr int kUnifiedAddressing = 41;
  switch (number) {
    case kMaxThreadsPerBlock:
      *value = 1024;
      return true;
    case kWarpSize:
      *value = 32;
      return true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 1;
      return true;
    case kUnifiedAddressing:
      *value = 1;
      return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 8;
      return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      return true;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = state.configuration.virtual_memory ? 1 : 0;
      return true;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      *value = state.configuration.virtual_memory && state.configuration.sharing ? 1 : 0;
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult fn::cuDriverGetVersion(int* version) {
  return call(Fn::cuDriverGetVersion, -1, [&](State& state) -> CUresult {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = state.configuration.driver_version;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuDeviceGetCount(int* count) {
  return call(Fn::cuDeviceGetCount, -1, [&](State& state) -> CUresult {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = state.configuration.device_count;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuDeviceGet(CUdevice* device, int ordinal) {
  return call(Fn::cuDeviceGet, ordinal, [&](State& state) -> CUresult {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device_at(state, ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuDeviceGetName(char* name, int length, CUdevice ordinal) {
  return call(Fn::cuDeviceGetName, ordinal, [&](State& state) -> CUresult {
    if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (device_at(state, ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<size_t>(length), "cudalloc CPU mock");
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal) {
  return call(Fn::cuDeviceGetUuid, ordinal, [&](State& state) -> CUresult {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device_at(state, ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::memcpy(uuid->bytes, "cudalloc-mock-\0\0", sizeof uuid->bytes);
    uuid->bytes[15] = static_cast<char>(ordinal);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuDeviceTotalMem(size_t* bytes, CUdevice ordinal) {
  return call(Fn::cuDeviceTotalMem, ordinal, [&](State& state) -> CUresult {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Device* device = device_at(state, ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = device->capacity;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuDeviceGetAttribute(int* value, int number, CUdevice ordinal) {
  return call(Fn::cuDeviceGetAttribute, ordinal, [&](State& state) -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device_at(state, ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    return attribute(state, number, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

}  // namespace cudalloc::mock

// Compares our declarations of the CUDA ABI with cuda.h, where there is one. A difference does not compile.
// Ours come first: cuda.h turns some of the names into macros.
#include "cuda/functions.h"

// After ours.
#include <cuda.h>

#include <cstddef>
#include <cstdio>
#include <type_traits>

#undef CU_MEMHOSTALLOC_PORTABLE

namespace {

/** The same number of parameters, each of the same size and kind. */
template <class Ours, class Theirs>
struct SameShape : std::false_type {};

template <class... Ours, class... Theirs>
struct SameShape<int(Ours...), CUresult(Theirs...)> {
  template <class O, class T>
  static constexpr bool same_parameter() {
    return sizeof(O) == sizeof(T) && std::is_pointer_v<O> == std::is_pointer_v<T> &&
           std::is_class_v<std::remove_pointer_t<O>> == std::is_class_v<std::remove_pointer_t<T>>;
  }
  static constexpr bool compare() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return (same_parameter<Ours, Theirs>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = compare();
};

#define SAME_SIZE(type) static_assert(sizeof(::type) == sizeof(cudalloc::type), #type)
SAME_SIZE(CUresult);
SAME_SIZE(CUdevice);
SAME_SIZE(CUdeviceptr);
SAME_SIZE(CUmemGenericAllocationHandle);
SAME_SIZE(CUcontext);
SAME_SIZE(CUstream);
SAME_SIZE(CUevent);
SAME_SIZE(CUmodule);
SAME_SIZE(CUfunction);
SAME_SIZE(CUuuid);
SAME_SIZE(CUmemLocation);
SAME_SIZE(CUmemAllocationProp);
SAME_SIZE(CUmemAccessDesc);

#define SAME_OFFSET(type, member) \
  static_assert(offsetof(::type, member) == offsetof(cudalloc::type, member), #type)
SAME_OFFSET(CUmemLocation, type);
SAME_OFFSET(CUmemLocation, id);
SAME_OFFSET(CUmemAllocationProp, type);
SAME_OFFSET(CUmemAllocationProp, requestedHandleTypes);
SAME_OFFSET(CUmemAllocationProp, location);
SAME_OFFSET(CUmemAllocationProp, win32HandleMetaData);
SAME_OFFSET(CUmemAllocationProp, allocFlags);
SAME_OFFSET(CUmemAllocationProp, allocFlags.usage);
SAME_OFFSET(CUmemAccessDesc, location);
SAME_OFFSET(CUmemAccessDesc, flags);

#define SAME_VALUE(name) \
  static_assert(static_cast<long long>(::name) == static_cast<long long>(cudalloc::name), #name)
SAME_VALUE(CUDA_SUCCESS);
SAME_VALUE(CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(CUDA_ERROR_STUB_LIBRARY);
SAME_VALUE(CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME_VALUE(CUDA_ERROR_NO_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_VALUE(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
SAME_VALUE(CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME_VALUE(CUDA_ERROR_OPERATING_SYSTEM);
SAME_VALUE(CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(CUDA_ERROR_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_NOT_READY);
SAME_VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME_VALUE(CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_VALUE(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME_VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(CUDA_ERROR_ASSERT);
SAME_VALUE(CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME_VALUE(CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME_VALUE(CUDA_ERROR_MISALIGNED_ADDRESS);
SAME_VALUE(CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME_VALUE(CUDA_ERROR_INVALID_PC);
SAME_VALUE(CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(CUDA_ERROR_NOT_PERMITTED);
SAME_VALUE(CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME_VALUE(CUDA_ERROR_UNKNOWN);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME_VALUE(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(CU_STREAM_DEFAULT);
SAME_VALUE(CU_STREAM_NON_BLOCKING);
SAME_VALUE(CU_EVENT_DEFAULT);
SAME_VALUE(CU_EVENT_DISABLE_TIMING);
SAME_VALUE(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(CU_MEM_ACCESS_FLAGS_PROT_NONE);
SAME_VALUE(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(cudalloc::CU_MEMHOSTALLOC_PORTABLE == 1);

}  // namespace

namespace cudalloc {

// The parameter lists below mean our types, since this is our namespace.
#define X(name, exported, need, params) \
  static_assert(SameShape<int params, decltype(::exported)>::value, #exported);
CUDALLOC_DRIVER_FUNCTIONS(X)
#undef X

}  // namespace cudalloc

int main() {
  std::printf("all declarations agree with cuda.h %d\n", CUDA_VERSION);
  return 0;
}

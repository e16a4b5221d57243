// Loads the driver as the addon does and prints what was found, one `key=value` a line, then does a round
// through the table: allocation, virtual memory, copies. Run by loader_test.cc with another environment each
// time.
#include <cstdio>
#include <vector>

#include "cuda/loader.h"

namespace cudalloc {
namespace {

/** The first call that fails, or null. */
const char* use_memory(const Functions& cuda, CUdeviceptr address) {
  std::vector<unsigned char> out(4096, 42), back(4096);
  if (cuda.cuMemcpyHtoDAsync(address, out.data(), out.size(), nullptr) != CUDA_SUCCESS)
    return "cuMemcpyHtoDAsync";
  if (cuda.cuMemcpyDtoHAsync(back.data(), address, back.size(), nullptr) != CUDA_SUCCESS)
    return "cuMemcpyDtoHAsync";
  if (cuda.cuStreamSynchronize(nullptr) != CUDA_SUCCESS) return "cuStreamSynchronize";
  return back == out ? nullptr : "the bytes";
}

const char* use_malloc(const Functions& cuda) {
  CUdeviceptr address = 0;
  if (cuda.cudaMalloc != nullptr) {
    void* pointer = nullptr;
    if (cuda.cudaSetDevice(0) != cudaSuccess) return "cudaSetDevice";
    if (cuda.cudaMalloc(&pointer, 1 << 20) != cudaSuccess) return "cudaMalloc";
    address = reinterpret_cast<CUdeviceptr>(pointer);
    const char* failed = use_memory(cuda, address);
    if (failed != nullptr) return failed;
    return cuda.cudaFree(pointer) == cudaSuccess ? nullptr : "cudaFree";
  }
  if (cuda.cuMemAlloc(&address, 1 << 20) != CUDA_SUCCESS) return "cuMemAlloc";
  const char* failed = use_memory(cuda, address);
  if (failed != nullptr) return failed;
  return cuda.cuMemFree(address) == CUDA_SUCCESS ? nullptr : "cuMemFree";
}

const char* use_virtual_memory(const Functions& cuda) {
  constexpr size_t kPage = 2 << 20;
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle handle = 0;
  if (cuda.cuMemAddressReserve(&range, 4 * kPage, 0, 0, 0) != CUDA_SUCCESS) return "cuMemAddressReserve";
  if (cuda.cuMemCreate(&handle, kPage, &prop, 0) != CUDA_SUCCESS) return "cuMemCreate";
  if (cuda.cuMemMap(range, kPage, 0, handle, 0) != CUDA_SUCCESS) return "cuMemMap";
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (cuda.cuMemSetAccess(range, kPage, &access, 1) != CUDA_SUCCESS) return "cuMemSetAccess";
  const char* failed = use_memory(cuda, range);
  if (failed != nullptr) return failed;
  if (cuda.cuMemUnmap(range, kPage) != CUDA_SUCCESS) return "cuMemUnmap";
  if (cuda.cuMemRelease(handle) != CUDA_SUCCESS) return "cuMemRelease";
  return cuda.cuMemAddressFree(range, 4 * kPage) == CUDA_SUCCESS ? nullptr : "cuMemAddressFree";
}

void print_use(const Driver& found) {
  const Functions& cuda = found.functions;
  CUcontext context = nullptr;
  if (cuda.cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuda.cuCtxPushCurrent(context) != CUDA_SUCCESS) {
    std::printf("malloc=cuDevicePrimaryCtxRetain\n");
    return;
  }
  const char* failed = use_malloc(cuda);
  std::printf("malloc=%s\n", failed == nullptr ? "works" : failed);
  failed = cuda.cuMemMap == nullptr ? "missing" : use_virtual_memory(cuda);
  std::printf("virtual_memory=%s\n", failed == nullptr ? "works" : failed);
}

}  // namespace
}  // namespace cudalloc

int main() {
  const cudalloc::Driver& found = cudalloc::driver();
  std::printf("driver_library=%s\nruntime_library=%s\n", found.driver_library.c_str(),
              found.runtime_library.c_str());
  std::printf("driver_version=%d\nruntime_version=%d\n", found.driver_version, found.runtime_version);
  std::printf("driver_reason=%s\nruntime_reason=%s\n", found.driver_reason.c_str(),
              found.runtime_reason.c_str());
  std::printf("device_reason=%s\ndevice_count=%d\n", found.device_reason.c_str(), found.device_count);
  std::printf("missing=");
  for (const std::string& name : found.missing) std::printf("%s ", name.c_str());
  std::printf("\n");
  if (found.device_count > 0) cudalloc::print_use(found);
  return 0;
}

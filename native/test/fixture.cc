#include "fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <stdexcept>

namespace cudalloc::test {
namespace {

void require(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(std::string(what) + " returned " + std::to_string(result));
}

}  // namespace

OnDevice::OnDevice(int ordinal) : ordinal_(ordinal) {
  require(cuda().cuInit(0), "cuInit");
  require(cuda().cuDevicePrimaryCtxRetain(&context_, ordinal), "cuDevicePrimaryCtxRetain");
  require(cuda().cuCtxPushCurrent(context_), "cuCtxPushCurrent");
}

OnDevice::~OnDevice() {
  CUcontext popped = nullptr;
  cuda().cuCtxPopCurrent(&popped);
  cuda().cuDevicePrimaryCtxRelease(ordinal_);
}

uint64_t OnDevice::free_bytes() const {
  size_t free = 0, total = 0;
  require(cuda().cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return free;
}

CUmemAllocationProp memory_on(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return prop;
}

CUmemAccessDesc access_for(int device, int flags) { return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags}; }

Range::Range(uint64_t bytes) : bytes_(bytes) {
  require(cuda().cuMemAddressReserve(&address_, bytes, 0, 0, 0), "cuMemAddressReserve");
}

Range::~Range() { cuda().cuMemAddressFree(address_, bytes_); }

CUmemGenericAllocationHandle create_handle(uint64_t bytes, int device) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp prop = memory_on(device);
  require(cuda().cuMemCreate(&handle, bytes, &prop, 0), "cuMemCreate");
  return handle;
}

void map_with_access(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle, int device) {
  require(cuda().cuMemMap(address, bytes, 0, handle, 0), "cuMemMap");
  const CUmemAccessDesc access = access_for(device);
  require(cuda().cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
}

std::vector<uint8_t> pattern(uint64_t bytes, uint8_t seed) {
  std::vector<uint8_t> result(bytes);
  for (uint64_t i = 0; i < bytes; ++i) result[i] = static_cast<uint8_t>(seed + i * 31 + (i >> 8) * 7);
  return result;
}

CUresult write(CUdeviceptr address, const std::vector<uint8_t>& bytes) {
  const CUresult result = cuda().cuMemcpyHtoDAsync(address, bytes.data(), bytes.size(), nullptr);
  return result != CUDA_SUCCESS ? result : cuda().cuStreamSynchronize(nullptr);
}

CUresult read(CUdeviceptr address, std::vector<uint8_t>& bytes) {
  const CUresult result = cuda().cuMemcpyDtoHAsync(bytes.data(), address, bytes.size(), nullptr);
  return result != CUDA_SUCCESS ? result : cuda().cuStreamSynchronize(nullptr);
}

bool faults(CUdeviceptr address, bool write) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    auto* byte = reinterpret_cast<volatile uint8_t*>(address);
    if (write) {
      *byte = 1;
    } else {
      static_cast<void>(*byte);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

}  // namespace cudalloc::test

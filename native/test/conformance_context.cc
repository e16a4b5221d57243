// Rules of initialisation, devices, contexts and errors.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <thread>

#include "fixture.h"

namespace cudalloc::test {

TEST_CASE("cuInit takes no flags; the version is known without it") {
  int version = 0;
  CHECK(cuda().cuDriverGetVersion(&version) == CUDA_SUCCESS);
  CHECK(version >= 10000);
  CHECK(cuda().cuDriverGetVersion(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuInit(1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuInit(0) == CUDA_SUCCESS);
  int count = 0;
  CHECK(cuda().cuDeviceGetCount(&count) == CUDA_SUCCESS);
  CHECK(count >= 1);
  CHECK(cuda().cuDeviceGetCount(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("devices are asked by ordinal") {
  CHECK(cuda().cuInit(0) == CUDA_SUCCESS);
  CUdevice device = -1;
  CHECK(cuda().cuDeviceGet(&device, 0) == CUDA_SUCCESS);
  CHECK(cuda().cuDeviceGet(&device, device_count()) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(cuda().cuDeviceGet(&device, -1) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(cuda().cuDeviceGet(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  char name[64] = "";
  CHECK(cuda().cuDeviceGetName(name, sizeof name, 0) == CUDA_SUCCESS);
  CHECK(std::strlen(name) > 0);
  char short_name[4];
  CHECK(cuda().cuDeviceGetName(short_name, sizeof short_name, 0) == CUDA_SUCCESS);
  CHECK(std::string(short_name) == std::string(name).substr(0, 3));
  size_t total = 0;
  CHECK(cuda().cuDeviceTotalMem(&total, 0) == CUDA_SUCCESS);
  CHECK(total > 0);
  int value = 0;
  CHECK(cuda().cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) == CUDA_SUCCESS);
  CHECK(value >= 3);
  CHECK(cuda().cuDeviceGetAttribute(&value, 1 << 20, 0) == CUDA_ERROR_INVALID_VALUE);
  CUuuid uuid{};
  CHECK(cuda().cuDeviceGetUuid(&uuid, 0) == CUDA_SUCCESS);
  CHECK(uuid.bytes[0] != 0);
}

TEST_CASE("without a current context, what needs one says so") {
  CHECK(cuda().cuInit(0) == CUDA_SUCCESS);
  // A thread of its own: nothing was ever current there.
  std::thread([] {
    CUcontext popped = nullptr;
    CHECK(cuda().cuCtxPopCurrent(&popped) == CUDA_ERROR_INVALID_CONTEXT);
    size_t free = 0, total = 0;
    CHECK(cuda().cuMemGetInfo(&free, &total) == CUDA_ERROR_INVALID_CONTEXT);
    CUdeviceptr address = 0;
    CHECK(cuda().cuMemAlloc(&address, 1024) == CUDA_ERROR_INVALID_CONTEXT);
    CUstream stream = nullptr;
    CHECK(cuda().cuStreamCreateWithPriority(&stream, 0, 0) == CUDA_ERROR_INVALID_CONTEXT);
    CUevent event = nullptr;
    CHECK(cuda().cuEventCreate(&event, 0) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuda().cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

TEST_CASE("contexts are a stack of each thread") {
  OnDevice device;
  CHECK(cuda().cuCtxPushCurrent(device.context()) == CUDA_SUCCESS);
  CUcontext popped = nullptr;
  CHECK(cuda().cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  CHECK(popped == device.context());
  CHECK(cuda().cuCtxPushCurrent(nullptr) != CUDA_SUCCESS);
  size_t free = 0, total = 0;
  CHECK(cuda().cuMemGetInfo(&free, &total) == CUDA_SUCCESS);
  CHECK(free <= total);
  CHECK(cuda().cuMemGetInfo(nullptr, &total) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a primary context is counted, and what lives in it goes with it") {
  if (!is_standin()) return;  // another library of the process may hold a GPU's
  CUcontext context = nullptr;
  CHECK(cuda().cuDevicePrimaryCtxRetain(&context, 99) == CUDA_ERROR_INVALID_DEVICE);
  uint64_t before = 0;
  {
    OnDevice device;
    before = device.free_bytes();
    CUdeviceptr address = 0;
    CHECK(cuda().cuMemAlloc(&address, kMiB) == CUDA_SUCCESS);
    CHECK(device.free_bytes() == before - kMiB);
  }
  CHECK(cuda().cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);
  OnDevice again;
  CHECK(again.free_bytes() == before);
}

TEST_CASE("a destroyed context that is still current says so") {
  if (!is_standin()) return;
  OnDevice device;
  CHECK(cuda().cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  CHECK(cuda().cuMemAlloc(&address, kMiB) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext context = nullptr;
  CHECK(cuda().cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(context == device.context());
}

TEST_CASE("errors have names and texts") {
  const char* text = nullptr;
  CHECK(cuda().cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(cuda().cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  CHECK(cuda().cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS);
  CHECK(std::string(text).find("out of memory") != std::string::npos);
  CHECK(cuda().cuGetErrorName(54321, &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
}

TEST_CASE("peer access is asked, enabled once, one way") {
  if (device_count() < 2) return;
  OnDevice other(1);
  OnDevice device(0);
  int can = -1;
  CHECK(cuda().cuDeviceCanAccessPeer(&can, 0, 0) == CUDA_SUCCESS);
  CHECK(can == 0);
  CHECK(cuda().cuDeviceCanAccessPeer(&can, 0, 1) == CUDA_SUCCESS);
  if (can == 0) return;
  CHECK(cuda().cuCtxEnablePeerAccess(other.context(), 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuCtxEnablePeerAccess(device.context(), 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuda().cuCtxEnablePeerAccess(other.context(), 0) == CUDA_SUCCESS);
  CHECK(cuda().cuCtxEnablePeerAccess(other.context(), 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
}

}  // namespace cudalloc::test

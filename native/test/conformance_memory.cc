// Rules of device memory, pinned host memory, copies and fills.
#include <doctest/doctest.h>

#include <cstring>

#include "fixture.h"

namespace cudalloc::test {

TEST_CASE("cuMemAlloc gives distinct aligned memory and cuMemFree takes whole allocations") {
  OnDevice device;
  CUdeviceptr a = 0, b = 0;
  CHECK(cuda().cuMemAlloc(nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAlloc(&a, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuda().cuMemAlloc(&a, 1) == CUDA_SUCCESS);
  REQUIRE(cuda().cuMemAlloc(&b, 3 * kMiB) == CUDA_SUCCESS);
  CHECK(a % 512 == 0);
  CHECK(b % 512 == 0);
  CHECK((a < b || a >= b + 3 * kMiB));
  if (is_standin()) CHECK(b % kPage == 0);
  if (is_standin()) CHECK(cuda().cuMemFree(a + 1) == CUDA_ERROR_INVALID_VALUE);
  if (is_standin()) CHECK(cuda().cuMemFree(b + kMiB) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemFree(a) == CUDA_SUCCESS);
  CHECK(cuda().cuMemFree(a) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemFree(b) == CUDA_SUCCESS);
}

TEST_CASE("more than the device has is out of memory, and nothing changes") {
  OnDevice device;
  size_t free = 0, total = 0;
  REQUIRE(cuda().cuMemGetInfo(&free, &total) == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  CHECK(cuda().cuMemAlloc(&address, total + kPage) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(device.free_bytes() == free);
}

TEST_CASE("exactly the bytes asked are counted, to the last byte of the device") {
  if (!is_standin()) return;  // a GPU rounds up
  OnDevice device;
  const uint64_t free = device.free_bytes();
  CUdeviceptr small = 0, rest = 0, none = 0;
  REQUIRE(cuda().cuMemAlloc(&small, 1000) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == free - 1000);
  CHECK(cuda().cuMemAlloc(&none, free - 999) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(cuda().cuMemAlloc(&rest, free - 1000) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == 0);
  CHECK(cuda().cuMemAlloc(&none, 1) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuda().cuMemFree(small) == CUDA_SUCCESS);
  CHECK(cuda().cuMemFree(rest) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == free);
}

TEST_CASE("cudaMalloc works in the current context") {
  if (cuda().cudaMalloc == nullptr) return;
  OnDevice device;
  const uint64_t free = device.free_bytes();
  CHECK(cuda().cudaSetDevice(device.ordinal()) == cudaSuccess);
  CHECK(cuda().cudaSetDevice(99) != cudaSuccess);
  CHECK(cuda().cudaGetLastError() != cudaSuccess);
  CHECK(cuda().cudaGetLastError() == cudaSuccess);
  void* address = &device;
  CHECK(cuda().cudaMalloc(&address, 0) == cudaSuccess);
  CHECK(address == nullptr);
  CHECK(cuda().cudaFree(nullptr) == cudaSuccess);
  REQUIRE(cuda().cudaMalloc(&address, 20 * kMiB) == cudaSuccess);
  CHECK(device.free_bytes() <= free - 20 * kMiB);
  CHECK(cuda().cudaMalloc(nullptr, 1) == cudaErrorInvalidValue);
  const auto bytes = pattern(4096, 3);
  CHECK(write(reinterpret_cast<CUdeviceptr>(address), bytes) == CUDA_SUCCESS);
  CHECK(cuda().cudaFree(address) == cudaSuccess);
  cuda().cudaGetLastError();
  CHECK(cuda().cudaFree(address) == cudaErrorInvalidValue);
  CHECK(cuda().cudaGetLastError() == cudaErrorInvalidValue);
  size_t total = 0, now = 0;
  cuda().cuMemGetInfo(&now, &total);
  CHECK(cuda().cudaMalloc(&address, total + kPage) == cudaErrorMemoryAllocation);
  CHECK(cuda().cudaGetLastError() == cudaErrorMemoryAllocation);
  int version = 0;
  CHECK(cuda().cudaRuntimeGetVersion(&version) == cudaSuccess);
  CHECK(version >= 10000);
}

TEST_CASE("bytes survive copies in, across and out; fills fill exactly") {
  OnDevice device;
  CUdeviceptr a = 0, b = 0;
  const uint64_t bytes = 3 * kMiB + 777;
  REQUIRE(cuda().cuMemAlloc(&a, bytes) == CUDA_SUCCESS);
  REQUIRE(cuda().cuMemAlloc(&b, bytes) == CUDA_SUCCESS);
  const auto source = pattern(bytes, 9);
  std::vector<uint8_t> target(bytes);
  CHECK(write(a, source) == CUDA_SUCCESS);
  CHECK(cuda().cuMemcpyDtoDAsync(b, a, bytes, nullptr) == CUDA_SUCCESS);
  CHECK(read(b, target) == CUDA_SUCCESS);
  CHECK(target == source);
  CHECK(cuda().cuMemsetD8Async(b + 10, 0xAB, 100, nullptr) == CUDA_SUCCESS);
  CHECK(read(b, target) == CUDA_SUCCESS);
  auto expected = source;
  std::memset(expected.data() + 10, 0xAB, 100);
  CHECK(target == expected);
  CHECK(cuda().cuMemcpyHtoDAsync(a, source.data(), 0, nullptr) == CUDA_SUCCESS);
  cuda().cuMemFree(a);
  cuda().cuMemFree(b);
}

TEST_CASE("copies beyond an allocation, of unknown or freed memory, are refused and do nothing") {
  OnDevice device;
  CUdeviceptr a = 0, freed = 0;
  REQUIRE(cuda().cuMemAlloc(&a, 4 * kMiB) == CUDA_SUCCESS);
  REQUIRE(cuda().cuMemAlloc(&freed, 4 * kMiB) == CUDA_SUCCESS);
  REQUIRE(cuda().cuMemFree(freed) == CUDA_SUCCESS);
  std::vector<uint8_t> bytes(4 * kMiB + 1);
  CHECK(cuda().cuMemcpyHtoDAsync(a, bytes.data(), bytes.size(), nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemcpyDtoHAsync(bytes.data(), a + 1, 4 * kMiB, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemsetD8Async(a + 4 * kMiB - 1, 0, 2, nullptr) == CUDA_ERROR_INVALID_VALUE);
  if (is_standin()) {
    CHECK(cuda().cuMemcpyHtoDAsync(freed, bytes.data(), 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemcpyDtoHAsync(bytes.data(), freed, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemcpyDtoDAsync(a, freed, 1, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemcpyDtoHAsync(bytes.data(), ~CUdeviceptr{0} - 4, 100, nullptr) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemcpyHtoDAsync(a, nullptr, 16, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemcpyDtoHAsync(reinterpret_cast<void*>(a), a, 16, nullptr) == CUDA_ERROR_INVALID_VALUE);
  }
  cuda().cuMemFree(a);
}

TEST_CASE("pinned host memory is given back once") {
  OnDevice device;
  void* host = nullptr;
  CHECK(cuda().cuMemHostAlloc(&host, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemHostAlloc(nullptr, 64, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemHostAlloc(&host, 64, 0x100) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuda().cuMemHostAlloc(&host, 5 * kMiB, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS);
  std::memset(host, 7, 5 * kMiB);
  CUdeviceptr address = 0;
  REQUIRE(cuda().cuMemAlloc(&address, 5 * kMiB) == CUDA_SUCCESS);
  CHECK(cuda().cuMemcpyHtoDAsync(address, host, 5 * kMiB, nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuMemFreeHost(host) == CUDA_SUCCESS);
  if (is_standin()) CHECK(cuda().cuMemFreeHost(host) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemFreeHost(&device) == CUDA_ERROR_INVALID_VALUE);
  cuda().cuMemFree(address);
}

TEST_CASE("memory of another device needs access, but for peer copies") {
  if (!is_standin() || device_count() < 2) return;
  OnDevice other(1);
  CUdeviceptr there = 0, here = 0;
  REQUIRE(cuda().cuMemAlloc(&there, kMiB) == CUDA_SUCCESS);
  const auto bytes = pattern(kMiB, 5);
  REQUIRE(write(there, bytes) == CUDA_SUCCESS);
  OnDevice device(0);
  REQUIRE(cuda().cuMemAlloc(&here, kMiB) == CUDA_SUCCESS);
  CHECK(cuda().cuMemcpyDtoDAsync(here, there, kMiB, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemcpyPeerAsync(here, device.context(), there, other.context(), kMiB, nullptr) ==
        CUDA_SUCCESS);
  std::vector<uint8_t> back(kMiB);
  CHECK(read(here, back) == CUDA_SUCCESS);
  CHECK(back == bytes);
  CHECK(cuda().cuMemcpyPeerAsync(here, nullptr, there, other.context(), kMiB, nullptr) ==
        CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE(cuda().cuCtxEnablePeerAccess(other.context(), 0) == CUDA_SUCCESS);
  CHECK(cuda().cuMemcpyDtoDAsync(here, there, kMiB, nullptr) == CUDA_SUCCESS);
  // One way only.
  REQUIRE(cuda().cuCtxPushCurrent(other.context()) == CUDA_SUCCESS);
  CHECK(cuda().cuMemcpyDtoDAsync(there, here, kMiB, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CUcontext popped = nullptr;
  cuda().cuCtxPopCurrent(&popped);
}

}  // namespace cudalloc::test

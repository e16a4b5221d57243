// A mock device opened for one test, with its context current; as new again afterwards.
#pragma once

#include <doctest/doctest.h>

#include "fixture.h"
#include "mock/mock.h"

namespace cudalloc::test {

class MockDevice {
 public:
  explicit MockDevice(uint64_t capacity = kCapacity) {
    REQUIRE(cuda().cuInit(0) == CUDA_SUCCESS);
    bool conflict = false;
    index = mock::acquire_device(-1, capacity, &conflict);
    REQUIRE(index >= 0);
    REQUIRE(cuda().cuDevicePrimaryCtxRetain(&context, index) == CUDA_SUCCESS);
    REQUIRE(cuda().cuCtxPushCurrent(context) == CUDA_SUCCESS);
    mock::reset_counters(index);
  }
  ~MockDevice() {
    CUcontext popped = nullptr;
    cuda().cuCtxPopCurrent(&popped);
    mock::release_device(index);
  }
  MockDevice(const MockDevice&) = delete;
  MockDevice& operator=(const MockDevice&) = delete;

  uint64_t free_bytes() const {
    size_t free = 0, total = 0;
    REQUIRE(cuda().cuMemGetInfo(&free, &total) == CUDA_SUCCESS);
    return free;
  }
  uint64_t calls(const char* name) const {
    const auto counters = mock::counters(index);
    const auto it = counters.find(name);
    return it == counters.end() ? 0 : it->second;
  }
  CUdeviceptr malloc(uint64_t bytes) const {
    CUdeviceptr address = 0;
    REQUIRE(cuda().cuMemAlloc(&address, bytes) == CUDA_SUCCESS);
    return address;
  }

  int index = -1;
  CUcontext context = nullptr;
};

}  // namespace cudalloc::test

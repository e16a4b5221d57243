// The mock's controls: openings, injected failures, other processes, lost devices, counters, shutdown.
#include <string>

#include "mock_device.h"

namespace cudalloc::test {

TEST_CASE("a mock device keeps its capacity until its last release and is new afterwards") {
  bool conflict = true;
  const int index = mock::acquire_device(-1, 64 * kMiB, &conflict);
  REQUIRE(index >= 0);
  CHECK(!conflict);
  CHECK(mock::acquire_device(index, 0, &conflict) == index);
  CHECK(mock::acquire_device(index, 64 * kMiB, &conflict) == index);
  CHECK(mock::acquire_device(index, 32 * kMiB, &conflict) == -1);
  CHECK(conflict);
  CHECK(mock::acquire_device(-1, 32 * kMiB, &conflict) != index);
  CHECK(!conflict);
  mock::release_device(1 - index);
  CHECK(mock::acquire_device(mock::kMaxDevices, 0, &conflict) == -1);
  CHECK(!conflict);
  CHECK(mock::acquire_device(-2, 0, &conflict) == -1);

  REQUIRE(cuda().cuInit(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  REQUIRE(cuda().cuDevicePrimaryCtxRetain(&context, index) == CUDA_SUCCESS);
  REQUIRE(cuda().cuCtxPushCurrent(context) == CUDA_SUCCESS);
  CUdeviceptr address = 0, reserved = 0;
  REQUIRE(cuda().cuMemAlloc(&address, kMiB) == CUDA_SUCCESS);
  REQUIRE(cuda().cuMemAddressReserve(&reserved, 4 * kPage, 0, 0, 0) == CUDA_SUCCESS);
  const auto handle = create_handle(kPage, index);
  map_with_access(reserved, kPage, handle, index);
  CUstream stream = nullptr;
  REQUIRE(cuda().cuStreamCreateWithPriority(&stream, 0, 0) == CUDA_SUCCESS);
  mock::release_device(index);
  mock::release_device(index);
  size_t free = 0, total = 0;
  CHECK(cuda().cuMemGetInfo(&free, &total) == CUDA_SUCCESS);  // one opening is left
  CHECK(total == 64 * kMiB);
  mock::release_device(index);
  CHECK(cuda().cuMemGetInfo(&free, &total) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(faults(address, false));
  CHECK(faults(reserved, false));

  CHECK(mock::acquire_device(index, 0, &conflict) == index);
  REQUIRE(cuda().cuDevicePrimaryCtxRetain(&context, index) == CUDA_SUCCESS);
  CHECK(cuda().cuMemGetInfo(&free, &total) == CUDA_SUCCESS);
  CHECK(total == kCapacity);  // the configured default
  CHECK(free == total);
  CHECK(cuda().cuStreamQuery(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuda().cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAddressFree(reserved, 4 * kPage) == CUDA_ERROR_INVALID_VALUE);
  CUcontext popped = nullptr;
  CHECK(cuda().cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  mock::release_device(index);
}

TEST_CASE("the nth call fails once, with the given error and no effect") {
  MockDevice device;
  const uint64_t free = device.free_bytes();
  CHECK(mock::fail_nth(device.index, "cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY));
  CUdeviceptr address = 0, second = 0;
  CHECK(cuda().cuMemAlloc(&address, kMiB) == CUDA_SUCCESS);
  CHECK(cuda().cuMemAlloc(&second, kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(second == 0);
  CHECK(device.free_bytes() == free - kMiB);
  CHECK(cuda().cuMemAlloc(&second, kMiB) == CUDA_SUCCESS);
  CHECK(!mock::fail_nth(device.index, "cuMemAllok", 1, CUDA_ERROR_OUT_OF_MEMORY));
  CHECK(!mock::fail_nth(device.index, "cuMemAlloc", 1, CUDA_SUCCESS));
  CHECK(!mock::fail_nth(999, "cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY));
}

TEST_CASE("any call can be made to fail; looking after contexts does not count") {
  MockDevice device;
  CHECK(mock::fail_nth(device.index, "*", 3, CUDA_ERROR_UNKNOWN));
  CUdeviceptr address = 0;
  CHECK(cuda().cuMemAlloc(&address, kMiB) == CUDA_SUCCESS);
  CHECK(cuda().cuCtxPushCurrent(device.context) == CUDA_SUCCESS);
  CUcontext popped = nullptr;
  CHECK(cuda().cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  const char* name = nullptr;
  CHECK(cuda().cuGetErrorName(1, &name) == CUDA_SUCCESS);
  CHECK(cuda().cuMemsetD8Async(address, 1, 16, nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuMemFree(address) == CUDA_ERROR_UNKNOWN);
  CHECK(cuda().cuMemFree(address) == CUDA_SUCCESS);
}

TEST_CASE("failures: several, every call, taken back, of the runtime, of any device") {
  MockDevice device;
  CUdeviceptr address = 0;
  mock::fail_nth(device.index, "cuMemAlloc", 1, CUDA_ERROR_UNKNOWN);
  mock::fail_nth(device.index, "cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuda().cuMemAlloc(&address, 1) == CUDA_ERROR_UNKNOWN);
  CHECK(cuda().cuMemAlloc(&address, 1) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuda().cuMemAlloc(&address, 1) == CUDA_SUCCESS);
  mock::fail_nth(device.index, "cuMemAlloc", 0, CUDA_ERROR_NOT_PERMITTED);
  for (int i = 0; i < 3; ++i) CHECK(cuda().cuMemAlloc(&address, 1) == CUDA_ERROR_NOT_PERMITTED);
  mock::clear_failures(device.index);
  CHECK(cuda().cuMemAlloc(&address, 1) == CUDA_SUCCESS);
  void* pointer = nullptr;
  mock::fail_nth(device.index, "cudaMalloc", 1, cudaErrorMemoryAllocation);
  CHECK(cuda().cudaMalloc(&pointer, 1) == cudaErrorMemoryAllocation);
  CHECK(cuda().cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cuda().cudaGetLastError() == cudaSuccess);
  mock::fail_nth(mock::kAnyDevice, "cuInit", 1, CUDA_ERROR_STUB_LIBRARY);
  CHECK(cuda().cuInit(0) == CUDA_ERROR_STUB_LIBRARY);
  CHECK(cuda().cuInit(0) == CUDA_SUCCESS);
  mock::fail_nth(mock::kAnyDevice, "cuMemFree", 2, CUDA_ERROR_UNKNOWN);
  mock::clear_failures(mock::kAnyDevice);
  CHECK(cuda().cuMemFree(0x1000) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemFree(0x1000) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("another process takes memory and gives it back") {
  MockDevice device;
  CHECK(mock::take_by_others(device.index, static_cast<int64_t>(kCapacity - kPage)) ==
        static_cast<int64_t>(kCapacity - kPage));
  CHECK(device.free_bytes() == kPage);
  CUdeviceptr address = 0;
  CHECK(cuda().cuMemAlloc(&address, kPage + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuda().cuMemAlloc(&address, kPage) == CUDA_SUCCESS);
  CHECK(mock::take_by_others(device.index, 1) == 0);
  CHECK(mock::take_by_others(device.index, -1) == -1);
  CHECK(device.free_bytes() == 1);
  CHECK(mock::take_by_others(device.index, INT64_MIN / 2) == 1 - static_cast<int64_t>(kCapacity - kPage));
  CHECK(device.free_bytes() == kCapacity - kPage);
}

TEST_CASE("a lost device answers every call with its error, also to give back, until it is new") {
  int index = -1;
  {
    MockDevice device;
    index = device.index;
    const CUdeviceptr address = device.malloc(kMiB);
    mock::lose_device(index, CUDA_ERROR_ECC_UNCORRECTABLE);
    size_t free = 0, total = 0;
    CUdeviceptr none = 0;
    void* pointer = nullptr;
    CHECK(cuda().cuMemGetInfo(&free, &total) == CUDA_ERROR_ECC_UNCORRECTABLE);
    CHECK(cuda().cuMemAlloc(&none, 1) == CUDA_ERROR_ECC_UNCORRECTABLE);
    CHECK(cuda().cuMemFree(address) == CUDA_ERROR_ECC_UNCORRECTABLE);
    CHECK(cuda().cuCtxSynchronize() == CUDA_ERROR_ECC_UNCORRECTABLE);
    CHECK(cuda().cudaMalloc(&pointer, 1) == CUDA_ERROR_ECC_UNCORRECTABLE);
    CHECK(cuda().cuMemAddressReserve(&none, kPage, 0, 0, 0) == CUDA_ERROR_ECC_UNCORRECTABLE);
    const char* text = nullptr;
    CHECK(cuda().cuGetErrorName(CUDA_ERROR_ECC_UNCORRECTABLE, &text) == CUDA_SUCCESS);
    mock::lose_device(index, CUDA_SUCCESS);
    CHECK(cuda().cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(device.calls("cuCtxSynchronize_failed") == 2);
  }
  MockDevice device;
  CHECK(device.index == index);
  CHECK(cuda().cuCtxSynchronize() == CUDA_SUCCESS);
}

TEST_CASE("counters hold every call, failed ones apart; a query that is not ready has not failed") {
  MockDevice device;
  CUdeviceptr address = device.malloc(kMiB);
  CHECK(cuda().cuMemAlloc(&address, uint64_t{1} << 60) == CUDA_ERROR_OUT_OF_MEMORY);
  CUevent event = nullptr;
  REQUIRE(cuda().cuEventCreate(&event, 0) == CUDA_SUCCESS);
  mock::hold_events(device.index, true);
  REQUIRE(cuda().cuEventRecord(event, nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  CHECK(cuda().cuEventQuery(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  const std::map<std::string, uint64_t> expected = {{"cuMemAlloc", 1},    {"cuMemAlloc_failed", 1},
                                                    {"cuEventCreate", 1}, {"cuEventRecord", 1},
                                                    {"cuEventQuery", 1},  {"cuEventQuery_failed", 1}};
  CHECK(mock::counters(device.index) == expected);
  mock::reset_counters(device.index);
  CHECK(mock::counters(device.index).empty());
  CHECK(mock::counters(999).empty());
}

TEST_CASE("errors by name") {
  CHECK(mock::error_by_name("CUDA_ERROR_OUT_OF_MEMORY") == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(mock::error_by_name("cudaErrorMemoryAllocation") == cudaErrorMemoryAllocation);
  CHECK(mock::error_by_name("CUDA_ERROR_OUT_OF_LUCK") == -1);
}

TEST_CASE("a driver that has shut down answers so") {
  MockDevice device;
  mock::set_shut_down(true);
  CUdeviceptr address = 0;
  void* pointer = nullptr;
  CHECK(cuda().cuMemAlloc(&address, 1) == CUDA_ERROR_DEINITIALIZED);
  CHECK(cuda().cuCtxPushCurrent(device.context) == CUDA_ERROR_DEINITIALIZED);
  CHECK(cuda().cuInit(0) == CUDA_ERROR_DEINITIALIZED);
  CHECK(cuda().cudaMalloc(&pointer, 1) == cudaErrorCudartUnloading);
  CHECK(cuda().cudaGetLastError() == cudaErrorCudartUnloading);
  mock::set_shut_down(false);
  CHECK(cuda().cuMemAlloc(&address, 1) == CUDA_SUCCESS);
}

TEST_CASE("configurations: none, no virtual memory, no peers, a limit on reservations; cuInit comes first") {
  mock::Configuration configuration;
  {
    MockDevice device;
    CHECK(!mock::configure(configuration));
  }
  const auto restore = [] {
    mock::Configuration usual;
    usual.device_count = 2;
    usual.default_capacity = kCapacity;
    REQUIRE(mock::configure(usual));
  };
  configuration.device_count = 0;
  REQUIRE(mock::configure(configuration));
  int count = -1;
  CHECK(cuda().cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuda().cuInit(0) == CUDA_ERROR_NO_DEVICE);
  void* pointer = nullptr;
  CHECK(cuda().cudaMalloc(&pointer, 1) == CUDA_ERROR_NO_DEVICE);
  configuration.device_count = mock::kMaxDevices + 1;
  CHECK(!mock::configure(configuration));
  configuration.device_count = 2;
  configuration.virtual_memory = false;
  configuration.peer_access = false;
  REQUIRE(mock::configure(configuration));
  {
    MockDevice first;
    MockDevice device;
    int value = -1;
    CHECK(cuda().cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                      device.index) == CUDA_SUCCESS);
    CHECK(value == 0);
    CUdeviceptr address = 0;
    CHECK(cuda().cuMemAddressReserve(&address, kPage, 0, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp prop = memory_on(device.index);
    CHECK(cuda().cuMemCreate(&handle, kPage, &prop, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cuda().cuDeviceCanAccessPeer(&value, 0, 1) == CUDA_SUCCESS);
    CHECK(value == 0);
    CHECK(cuda().cuCtxEnablePeerAccess(first.context, 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  }
  restore();
  configuration = {};
  configuration.device_count = 1;
  configuration.largest_reservation = 4 * kPage;
  configuration.runtime_version = 13000;
  REQUIRE(mock::configure(configuration));
  {
    MockDevice device;
    CUdeviceptr address = 0;
    CHECK(cuda().cuMemAddressReserve(&address, 5 * kPage, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE(cuda().cuMemAddressReserve(&address, 4 * kPage, 0, 0, 0) == CUDA_SUCCESS);
    CHECK(cuda().cuMemAddressFree(address, 4 * kPage) == CUDA_SUCCESS);
    constexpr cudaError_t kInsufficientDriver = 35;
    CHECK(cuda().cudaMalloc(&pointer, 1) == kInsufficientDriver);
  }
  restore();
}

TEST_CASE("a kernel that touches what it may not is an error of everything after it") {
  MockDevice device;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  const char* ptx = ".version 6.0\n.target sm_50\n.visible .entry cudalloc_fill_u32(.param .u64 p) { ret; }";
  REQUIRE(cuda().cuModuleLoadData(&module, ptx) == CUDA_SUCCESS);
  REQUIRE(cuda().cuModuleGetFunction(&fill, module, "cudalloc_fill_u32") == CUDA_SUCCESS);
  CUdeviceptr address = device.malloc(4096);
  uint32_t value = 1;
  uint64_t count = 1025;
  void* parameters[] = {&address, &value, &count};
  CHECK(cuda().cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamSynchronize(nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cuda().cuMemFree(address) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace cudalloc::test

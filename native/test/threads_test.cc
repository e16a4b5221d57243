// Many threads on the same and on different mock devices, with the controls used meanwhile. Also run under
// ThreadSanitizer.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "mock/mock.h"
#include "opened_device.h"

namespace cudalloc::test {
namespace {

constexpr int kThreads = 6;
constexpr int kRounds = 150;

/** One thread's life on a device: everything it makes it gives back. @return errors met. */
int work(int device, int seed) {
  const Functions& cuda = mock::functions();
  int errors = 0;
  const auto check = [&](bool good) { errors += good ? 0 : 1; };
  CUcontext context = nullptr;
  check(cuda.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
  check(cuda.cuCtxPushCurrent(context) == CUDA_SUCCESS);
  CUstream stream = nullptr;
  check(cuda.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
  CUdeviceptr range = 0;
  check(cuda.cuMemAddressReserve(&range, 8 * kPage, 0, 0, 0) == CUDA_SUCCESS);
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  std::vector<unsigned char> bytes(5000), back(5000);
  for (int round = 0; round < kRounds; ++round) {
    std::memset(bytes.data(), seed + round, bytes.size());
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr block = 0;
    const CUdeviceptr at = range + static_cast<uint64_t>(round % 8) * kPage;
    check(cuda.cuMemCreate(&handle, kPage, &prop, 0) == CUDA_SUCCESS);
    check(cuda.cuMemMap(at, kPage, 0, handle, 0) == CUDA_SUCCESS);
    check(cuda.cuMemSetAccess(at, kPage, &access, 1) == CUDA_SUCCESS);
    check(cuda.cuMemAlloc(&block, 5000) == CUDA_SUCCESS);
    check(cuda.cuMemcpyHtoDAsync(at, bytes.data(), bytes.size(), stream) == CUDA_SUCCESS);
    check(cuda.cuMemcpyDtoDAsync(block, at, bytes.size(), stream) == CUDA_SUCCESS);
    check(cuda.cuMemcpyDtoHAsync(back.data(), block, back.size(), stream) == CUDA_SUCCESS);
    CUevent event = nullptr;
    check(cuda.cuEventCreate(&event, 0) == CUDA_SUCCESS);
    check(cuda.cuEventRecord(event, stream) == CUDA_SUCCESS);
    check(cuda.cuEventSynchronize(event) == CUDA_SUCCESS);
    check(cuda.cuEventDestroy(event) == CUDA_SUCCESS);
    check(back == bytes);
    check(cuda.cuMemFree(block) == CUDA_SUCCESS);
    check(cuda.cuMemUnmap(at, kPage) == CUDA_SUCCESS);
    check(cuda.cuMemRelease(handle) == CUDA_SUCCESS);
  }
  check(cuda.cuMemAddressFree(range, 8 * kPage) == CUDA_SUCCESS);
  check(cuda.cuStreamDestroy(stream) == CUDA_SUCCESS);
  CUcontext popped = nullptr;
  check(cuda.cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  check(cuda.cuDevicePrimaryCtxRelease(device) == CUDA_SUCCESS);
  return errors;
}

}  // namespace

TEST_CASE("threads on two devices keep their bytes, and nothing is left") {
  REQUIRE(mock::functions().cuInit(0) == CUDA_SUCCESS);
  bool conflict = false;
  const int devices[2] = {mock::acquire_device(-1, 64 * kPage, &conflict),
                          mock::acquire_device(-1, 64 * kPage, &conflict)};
  // Held by this thread, so that the context lives on when a worker ends.
  CUcontext context = nullptr;
  for (const int device : devices)
    REQUIRE(mock::functions().cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
  std::atomic<int> errors{0};
  std::atomic<bool> stop{false};
  std::thread controls([&] {
    while (!stop) {
      for (const int device : devices) {
        mock::hold_events(device, true);
        mock::counters(device);
        mock::complete_events(device, nullptr, true);
        mock::hold_events(device, false);
        mock::take_by_others(device, 4096);
        mock::take_by_others(device, -4096);
      }
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { errors += work(devices[i % 2], i * 17); });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  controls.join();
  CHECK(errors == 0);
  for (const int device : devices) {
    CHECK(mock::counters(device)["cuMemRelease"] == kThreads / 2 * kRounds);
    REQUIRE(mock::functions().cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    REQUIRE(mock::functions().cuCtxPushCurrent(context) == CUDA_SUCCESS);
    size_t free = 0, total = 0;
    CHECK(mock::functions().cuMemGetInfo(&free, &total) == CUDA_SUCCESS);
    CHECK(free == total);
    CUcontext popped = nullptr;
    CHECK(mock::functions().cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
    mock::release_device(device);
  }
}

namespace {

/** One thread's opening of a device, which offers, takes, claims and gives back. */
void share(const Device::Options& options, int seed, std::atomic<int>* errors) {
  Device device(options);
  std::vector<int32_t> held;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int32_t> some(1 + (round + seed) % 4, -1);
    switch ((round + seed) % 5) {
      case 0:
        some.resize(device.mem_take(kPage, some.data(), some.size()));
        held.insert(held.end(), some.begin(), some.end());
        break;
      case 1:
        device.mem_trim(kPage);
        break;
      case 2:
        try {
          device.mem_create(kPage, some.data(), some.size());
          held.insert(held.end(), some.begin(), some.end());
        } catch (const Error&) {
          // The others have it all.
        }
        break;
      case 3: {
        device.mem_offer(held.data(), held.size());
        std::this_thread::yield();
        const size_t gone = device.mem_claim(held.data(), held.size());
        const size_t before = held.size();
        held.erase(std::remove(held.begin(), held.end(), -1), held.end());
        *errors += before - held.size() == gone ? 0 : 1;
        break;
      }
      default:
        if (held.empty()) break;
        const uint64_t range = device.address_reserve(kPage * held.size(), 0);
        device.mem_map(range, kPage, held.data(), held.size());
        device.memset(range, static_cast<uint8_t>(seed), kPage, 0);
        device.synchronize();
        device.mem_unmap_range(range, kPage * held.size());
        device.address_free(range, kPage * held.size());
    }
  }
}

}  // namespace

TEST_CASE("openings of one device take each other's offered pages, and no page twice") {
  Opened device(24 * kPage);
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { share(device.options(), i, &errors); });
  for (std::thread& thread : threads) thread.join();
  CHECK(errors == 0);
  CHECK(device.free_bytes() == 24 * kPage);
}

}  // namespace cudalloc::test

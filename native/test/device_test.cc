// The device code over the mock: memory, limits, captures, sharing, closing at every kind of end.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <cstring>
#include <thread>
#include <vector>

#include "opened_device.h"

namespace cudalloc::test {
namespace {

std::vector<uint8_t> read(Device& device, uint64_t address, uint64_t bytes) {
  std::vector<uint8_t> result(bytes);
  device.memcpy_dtoh(result.data(), address, bytes, 0);
  return result;
}

}  // namespace

TEST_CASE("memory is allocated, copied, filled and freed once") {
  Opened device;
  const uint64_t a = device->malloc(kMiB);
  const std::vector<uint8_t> bytes(1000, 7);
  device->memcpy_htod(a, bytes.data(), bytes.size(), 0);
  device->memcpy_dtod(a + 2000, a, 1000, 0);
  device->memset(a + 2500, 9, 10, 0);
  auto expected = bytes;
  std::memset(expected.data() + 500, 9, 10);
  CHECK(read(*device.device, a + 2000, 1000) == expected);
  CHECK(device.free_bytes() == 63 * kMiB);
  device->free(a);
  CHECK(device.free_bytes() == 64 * kMiB);
  CHECK(code_of([&] { device->free(a); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  CHECK(code_of([&] { device->free(12345); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  CHECK(device.calls("cudaMalloc") == 1);
  CHECK(device->counts().made(Fn::cudaMalloc) == 1);
}

TEST_CASE("out of memory keeps its CUDA name and numbers, and changes nothing") {
  Opened device;
  try {
    device->malloc(65 * kMiB);
    FAIL("did not throw");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::Driver);
    CHECK(error.fn() == "cudaMalloc");
    CHECK(error.cuda_error() == "cudaErrorMemoryAllocation");
    CHECK(error.cuda_code() == cudaErrorMemoryAllocation);
    CHECK(std::string(error.what()).find("68157440") != std::string::npos);
  }
  CHECK(device->counts().failed(Fn::cudaMalloc) == 1);
  CHECK(mock::functions().cudaGetLastError() == cudaSuccess);
  CHECK(device.free_bytes() == 64 * kMiB);
}

TEST_CASE("without a runtime, memory comes from cuMemAlloc") {
  Functions driver_only = mock::functions();
#define X(name, params) driver_only.name = nullptr;
  CUDALLOC_RUNTIME_FUNCTIONS(X)
#undef X
  Opened device(64 * kMiB, -1, driver_only);
  device->free(device->malloc(kMiB));
  CHECK(device.calls("cuMemAlloc") == 1);
  CHECK(device.calls("cuMemFree") == 1);
  CHECK(device.calls("cudaMalloc") == 0);
}

TEST_CASE("a limit holds for malloc and pages together, for all openings, and reports itself as the total") {
  Opened device;
  CHECK(code_of([&] { Device conflicting(device.options(16 * kMiB)); }) == "ERR_CUDALLOC_CONFIG");
  device.device.reset();
  device.device = std::make_unique<Device>(device.options(16 * kMiB));
  Device second(device.options());
  uint64_t free = 0, total = 0;
  second.mem_get_info(&free, &total);
  CHECK(total == 16 * kMiB);
  CHECK(free == 16 * kMiB);
  const uint64_t block = device->malloc(10 * kMiB);
  int32_t pages[3] = {-1, -1, -1};
  second.mem_create(kPage, pages, 3);
  CHECK(code_of([&] { device->malloc(1); }) == "ERR_CUDALLOC_DRIVER");
  int32_t more[1] = {-1};
  CHECK(code_of([&] { device->mem_create(kPage, more, 1); }) == "ERR_CUDALLOC_DRIVER");
  second.mem_get_info(&free, &total);
  CHECK(free == 0);
  device->free(block);
  device->mem_create(kPage, more, 1);
  device->mem_release(more, 1);
  second.mem_release(pages, 3);
  second.mem_get_info(&free, &total);
  CHECK(free == 16 * kMiB);
  second.close();
}

TEST_CASE("a capture is found before any call that would break it") {
  Opened device;
  const int32_t stream = device->stream_create(true, 0);
  const int32_t event = device->event_create(false);
  const uint64_t block = device->malloc(kMiB);
  const uint64_t range = device->address_reserve(4 * kPage, 0);
  int32_t pages[1] = {-1}, more[1] = {-1};
  device->mem_create(kPage, pages, 1);
  uint8_t byte = 0;
  REQUIRE(mock::set_capturing(device.index, device->stream_handle(stream), true));
  CHECK(device->stream_is_capturing(stream));
  const std::string capturing = "ERR_CUDALLOC_CAPTURING";
  CHECK(code_of([&] { device->malloc(1); }) == capturing);
  CHECK(code_of([&] { device->free(block); }) == capturing);
  CHECK(code_of([&] { device->mem_create(kPage, more, 1); }) == capturing);
  CHECK(code_of([&] { device->mem_map(range, kPage, pages, 1); }) == capturing);
  CHECK(code_of([&] { device->synchronize(); }) == capturing);
  CHECK(code_of([&] { device->stream_synchronize(stream); }) == capturing);
  CHECK(code_of([&] { device->event_query(event); }) == capturing);
  CHECK(code_of([&] { device->event_synchronize(event); }) == capturing);
  CHECK(code_of([&] { device->memcpy_dtoh(&byte, block, 1, stream); }) == capturing);
  CHECK(code_of([&] { device->host_alloc(4096); }) == capturing);
  CHECK(code_of([&] { device->close(); }) == capturing);
  // The mock refuses such calls too; it was never asked.
  for (const char* name : {"cudaMalloc", "cudaFree", "cuCtxSynchronize", "cuStreamSynchronize",
                           "cuEventQuery", "cuEventSynchronize", "cuMemHostAlloc"}) {
    CHECK(device.calls(std::string(name) + "_failed") == 0);
  }
  REQUIRE(mock::set_capturing(device.index, device->stream_handle(stream), false));
  device->mem_map(range, kPage, pages, 1);
  REQUIRE(mock::set_capturing(device.index, device->stream_handle(stream), true));
  CHECK(code_of([&] { device->mem_unmap(range, kPage, 1); }) == capturing);
  REQUIRE(mock::set_capturing(device.index, device->stream_handle(stream), false));
  device->close();
}

TEST_CASE("a capture on a blocking stream of somebody else is found through the default stream") {
  Opened device;
  CUcontext context = nullptr;
  CUstream foreign = nullptr;
  REQUIRE(mock::functions().cuDevicePrimaryCtxRetain(&context, device.index) == CUDA_SUCCESS);
  REQUIRE(mock::functions().cuCtxPushCurrent(context) == CUDA_SUCCESS);
  REQUIRE(mock::functions().cuStreamCreateWithPriority(&foreign, CU_STREAM_DEFAULT, 0) == CUDA_SUCCESS);
  REQUIRE(mock::set_capturing(device.index, foreign, true));
  CHECK(code_of([&] { device->malloc(1); }) == "ERR_CUDALLOC_CAPTURING");
  REQUIRE(mock::set_capturing(device.index, foreign, false));
  device->free(device->malloc(1));
  const int32_t wrapped = device->stream_wrap(reinterpret_cast<uint64_t>(foreign));
  CHECK(device->stream_query(wrapped));
  device->stream_destroy(wrapped);
  CHECK(mock::functions().cuStreamDestroy(foreign) == CUDA_SUCCESS);
  CUcontext popped = nullptr;
  CHECK(mock::functions().cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  CHECK(mock::functions().cuDevicePrimaryCtxRelease(device.index) == CUDA_SUCCESS);
}

TEST_CASE("a lost device is told by its error, and closing it is no failure") {
  Opened device;
  device->malloc(kMiB);
  mock::lose_device(device.index, CUDA_ERROR_ECC_UNCORRECTABLE);
  CHECK(code_of([&] { device->malloc(1); }) == "ERR_CUDALLOC_DEVICE_LOST");
  CHECK(code_of([&] { device->synchronize(); }) == "ERR_CUDALLOC_DEVICE_LOST");
  CHECK(code_of([&] { device->close(); }) == "");
}

TEST_CASE("a refused reservation is about addresses") {
  Opened device;
  CHECK(code_of([&] { device->address_reserve(uint64_t{1} << 52, 0); }) == "ERR_CUDALLOC_ADDRESS_SPACE");
  mock::fail_nth(device.index, "cuMemAddressReserve", 1, CUDA_ERROR_NOT_PERMITTED);
  CHECK(code_of([&] { device->address_reserve(kPage, 0); }) == "ERR_CUDALLOC_ADDRESS_SPACE");
  const uint64_t range = device->address_reserve(kPage, 0);
  device->address_free(range, kPage);
}

TEST_CASE("closing gives everything back in an order that CUDA accepts") {
  Opened keeper;
  {
    Device device(keeper.options());
    device.malloc(kMiB);
    const uint64_t range = device.address_reserve(4 * kPage, 0);
    int32_t pages[2] = {-1, -1}, unmapped[1] = {-1};
    device.mem_create(kPage, pages, 2);
    device.mem_create(kPage, unmapped, 1);
    device.mem_map(range, kPage, pages, 2);
    const int32_t stream = device.stream_create(true, 0);
    mock::hold_events(keeper.index, true);
    device.event_record(device.event_create(false), stream);
    const auto pinned = device.host_alloc(4096);
    device.close();
    CHECK(pinned->device == nullptr);
    device.host_free(pinned);
  }
  CHECK(keeper.free_bytes() == 64 * kMiB);
  const auto counters = mock::counters(keeper.index);
  for (const auto& [name, count] : counters) {
    CAPTURE(name);
    CHECK(name.find("_failed") == std::string::npos);
  }
  CHECK(counters.count("unmapUnderPendingWork") == 0);
  CHECK(counters.at("cuMemUnmap") == 2);
  CHECK(counters.at("cuMemRelease") == 3);
  CHECK(counters.at("cuEventDestroy") == 1);
  CHECK(counters.at("cuStreamDestroy") == 1);
  CHECK(counters.at("cuMemFreeHost") == 1);
}

TEST_CASE("after the driver has shut down, closing is silent") {
  bool conflict = false;
  const int index = mock::acquire_device(-1, 64 * kMiB, &conflict);
  REQUIRE(index >= 0);
  Device device(Device::Options{&mock::functions(), "mock", index, 0, "", [] {}});
  device.malloc(kMiB);
  device.stream_create(false, 0);
  mock::set_shut_down(true);
  CHECK(code_of([&] { device.close(); }) == "");
  mock::set_shut_down(false);
  mock::release_device(index);
}

TEST_CASE("work of the thread pool is waited for") {
  Opened device;
  const uint64_t block = device->malloc(kMiB);
  device->memset(block, 3, kMiB, 0);
  std::vector<uint8_t> bytes(kMiB);
  auto copy = device->begin_dtoh(bytes.data(), block, bytes.size(), 0);
  std::thread pool([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    copy();
  });
  device->free(block);
  CHECK(bytes == std::vector<uint8_t>(kMiB, 3));
  pool.join();
}

TEST_CASE("peers: mapped before, mapped after, and cudaMalloc memory") {
  Opened owner;
  Opened peer;
  CHECK(peer->can_access_peer(*owner.device));
  const uint64_t range = owner->address_reserve(4 * kPage, 0);
  int32_t pages[2] = {-1, -1};
  owner->mem_create(kPage, pages, 2);
  owner->mem_map(range, kPage, pages, 1);
  const uint64_t block = owner->malloc(kMiB);
  CHECK(code_of([&] { peer->memset(range, 1, 16, 0); }) == "ERR_CUDALLOC_DRIVER");
  CHECK(code_of([&] { peer->memset(block, 1, 16, 0); }) == "ERR_CUDALLOC_DRIVER");
  peer->enable_peer_access(*owner.device);
  peer->enable_peer_access(*owner.device);
  peer->memset(range, 1, 16, 0);
  peer->memset(block, 2, 16, 0);
  owner->mem_map(range + kPage, kPage, pages + 1, 1);
  peer->memset(range + kPage, 3, 16, 0);
  CHECK(read(*owner.device, range, 16) == std::vector<uint8_t>(16, 1));
  CHECK(read(*owner.device, block, 16) == std::vector<uint8_t>(16, 2));
  CHECK(read(*owner.device, range + kPage, 16) == std::vector<uint8_t>(16, 3));
  const uint64_t target = peer->malloc(16);
  owner->memcpy_peer(*peer.device, target, block, 16, 0);
  CHECK(read(*peer.device, target, 16) == std::vector<uint8_t>(16, 2));
}

TEST_CASE("a run of pages is unmapped in one call, whole pages of this opening only") {
  Opened device;
  Device other(device.options());
  int32_t pages[3];
  device->mem_create(kPage, pages, 3);
  const uint64_t range = device->address_reserve(4 * kPage, 0);
  device->mem_map(range, kPage, pages, 3);
  CHECK(code_of([&] { other.mem_unmap_range(range, kPage); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  CHECK(code_of([&] { device->mem_unmap_range(range, kPage + 1); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  CHECK(code_of([&] { device->mem_unmap_range(range + kPage, 3 * kPage); }) ==
        "ERR_CUDALLOC_INVALID_ADDRESS");
  device->mem_unmap_range(range, 3 * kPage);
  CHECK(device->counts().made(Fn::cuMemUnmap) == 1);
  CHECK(code_of([&] { device->mem_unmap_range(range, kPage); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
}

TEST_CASE("an offered page is taken with its bytes and unmapped where its owner had it") {
  Opened owner;
  Device taker(owner.options());
  CHECK(owner->openings() == 2);
  int32_t pages[2];
  owner->mem_create(kPage, pages, 2);
  const uint64_t range = owner->address_reserve(2 * kPage, 0);
  owner->mem_map(range, kPage, pages, 2);
  owner->memset(range, 5, 2 * kPage, 0);
  owner->mem_offer(pages, 2);
  CHECK(taker.mem_offered() == 2 * kPage);
  CHECK(owner->mem_offered() == 0);
  CHECK(code_of([&] { owner->mem_map(range, kPage, pages, 1); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  int32_t taken[1];
  REQUIRE(taker.mem_take(kPage, taken, 1) == 1);
  const uint64_t room = taker.address_reserve(kPage, 0);
  taker.mem_map(room, kPage, taken, 1);
  CHECK(read(taker, room, kPage) == std::vector<uint8_t>(kPage, 5));
  const int at = pages[0] == taken[0] ? 0 : 1;
  CHECK(owner->mem_claim(pages, 2) == 1);
  CHECK(pages[at] == -1);
  CHECK(code_of([&] { owner->mem_unmap(range + at * kPage, kPage, 1); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  owner->mem_offer(&pages[1 - at], 1);
  CHECK(taker.mem_trim(1) == kPage);
  CHECK(owner.free_bytes() == 64 * kMiB - kPage);
}

TEST_CASE("a shared page: exported once, imported where its witness is, and open until it is released") {
  Opened device;
  int32_t shared = -1, plain = -1;
  device->mem_create(kPage, &shared, 1, true);
  device->mem_create(kPage, &plain, 1);
  const DescriptorAddress source = device->mem_export(shared);
  CHECK(device->mem_export(shared).token == source.token);
  CHECK(device->counts().made(Fn::cuMemExportToShareableHandle) == 1);
  CHECK(code_of([&] { device->mem_export(plain); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  CHECK(code_of([&] { device->mem_export(shared + 1000); }) != "");
  CHECK(code_of([&] { device->mem_offer(&shared, 1); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  const uint64_t range = device->address_reserve(2 * kPage, 0);
  device->mem_map(range, kPage, &shared, 1);
  device->memset(range, 6, kPage, 0);
  int32_t imported = device->mem_import(kPage, source);
  CHECK(code_of([&] { device->mem_export(imported); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  CHECK(code_of([&] { device->mem_offer(&imported, 1); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  device->mem_map(range + kPage, kPage, &imported, 1);
  CHECK(read(*device.device, range + kPage, kPage) == std::vector<uint8_t>(kPage, 6));
  CHECK(device.free_bytes() == 62 * kMiB - kPage);

  DescriptorAddress wrong = source;
  wrong.token[0] = wrong.token[0] == '0' ? '1' : '0';
  CHECK(code_of([&] { device->mem_import(kPage, wrong); }) == "ERR_CUDALLOC_USE_AFTER_FREE");
  wrong = source;
  wrong.process = 0x3fffffff;
  CHECK(code_of([&] { device->mem_import(kPage, wrong); }) == "ERR_CUDALLOC_USE_AFTER_FREE");
  // Given up, but still mapped: it can be exported no more, and goes with its mapping.
  int32_t given = shared;
  device->mem_release(&given, 1);
  CHECK(code_of([&] { device->mem_export(shared); }) != "");
  device->mem_unmap(range, kPage, 1);
  CHECK(code_of([&] { device->mem_import(kPage, source); }) == "ERR_CUDALLOC_USE_AFTER_FREE");
  CHECK(device.free_bytes() == 62 * kMiB);
  CHECK(read(*device.device, range + kPage, kPage) == std::vector<uint8_t>(kPage, 6));
}

}  // namespace cudalloc::test

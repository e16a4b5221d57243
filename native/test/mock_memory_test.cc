// The mock's memory: real bytes at any capacity, faults where CUDA has none to give, the kernel's limit on
// mappings.
#include <cstdio>
#include <cstring>
#include <string>

#include "mock/range_allocator.h"
#include "mock_device.h"

namespace cudalloc::test {
namespace {

/** Resident memory of this process, bytes; pages of shared files included. */
uint64_t resident_bytes() {
  unsigned long long total = 0, resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  REQUIRE(file != nullptr);
  REQUIRE(std::fscanf(file, "%llu %llu", &total, &resident) == 2);
  std::fclose(file);
  return resident * 4096;
}

uint64_t mapping_count() {
  FILE* file = std::fopen("/proc/self/maps", "r");
  REQUIRE(file != nullptr);
  uint64_t lines = 0;
  for (int c; (c = std::fgetc(file)) != EOF;) lines += c == '\n';
  std::fclose(file);
  return lines;
}

}  // namespace

TEST_CASE("ranges: lowest first, aligned, neighbours merge") {
  mock::RangeAllocator ranges(100);
  CHECK(ranges.take(10, 1) == 0u);
  CHECK(ranges.take(10, 16) == 16u);
  CHECK(ranges.take(6, 1) == 10u);
  CHECK(ranges.take(75, 1) == std::nullopt);
  CHECK(ranges.take(74, 1) == 26u);
  CHECK(ranges.take(1, 1) == std::nullopt);
  ranges.give(16, 10);
  ranges.give(0, 10);
  ranges.give(10, 6);
  CHECK(ranges.take(26, 1) == 0u);
}

TEST_CASE("an 80 GiB device on a small machine") {
  constexpr uint64_t kCard = uint64_t{80} << 30;
  MockDevice device(kCard);
  size_t total = 0;
  CHECK(cuda().cuDeviceTotalMem(&total, device.index) == CUDA_SUCCESS);
  CHECK(total == kCard);
  const uint64_t before = resident_bytes();
  const CUdeviceptr all = device.malloc(kCard);
  CHECK(device.free_bytes() == 0);
  for (uint64_t offset = 0; offset < kCard; offset += uint64_t{1} << 30) {
    CHECK(write(all + offset, pattern(64, static_cast<uint8_t>(offset >> 30))) == CUDA_SUCCESS);
  }
  std::vector<uint8_t> bytes(64);
  CHECK(read(all + kCard - 64, bytes) == CUDA_SUCCESS);
  CHECK(bytes == std::vector<uint8_t>(64, 0));
  CHECK(read(all + (uint64_t{79} << 30), bytes) == CUDA_SUCCESS);
  CHECK(bytes == pattern(64, 79));
  CHECK(resident_bytes() < before + 64 * kMiB);
}

TEST_CASE("cudaMalloc memory is real, faults beyond its pages and after it is freed") {
  MockDevice device;
  const CUdeviceptr address = device.malloc(3 * kMiB);
  std::memset(reinterpret_cast<void*>(address), 0x5A, 3 * kMiB);
  std::vector<uint8_t> bytes(3 * kMiB);
  CHECK(read(address, bytes) == CUDA_SUCCESS);
  CHECK(bytes == std::vector<uint8_t>(3 * kMiB, 0x5A));
  CHECK(!faults(address + 3 * kMiB - 1, true));
  CHECK(faults(address + 3 * kMiB, false));
  REQUIRE(cuda().cuMemFree(address) == CUDA_SUCCESS);
  CHECK(faults(address, false));
  // Reused lowest first, as zeros, and the old memory is gone from the machine.
  const CUdeviceptr again = device.malloc(3 * kMiB);
  CHECK(again == address);
  CHECK(read(again, bytes) == CUDA_SUCCESS);
  CHECK(bytes == std::vector<uint8_t>(3 * kMiB, 0));
}

TEST_CASE("freed memory goes back to the machine") {
  MockDevice device(uint64_t{1} << 30);
  const uint64_t before = resident_bytes();
  const CUdeviceptr address = device.malloc(64 * kMiB);
  REQUIRE(cuda().cuMemsetD8Async(address, 1, 64 * kMiB, nullptr) == CUDA_SUCCESS);
  CHECK(resident_bytes() >= before + 60 * kMiB);
  REQUIRE(cuda().cuMemFree(address) == CUDA_SUCCESS);
  CHECK(resident_bytes() < before + 16 * kMiB);
}

TEST_CASE("released handles come back as zeros") {
  MockDevice device;
  Range range(kPage);
  auto handle = create_handle(kPage, device.index);
  map_with_access(range.at(), kPage, handle, device.index);
  REQUIRE(write(range.at(), pattern(kPage, 1)) == CUDA_SUCCESS);
  REQUIRE(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  REQUIRE(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
  const auto next = create_handle(kPage, device.index);
  CHECK(next != handle);
  map_with_access(range.at(), kPage, next, device.index);
  std::vector<uint8_t> bytes(kPage, 1);
  CHECK(read(range.at(), bytes) == CUDA_SUCCESS);
  CHECK(bytes == std::vector<uint8_t>(kPage, 0));
  REQUIRE(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  REQUIRE(cuda().cuMemRelease(next) == CUDA_SUCCESS);
}

TEST_CASE("neighbouring mappings of neighbouring memory are one mapping of the kernel") {
  constexpr uint64_t kPages = 1000;
  MockDevice device(kPages * kPage);
  Range range(kPages * kPage);
  std::vector<CUmemGenericAllocationHandle> handles;
  const uint64_t before = mapping_count();
  for (uint64_t i = 0; i < kPages; ++i) {
    handles.push_back(create_handle(kPage, device.index));
    REQUIRE(cuda().cuMemMap(range.at(i * kPage), kPage, 0, handles.back(), 0) == CUDA_SUCCESS);
  }
  const CUmemAccessDesc access = access_for(device.index);
  REQUIRE(cuda().cuMemSetAccess(range.at(), kPages * kPage, &access, 1) == CUDA_SUCCESS);
  CHECK(mapping_count() < before + 20);
  REQUIRE(cuda().cuMemUnmap(range.at(), kPages * kPage) == CUDA_SUCCESS);
  for (const auto handle : handles) REQUIRE(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("the kernel's limit on mappings is a named error, and freeing gets away from it") {
  constexpr uint64_t kPages = 4000;
  MockDevice device(kPages * kPage);
  Range range(2 * kPages * kPage);
  std::vector<CUmemGenericAllocationHandle> handles;
  for (uint64_t i = 0; i < kPages; ++i) handles.push_back(create_handle(kPage, device.index));
  mock::set_mapping_limit(mapping_count() + 2048 + 1000);
  CUresult result = CUDA_SUCCESS;
  uint64_t mapped = 0;
  // Every other page, so that nothing merges.
  while (mapped < kPages && result == CUDA_SUCCESS) {
    result = cuda().cuMemMap(range.at(2 * mapped * kPage), kPage, 0, handles[mapped], 0);
    if (result == CUDA_SUCCESS) ++mapped;
  }
  CHECK(result == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(mapped > 100);
  CHECK(mapped < kPages);
  const char* text = nullptr;
  CHECK(cuda().cuGetErrorString(result, &text) == CUDA_SUCCESS);
  CHECK(std::string(text).find("vm.max_map_count") != std::string::npos);
  for (uint64_t i = 0; i < mapped; ++i)
    CHECK(cuda().cuMemUnmap(range.at(2 * i * kPage), kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemMap(range.at(), kPage, 0, handles[0], 0) == CUDA_SUCCESS);
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  mock::set_mapping_limit(0);
  for (const auto handle : handles) CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("at the limit, what fails has changed nothing") {
  MockDevice device;
  Range range(kPage);
  const auto handle = create_handle(kPage, device.index);
  REQUIRE(cuda().cuMemMap(range.at(), kPage, 0, handle, 0) == CUDA_SUCCESS);
  const CUdeviceptr block = device.malloc(kPage);
  const uint64_t free = device.free_bytes();
  const CUmemAccessDesc access = access_for(device.index);
  CUdeviceptr address = 0;
  std::vector<uint8_t> bytes(16);
  mock::set_mapping_limit(1);
  CHECK(cuda().cuMemSetAccess(range.at(), kPage, &access, 1) == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(read(range.at(), bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAlloc(&address, kMiB) == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(cuda().cuMemAddressReserve(&address, kPage, 0, 0, 0) == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(device.free_bytes() == free);
  CHECK(cuda().cuMemFree(block) == CUDA_SUCCESS);
  mock::set_mapping_limit(0);
  CHECK(cuda().cuMemSetAccess(range.at(), kPage, &access, 1) == CUDA_SUCCESS);
  CHECK(read(range.at(), bytes) == CUDA_SUCCESS);
  CHECK(device.malloc(kPage) == block);
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("the kernel's own limit is met before it is hit") {
  constexpr uint64_t kPages = 40000;
  MockDevice device(kPages * kPage);
  Range range(2 * kPages * kPage);
  const auto handle = create_handle(kPage, device.index);
  CUresult result = CUDA_SUCCESS;
  uint64_t mapped = 0;
  for (; mapped < kPages && result == CUDA_SUCCESS; ++mapped) {
    result = cuda().cuMemMap(range.at(2 * mapped * kPage), kPage, 0, handle, 0);
  }
  if (result == CUDA_SUCCESS) {
    MESSAGE("this kernel allows so many mappings that the limit is not reached");
  } else {
    CHECK(result == CUDA_ERROR_OPERATING_SYSTEM);
  }
  // The process still works.
  CHECK(std::vector<char>(100 * kMiB, 1).back() == 1);
}

TEST_CASE("alignment: pages for small allocations, 2 MiB for large ones; neighbours lie side by side") {
  MockDevice device;
  CHECK(device.malloc(1) % 512 == 0);
  CHECK(device.malloc(1000) % 512 == 0);
  const CUdeviceptr first = device.malloc(2 * kPage);
  CHECK(first % kPage == 0);
  CHECK(device.malloc(kPage) == first + 2 * kPage);
}

TEST_CASE("fragmented memory of the device is no reason to fail") {
  MockDevice device(16 * kPage);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(device.malloc(kPage));
  for (size_t i = 0; i < 16; i += 2) REQUIRE(cuda().cuMemFree(blocks[i]) == CUDA_SUCCESS);
  // Half of the device is free in pieces; the driver maps pieces together, so a large request fits.
  const CUdeviceptr large = device.malloc(8 * kPage);
  CHECK(write(large, pattern(8 * kPage, 1)) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == 0);
}

}  // namespace cudalloc::test

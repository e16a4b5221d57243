// Rules of virtual memory management.
#include <doctest/doctest.h>

#include "fixture.h"

namespace cudalloc::test {

TEST_CASE("granularity is asked of a property") {
  OnDevice device;
  size_t granularity = 0;
  CUmemAllocationProp prop = memory_on(0);
  CHECK(cuda().cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
        CUDA_SUCCESS);
  CHECK(granularity == kPage);
  CHECK(cuda().cuMemGetAllocationGranularity(nullptr, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemGetAllocationGranularity(&granularity, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  prop.location.id = 99;
  CHECK(cuda().cuMemGetAllocationGranularity(&granularity, &prop, 0) != CUDA_SUCCESS);
}

TEST_CASE("address ranges: arguments, alignment, freed whole and once") {
  OnDevice device;
  CUdeviceptr address = 0;
  CHECK(cuda().cuMemAddressReserve(nullptr, kPage, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAddressReserve(&address, 0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAddressReserve(&address, 1000, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAddressReserve(&address, kPage, 3 * kPage, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAddressReserve(&address, kPage, 0, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  const uint64_t bytes = uint64_t{90} << 30;
  REQUIRE(cuda().cuMemAddressReserve(&address, bytes, uint64_t{1} << 30, 0, 0) == CUDA_SUCCESS);
  CHECK(address % (uint64_t{1} << 30) == 0);
  CHECK(cuda().cuMemAddressFree(address, bytes - kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAddressFree(address + kPage, bytes - kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAddressFree(address, bytes) == CUDA_SUCCESS);
  CHECK(cuda().cuMemAddressFree(address, bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAddressReserve(&address, uint64_t{1} << 60, 0, 0, 0) != CUDA_SUCCESS);
}

TEST_CASE("handles: arguments, counted memory, released once") {
  OnDevice device;
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp prop = memory_on(0);
  CHECK(cuda().cuMemCreate(nullptr, kPage, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemCreate(&handle, kPage, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemCreate(&handle, 0, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemCreate(&handle, kMiB, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemCreate(&handle, kPage, &prop, 1) == CUDA_ERROR_INVALID_VALUE);
  prop.type = 0;
  CHECK(cuda().cuMemCreate(&handle, kPage, &prop, 0) == CUDA_ERROR_INVALID_VALUE);
  prop = memory_on(99);
  CHECK(cuda().cuMemCreate(&handle, kPage, &prop, 0) == CUDA_ERROR_INVALID_DEVICE);
  prop = memory_on(0);
  size_t free = 0, total = 0;
  cuda().cuMemGetInfo(&free, &total);
  CHECK(cuda().cuMemCreate(&handle, (total / kPage + 1) * kPage, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(cuda().cuMemCreate(&handle, 3 * kPage, &prop, 0) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == free - 3 * kPage);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == free);
  if (is_standin()) CHECK(cuda().cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("mapping takes the whole handle, offset 0, aligned, into a reserved and unmapped range") {
  OnDevice device;
  Range range(8 * kPage);
  const auto handle = create_handle(2 * kPage);
  CHECK(cuda().cuMemMap(range.at(), 2 * kPage, kPage, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemMap(range.at(), 2 * kPage, 0, handle, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemMap(range.at(kMiB), 2 * kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemMap(range.at(), 3 * kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  if (is_standin()) {
    CHECK(cuda().cuMemMap(range.at(), kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemMap(range.at(7 * kPage), 2 * kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemMap(range.at(8 * kPage), 2 * kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemMap(kPage, 2 * kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemMap(range.at(), 2 * kPage, 0, handle + 1000, 0) == CUDA_ERROR_INVALID_VALUE);
  }
  REQUIRE(cuda().cuMemMap(range.at(2 * kPage), 2 * kPage, 0, handle, 0) == CUDA_SUCCESS);
  const auto another = create_handle(2 * kPage);
  for (const uint64_t page : {1, 2, 3}) {
    CHECK(cuda().cuMemMap(range.at(page * kPage), 2 * kPage, 0, another, 0) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuda().cuMemMap(range.at(), 2 * kPage, 0, another, 0) == CUDA_SUCCESS);
  CHECK(cuda().cuMemMap(range.at(4 * kPage), 2 * kPage, 0, another, 0) == CUDA_SUCCESS);
  for (const uint64_t page : {0, 2, 4})
    CHECK(cuda().cuMemUnmap(range.at(page * kPage), 2 * kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(another) == CUDA_SUCCESS);
}

TEST_CASE("no access before it is set, none left after unmapping") {
  OnDevice device;
  Range range(4 * kPage);
  const auto handle = create_handle(kPage);
  std::vector<uint8_t> bytes(64);
  const CUmemAccessDesc access = access_for(0);
  CHECK(cuda().cuMemSetAccess(range.at(), kPage, &access, 1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuda().cuMemMap(range.at(kPage), kPage, 0, handle, 0) == CUDA_SUCCESS);
  if (is_standin()) {
    CHECK(write(range.at(kPage), bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(read(range.at(kPage), bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(faults(range.at(kPage), false));
    CHECK(cuda().cuMemSetAccess(range.at(kPage), kPage, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemSetAccess(range.at(kPage), kPage, &access, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemSetAccess(range.at(kPage), kMiB, &access, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemSetAccess(range.at(kPage), 2 * kPage, &access, 1) == CUDA_ERROR_INVALID_VALUE);
    const CUmemAccessDesc nowhere = access_for(99), odd = access_for(0, 2);
    CHECK(cuda().cuMemSetAccess(range.at(kPage), kPage, &nowhere, 1) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuda().cuMemSetAccess(range.at(kPage), kPage, &odd, 1) == CUDA_ERROR_INVALID_VALUE);
  }
  REQUIRE(cuda().cuMemSetAccess(range.at(kPage), kPage, &access, 1) == CUDA_SUCCESS);
  CHECK(write(range.at(kPage), pattern(64, 1)) == CUDA_SUCCESS);
  CHECK(read(range.at(kPage), bytes) == CUDA_SUCCESS);
  CHECK(bytes == pattern(64, 1));
  if (is_standin()) {
    CHECK(!faults(range.at(kPage), true));
    CHECK(faults(range.at(2 * kPage), false));
    CHECK(write(range.at(2 * kPage - 1), bytes) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuda().cuMemUnmap(range.at(kPage), kPage) == CUDA_SUCCESS);
  CHECK(read(range.at(kPage), bytes) != CUDA_SUCCESS);
  if (is_standin()) CHECK(faults(range.at(kPage), false));
  REQUIRE(cuda().cuMemMap(range.at(kPage), kPage, 0, handle, 0) == CUDA_SUCCESS);
  if (is_standin()) CHECK(read(range.at(kPage), bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemUnmap(range.at(kPage), kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("read-only and withdrawn access") {
  if (!is_standin()) return;
  OnDevice device;
  Range range(kPage);
  const auto handle = create_handle(kPage);
  map_with_access(range.at(), kPage, handle);
  REQUIRE(write(range.at(), pattern(16, 4)) == CUDA_SUCCESS);
  const CUmemAccessDesc readable = access_for(0, 1), none = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  REQUIRE(cuda().cuMemSetAccess(range.at(), kPage, &readable, 1) == CUDA_SUCCESS);
  std::vector<uint8_t> bytes(16);
  CHECK(read(range.at(), bytes) == CUDA_SUCCESS);
  CHECK(bytes == pattern(16, 4));
  CHECK(write(range.at(), bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(faults(range.at(), true));
  CHECK(!faults(range.at(), false));
  REQUIRE(cuda().cuMemSetAccess(range.at(), kPage, &none, 1) == CUDA_SUCCESS);
  CHECK(read(range.at(), bytes) == CUDA_ERROR_INVALID_VALUE);
  CHECK(faults(range.at(), false));
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("unmapping takes whole mappings, several at once, without gaps") {
  if (!is_standin()) return;
  OnDevice device;
  Range range(8 * kPage);
  const auto one = create_handle(2 * kPage), two = create_handle(kPage), three = create_handle(kPage);
  map_with_access(range.at(), 2 * kPage, one);
  map_with_access(range.at(2 * kPage), kPage, two);
  map_with_access(range.at(4 * kPage), kPage, three);
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemUnmap(range.at(kPage), kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemUnmap(range.at(), 5 * kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemUnmap(range.at(3 * kPage), kPage) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemUnmap(range.at(), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuMemAddressFree(range.at(), range.bytes()) == CUDA_ERROR_INVALID_VALUE);
  CHECK(write(range.at(), pattern(3 * kPage, 1)) == CUDA_SUCCESS);
  CHECK(cuda().cuMemUnmap(range.at(), 3 * kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemUnmap(range.at(4 * kPage), kPage) == CUDA_SUCCESS);
  for (const auto handle : {one, two, three}) CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("one handle at two addresses shows the same bytes; data survives remapping") {
  OnDevice device;
  Range range(8 * kPage);
  const auto handle = create_handle(kPage), filler = create_handle(kPage);
  map_with_access(range.at(), kPage, handle);
  map_with_access(range.at(4 * kPage), kPage, handle);
  const auto bytes = pattern(kPage, 11);
  std::vector<uint8_t> back(kPage);
  CHECK(write(range.at(), bytes) == CUDA_SUCCESS);
  CHECK(read(range.at(4 * kPage), back) == CUDA_SUCCESS);
  CHECK(back == bytes);
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemUnmap(range.at(4 * kPage), kPage) == CUDA_SUCCESS);
  map_with_access(range.at(), kPage, filler);
  map_with_access(range.at(7 * kPage), kPage, handle);
  CHECK(read(range.at(7 * kPage), back) == CUDA_SUCCESS);
  CHECK(back == bytes);
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemUnmap(range.at(7 * kPage), kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(filler) == CUDA_SUCCESS);
}

TEST_CASE("memory comes back when the handle is released and unmapped everywhere, in either order") {
  OnDevice device;
  const uint64_t free = device.free_bytes();
  Range range(4 * kPage);
  const auto handle = create_handle(kPage);
  map_with_access(range.at(), kPage, handle);
  map_with_access(range.at(kPage), kPage, handle);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
  if (is_standin()) {
    CHECK(cuda().cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuMemMap(range.at(2 * kPage), kPage, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(device.free_bytes() == free - kPage);
  CHECK(write(range.at(), pattern(kPage, 2)) == CUDA_SUCCESS);
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == free - kPage);
  CHECK(cuda().cuMemUnmap(range.at(kPage), kPage) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == free);
}

TEST_CASE("access of another device is its own matter") {
  if (!is_standin() || device_count() < 2) return;
  OnDevice other(1);
  OnDevice device(0);
  Range range(kPage);
  const auto handle = create_handle(kPage, 1);  // memory of device 1
  REQUIRE(cuda().cuMemMap(range.at(), kPage, 0, handle, 0) == CUDA_SUCCESS);
  const CUmemAccessDesc own = access_for(1);
  REQUIRE(cuda().cuMemSetAccess(range.at(), kPage, &own, 1) == CUDA_SUCCESS);
  CHECK(write(range.at(), pattern(64, 1)) == CUDA_ERROR_INVALID_VALUE);
  // Peer access of the contexts does not cover mapped memory; the mapping's own list does.
  REQUIRE(cuda().cuCtxEnablePeerAccess(other.context(), 0) == CUDA_SUCCESS);
  CHECK(write(range.at(), pattern(64, 1)) == CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc both[] = {access_for(0), access_for(1)};
  REQUIRE(cuda().cuMemSetAccess(range.at(), kPage, both, 2) == CUDA_SUCCESS);
  CHECK(write(range.at(), pattern(64, 1)) == CUDA_SUCCESS);
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

}  // namespace cudalloc::test

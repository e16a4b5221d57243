// Rules of memory that processes share.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "fixture.h"

namespace cudalloc::test {
namespace {

constexpr int kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

bool can_share() {
  int supported = 0;
  return cuda().cuMemExportToShareableHandle != nullptr &&
         cuda().cuDeviceGetAttribute(&supported,
                                     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                     0) == CUDA_SUCCESS &&
         supported != 0;
}

CUmemGenericAllocationHandle create_shareable(uint64_t bytes) {
  CUmemAllocationProp prop = memory_on(0);
  prop.requestedHandleTypes = kDescriptor;
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(cuda().cuMemCreate(&handle, bytes, &prop, 0) == CUDA_SUCCESS);
  return handle;
}

int export_handle(CUmemGenericAllocationHandle handle) {
  int descriptor = -1;
  REQUIRE(cuda().cuMemExportToShareableHandle(&descriptor, handle, kDescriptor, 0) == CUDA_SUCCESS);
  REQUIRE(descriptor >= 0);
  return descriptor;
}

CUresult import_handle(CUmemGenericAllocationHandle* handle, int descriptor, int type = kDescriptor) {
  return cuda().cuMemImportFromShareableHandle(
      handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)), type);
}

void unmap_and_release(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle) {
  CHECK(cuda().cuMemUnmap(address, bytes) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

}  // namespace

TEST_CASE("what is imported is the memory that was exported") {
  OnDevice device;
  if (!can_share()) return;
  Range range(4 * kPage);
  const auto handle = create_shareable(2 * kPage);
  map_with_access(range.at(), 2 * kPage, handle);
  const int descriptor = export_handle(handle);
  CUmemGenericAllocationHandle imported = 0;
  REQUIRE(import_handle(&imported, descriptor) == CUDA_SUCCESS);
  CHECK(close(descriptor) == 0);
  map_with_access(range.at(2 * kPage), 2 * kPage, imported);
  const auto bytes = pattern(2 * kPage, 21);
  std::vector<uint8_t> back(bytes.size());
  CHECK(write(range.at(), bytes) == CUDA_SUCCESS);
  CHECK(read(range.at(2 * kPage), back) == CUDA_SUCCESS);
  CHECK(back == bytes);
  // It outlives the handle that it was exported from.
  unmap_and_release(range.at(), 2 * kPage, handle);
  back.assign(bytes.size(), 0);
  CHECK(read(range.at(2 * kPage), back) == CUDA_SUCCESS);
  CHECK(back == bytes);
  unmap_and_release(range.at(2 * kPage), 2 * kPage, imported);
}

TEST_CASE("a handle can be exported and imported again, each time for itself") {
  OnDevice device;
  if (!can_share()) return;
  const auto handle = create_shareable(kPage);
  const int first = export_handle(handle);
  CHECK(close(first) == 0);
  const int second = export_handle(handle);
  CUmemGenericAllocationHandle one = 0, two = 0;
  REQUIRE(import_handle(&one, second) == CUDA_SUCCESS);
  REQUIRE(import_handle(&two, second) == CUDA_SUCCESS);
  CHECK(close(second) == 0);
  CHECK(cuda().cuMemRelease(one) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(two) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

TEST_CASE("arguments of exporting and importing") {
  OnDevice device;
  if (!can_share() || !is_standin()) return;
  const auto handle = create_shareable(kPage), plain = create_handle(kPage);
  int descriptor = -1;
  const auto exported = [&](void* to, CUmemGenericAllocationHandle from, int type, unsigned flags) {
    return cuda().cuMemExportToShareableHandle(to, from, type, flags);
  };
  CHECK(exported(nullptr, handle, kDescriptor, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(exported(&descriptor, handle, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(exported(&descriptor, handle, kDescriptor, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(exported(&descriptor, handle + 1000, kDescriptor, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(exported(&descriptor, plain, kDescriptor, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(descriptor == -1);
  descriptor = export_handle(handle);
  CUmemGenericAllocationHandle imported = 0;
  CHECK(import_handle(nullptr, descriptor) == CUDA_ERROR_INVALID_VALUE);
  CHECK(import_handle(&imported, descriptor, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(import_handle(&imported, -1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(import_handle(&imported, 987654) == CUDA_ERROR_INVALID_VALUE);
  const int null = open("/dev/null", O_RDWR);
  CHECK(import_handle(&imported, null) == CUDA_ERROR_INVALID_VALUE);
  CHECK(imported == 0);
  close(null);
  close(descriptor);
  CUmemAllocationProp prop = memory_on(0);
  prop.requestedHandleTypes = 2;
  CHECK(cuda().cuMemCreate(&imported, kPage, &prop, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuda().cuMemRelease(plain) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(exported(&descriptor, handle, kDescriptor, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory counts where it was made, once, until it is released there") {
  OnDevice device;
  if (!can_share() || !is_standin()) return;
  const uint64_t free = device.free_bytes();
  const auto handle = create_shareable(3 * kPage);
  CHECK(device.free_bytes() == free - 3 * kPage);
  const int descriptor = export_handle(handle);
  CUmemGenericAllocationHandle imported = 0;
  REQUIRE(import_handle(&imported, descriptor) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == free - 3 * kPage);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == free);
  CHECK(cuda().cuMemRelease(imported) == CUDA_SUCCESS);
  CHECK(device.free_bytes() == free);
  CHECK(close(descriptor) == 0);
}

}  // namespace cudalloc::test

// Runs of pages are all or nothing: a failure is injected at every driver call of each operation, then the
// state is checked and the operation done again.
#include <numeric>
#include <vector>

#include "opened_device.h"

namespace cudalloc::test {
namespace {

constexpr int kPages = 4;

struct Fixture {
  Opened device;
  uint64_t range = device->address_reserve(8 * kPage, 0);
  std::vector<int32_t> pages = std::vector<int32_t>(kPages, -1);

  void create() { device->mem_create(kPage, pages.data(), pages.size()); }
  void map() { device->mem_map(range, kPage, pages.data(), pages.size()); }
  void unmap() { device->mem_unmap(range, kPage, pages.size()); }
  void release() { device->mem_release(pages.data(), pages.size()); }
  void stamp() {
    for (int i = 0; i < kPages; ++i)
      device->memset(range + i * kPage, static_cast<uint8_t>(0x10 + i), kPage, 0);
  }
  bool stamped() {
    for (int i = 0; i < kPages; ++i) {
      uint8_t bytes[2];
      device->memcpy_dtoh(&bytes[0], range + i * kPage, 1, 0);
      device->memcpy_dtoh(&bytes[1], range + (i + 1) * kPage - 1, 1, 0);
      if (bytes[0] != 0x10 + i || bytes[1] != 0x10 + i) return false;
    }
    return true;
  }
  bool readable(int page) {
    uint8_t byte;
    return code_of([&] { device->memcpy_dtoh(&byte, range + page * kPage, 1, 0); }).empty();
  }
  /** The bytes of the device that are in use. */
  uint64_t used() const { return 64 * kMiB - device.free_bytes(); }
};

/**
 * Does `operation` with a failure at its 1st, 2nd, ... driver call until it gets through without meeting one.
 * @return positions at which a failure was injected.
 */
template <class Operation, class Check>
int fail_everywhere(Fixture& fixture, CUresult error, Operation&& operation, Check&& check) {
  for (int position = 1;; ++position) {
    REQUIRE(position < 100);
    CAPTURE(position);
    REQUIRE(mock::fail_nth(fixture.device.index, "*", static_cast<uint64_t>(position), error));
    const std::string code = code_of(operation);
    mock::clear_failures(fixture.device.index);
    if (code.empty()) return position - 1;
    CHECK(code == "ERR_CUDALLOC_DRIVER");
    check();
  }
}

}  // namespace

TEST_CASE("creating pages") {
  Fixture f;
  const int positions = fail_everywhere(
      f, CUDA_ERROR_OUT_OF_MEMORY, [&] { f.create(); },
      [&] {
        CHECK(f.used() == 0);
        CHECK(f.pages == std::vector<int32_t>(kPages, -1));
      });
  CHECK(positions >= kPages);
  CHECK(f.used() == kPages * kPage);
  f.map();
  f.stamp();
  CHECK(f.stamped());
}

TEST_CASE("mapping pages") {
  Fixture f;
  f.create();
  const auto pages = f.pages;
  const int positions = fail_everywhere(
      f, CUDA_ERROR_OPERATING_SYSTEM, [&] { f.map(); },
      [&] {
        for (int i = 0; i < kPages; ++i) CHECK(!f.readable(i));
        CHECK(f.pages == pages);
        CHECK(f.used() == kPages * kPage);
      });
  CHECK(positions >= kPages + 1);  // each mapping, and setting access
  f.stamp();
  CHECK(f.stamped());
  f.unmap();
  f.release();
  CHECK(f.used() == 0);
}

TEST_CASE("unmapping pages") {
  Fixture f;
  f.create();
  f.map();
  f.stamp();
  const int positions = fail_everywhere(
      f, CUDA_ERROR_UNKNOWN, [&] { f.unmap(); },
      [&] {
        CHECK(f.stamped());
        CHECK(f.used() == kPages * kPage);
      });
  CHECK(positions >= kPages);
  for (int i = 0; i < kPages; ++i) CHECK(!f.readable(i));
  f.map();
  CHECK(f.stamped());
}

TEST_CASE("releasing pages goes on where it stopped") {
  Fixture f;
  f.create();
  for (int released = 0; released < kPages; ++released) {
    mock::fail_nth(f.device.index, "cuMemRelease", 2, CUDA_ERROR_UNKNOWN);
    const std::string code = code_of([&] { f.release(); });
    mock::clear_failures(f.device.index);
    CHECK(code == (released + 1 < kPages ? "ERR_CUDALLOC_DRIVER" : ""));
    for (int i = 0; i < kPages; ++i) CHECK((f.pages[i] == -1) == (i <= released));
    CHECK(f.used() == (kPages - 1 - static_cast<uint64_t>(released)) * kPage);
  }
  f.release();
  CHECK(f.used() == 0);
}

TEST_CASE("pages released while mapped are usable until unmapped") {
  Fixture f;
  f.create();
  f.map();
  f.stamp();
  f.release();
  CHECK(f.pages == std::vector<int32_t>(kPages, -1));
  CHECK(f.stamped());
  CHECK(f.used() == kPages * kPage);
  f.unmap();
  CHECK(f.used() == 0);
}

TEST_CASE("what cannot be is refused before the driver is asked") {
  Fixture f;
  f.create();
  f.map();
  const uint64_t calls = f.device.calls("cuMemMap");
  const std::string invalid = "ERR_CUDALLOC_INVALID_ADDRESS";
  CHECK(code_of([&] { f.map(); }) == invalid);
  CHECK(code_of([&] { f.device->mem_map(f.range + 6 * kPage, kPage, f.pages.data(), kPages); }) == invalid);
  CHECK(code_of([&] { f.device->mem_unmap(f.range + kPage / 2, kPage, 1); }) == invalid);
  CHECK(code_of([&] { f.device->mem_unmap(f.range, kPage, kPages + 1); }) == invalid);
  CHECK(code_of([&] { f.device->address_free(f.range, 8 * kPage); }) == invalid);
  CHECK(code_of([&] { f.device->address_free(f.range + kPage, kPage); }) == invalid);
  int32_t unknown[1] = {1 << 30};
  CHECK(code_of([&] { f.device->mem_map(f.range + 5 * kPage, kPage, unknown, 1); }) == invalid);
  CHECK(f.device.calls("cuMemMap") == calls);
  CHECK(f.device.calls("cuMemUnmap") == 0);
  CHECK(f.device.calls("cuMemAddressFree_failed") == 0);
}

TEST_CASE("two threads of a process: pages made by one, mapped by both") {
  Fixture f;
  f.create();
  f.map();
  f.stamp();
  Device other(f.device.options());
  const uint64_t range = other.address_reserve(kPages * kPage, 0);
  other.mem_map(range, kPage, f.pages.data(), kPages);
  uint8_t byte = 0;
  other.memcpy_dtoh(&byte, range + 2 * kPage, 1, 0);
  CHECK(byte == 0x12);
  CHECK(code_of([&] { other.mem_unmap(f.range, kPage, 1); }) == "ERR_CUDALLOC_INVALID_ADDRESS");
  f.device->close();
  other.memcpy_dtoh(&byte, range + 3 * kPage, 1, 0);
  CHECK(byte == 0x13);
  other.close();
}

}  // namespace cudalloc::test

// The device code over a mock device, opened for one test.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "cuda/device.h"
#include "mock/mock.h"

namespace cudalloc::test {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kPage = 2 * kMiB;

/** An opening of a mock device, which is as new when the last one on it has ended. */
class Opened {
 public:
  explicit Opened(uint64_t capacity = 64 * kMiB, int ordinal = -1, Functions functions = mock::functions())
      : functions_(functions) {
    REQUIRE(mock::functions().cuInit(0) == CUDA_SUCCESS);
    bool conflict = false;
    index = mock::acquire_device(ordinal, capacity, &conflict);
    REQUIRE(index >= 0);
    device = std::make_unique<Device>(options());
  }
  ~Opened() {
    device.reset();
    mock::release_device(index);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  Device::Options options(uint64_t capacity = 0) const {
    return Device::Options{&functions_, "mock", index, capacity, "", [] {}};
  }
  Device* operator->() const { return device.get(); }
  uint64_t free_bytes() const {
    uint64_t free = 0, total = 0;
    device->mem_get_info(&free, &total);
    return free;
  }
  uint64_t calls(const std::string& name) const { return mock::counters(index)[name]; }

  int index = -1;
  std::unique_ptr<Device> device;

 private:
  Functions functions_;
};

/** Runs the function. @return the code of the error it throws, or an empty string. */
template <class Function>
std::string code_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return code_name(error.code());
  }
  return "";
}

}  // namespace cudalloc::test

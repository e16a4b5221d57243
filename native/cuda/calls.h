// Names and counts of the functions in the table: every call made for a device is counted under the name that
// CUDA gives it. Must not know what the functions do.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "functions.h"

namespace cudalloc {

enum class Fn : int {
#define X(name, exported, need, params) name,
  CUDALLOC_DRIVER_FUNCTIONS(X)
#undef X
#define X(name, params) name,
      CUDALLOC_RUNTIME_FUNCTIONS(X)
#undef X
          kCount
};

inline constexpr int kFunctionCount = static_cast<int>(Fn::kCount);

inline constexpr const char* kFunctionNames[] = {
#define X(name, exported, need, params) #name,
    CUDALLOC_DRIVER_FUNCTIONS(X)
#undef X
#define X(name, params) #name,
        CUDALLOC_RUNTIME_FUNCTIONS(X)
#undef X
};

inline constexpr const char* name_of(Fn fn) { return kFunctionNames[static_cast<int>(fn)]; }

inline constexpr bool is_runtime(Fn fn) { return fn >= Fn::cudaMalloc; }

// Counts of one opened device. Safe from several threads: copies run on the thread pool.
class CallCounts {
 public:
  void add(Fn fn, bool failed) {
    (failed ? failed_ : made_)[static_cast<int>(fn)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t made(Fn fn) const { return made_[static_cast<int>(fn)].load(std::memory_order_relaxed); }
  uint64_t failed(Fn fn) const { return failed_[static_cast<int>(fn)].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<uint64_t>, kFunctionCount> made_{};
  std::array<std::atomic<uint64_t>, kFunctionCount> failed_{};
};

}  // namespace cudalloc

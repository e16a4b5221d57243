// What a device's book of calls holds: counts and the failures that are to happen. Must not know what the
// functions do.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "../cuda/calls.h"

namespace cudalloc::mock {

/** Fn::kCount when unknown. */
Fn fn_by_name(const std::string& name);
/** Needs no cuInit and says the same on a lost device. */
bool works_always(Fn fn);
/** Only looks after the thread's context and the texts of errors: not hit by the failure of any call (`*`).
 */
bool is_bookkeeping(Fn fn);

/** A failure that is to happen. */
struct Injection {
  Fn fn;                // Fn::kCount: any
  uint64_t calls_left;  // 1: the next call; 0: every call
  CUresult error;
};

/** Counts and planned failures of one device, or of the calls that belong to none. */
struct CallBook {
  std::array<uint64_t, kFunctionCount> succeeded{};
  std::array<uint64_t, kFunctionCount> failed{};
  std::vector<Injection> injections;
  uint64_t unmaps_under_pending_work = 0;

  void count(Fn fn, CUresult result) {
    const bool good = result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY || fn == Fn::cudaGetLastError;
    ++(good ? succeeded : failed)[static_cast<size_t>(fn)];
  }
};

/** Counts planned failures down. @return the error that is due now, or CUDA_SUCCESS. */
CUresult take_due(std::vector<Injection>& injections, Fn fn);

}  // namespace cudalloc::mock

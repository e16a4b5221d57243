// Finds the CUDA driver and runtime on this machine and fills the table from them, once per process and only
// when asked. Nothing is linked: one binary loads everywhere and says what is missing. Must not know devices
// beyond their number.
//
// Environment: CUDALLOC_LIBCUDA names another driver library than libcuda.so.1. CUDALLOC_LIBCUDART names the
// only runtime library to try; empty means none, so that memory comes from cuMemAlloc.
#pragma once

#include <string>
#include <vector>

#include "functions.h"

namespace cudalloc {

struct Driver {
  Functions functions;
  // Names as given to dlopen; empty when not loaded.
  std::string driver_library;
  std::string runtime_library;
  // For example 12040; 0 when unknown.
  int driver_version = 0;
  int runtime_version = 0;
  // Why there is no driver, runtime or device, one sentence each; empty when there is.
  std::string driver_reason;
  std::string runtime_reason;
  std::string device_reason;
  // Functions of the driver's part of the table that the driver does not have.
  std::vector<std::string> missing;
  // 0 when there is no driver or no device.
  int device_count = 0;
};

// Looks for the libraries anew. Never throws. `runtime_names` are tried in order.
Driver load_driver(const std::string& driver_name, const std::vector<std::string>& runtime_names);

// The process's driver; loaded by the first call, which is the only one that costs anything.
const Driver& driver();

}  // namespace cudalloc

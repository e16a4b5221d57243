// What a device is and can do, asked of the driver without opening it.
#pragma once

#include <cstdint>
#include <string>

#include "functions.h"

namespace cudalloc {

struct Feature {
  bool works = true;
  // One sentence; empty when it works.
  std::string reason;
};

struct DeviceProperties {
  std::string name;
  // Lower-case hexadecimal with dashes; empty where the driver cannot say.
  std::string uuid;
  uint64_t total_memory = 0;
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  // Bytes; 0 without virtual memory.
  uint64_t granularity = 0;
  Feature virtual_memory;
  // Pages can be exported to other processes, and imported from them.
  Feature sharing;
  Feature cuda_malloc;
  Feature kernels;
};

// `runtime_reason`: why the table has no cudaMalloc; ignored when it has. Throws NoDevice for an unknown
// ordinal, and Driver.
DeviceProperties device_properties(const Functions& functions, int ordinal,
                                   const std::string& runtime_reason);

// How pages are made and whose memory they are. `shareable`: other processes may get at them.
CUmemAllocationProp page_properties(CUdevice device, bool shareable);

}  // namespace cudalloc

// The CPU twins of the CUDA kernels in this folder: what the mock runs where a GPU would run the kernel.
// Adding a kernel is its .cu file, its twin and one row in registry.cc. Must not know of the mock or of the
// driver.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "../cuda/types.h"

namespace cudalloc {

struct LaunchDimensions {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
};

/** Device memory as a kernel sees it: every access is checked first. */
class TwinMemory {
 public:
  virtual ~TwinMemory() = default;
  /** @return where the bytes are, or null when the kernel may not touch all of them. Linear in mappings
   * covered. */
  virtual void* access(CUdeviceptr address, size_t bytes, bool write) = 0;
};

struct KernelTwin {
  /** The entry's name, as the PTX declares it. */
  const char* name;
  /** Size of each parameter in order, bytes; each is aligned to its size. */
  std::vector<size_t> parameter_bytes;
  /** @return false when it touched memory that it may not (on a GPU: CUDA_ERROR_ILLEGAL_ADDRESS). */
  bool (*run)(const LaunchDimensions& dimensions, void** parameters, TwinMemory& memory);
};

/** @return null when there is no twin of that name. */
const KernelTwin* find_kernel_twin(const std::string& name);

}  // namespace cudalloc

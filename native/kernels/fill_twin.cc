// CPU twin of fill.cu.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "registry.h"

namespace cudalloc {
namespace {

bool run_fill_u32(const LaunchDimensions&, void** parameters, TwinMemory& memory) {
  CUdeviceptr target;
  uint32_t value;
  uint64_t count;
  std::memcpy(&target, parameters[0], sizeof target);
  std::memcpy(&value, parameters[1], sizeof value);
  std::memcpy(&count, parameters[2], sizeof count);
  if (count == 0) return true;
  if (count > SIZE_MAX / sizeof value || target % sizeof value != 0) return false;
  void* words = memory.access(target, count * sizeof value, true);
  if (words == nullptr) return false;
  std::fill_n(static_cast<uint32_t*>(words), count, value);
  return true;
}

}  // namespace

extern const KernelTwin kFillU32Twin;
const KernelTwin kFillU32Twin = {
    "cudalloc_fill_u32", {sizeof(CUdeviceptr), sizeof(uint32_t), sizeof(uint64_t)}, run_fill_u32};

}  // namespace cudalloc

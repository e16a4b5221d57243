// What the conformance tests run on: the table named on the command line, and its device 0 with its context
// current. Must not know which rules are tested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/functions.h"

namespace cudalloc::test {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kPage = 2 * kMiB;
/** Capacity of the stand-ins' devices in these tests. */
inline constexpr uint64_t kCapacity = 256 * kMiB;

/** The table under test. */
const Functions& cuda();
/** The mock or a stand-in library: as strict as the documentation, where a GPU's driver may let things pass.
 */
bool is_standin();
int device_count();

/** A device with its primary context current on this thread. */
class OnDevice {
 public:
  explicit OnDevice(int ordinal = 0);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  CUcontext context() const { return context_; }
  int ordinal() const { return ordinal_; }
  uint64_t free_bytes() const;

 private:
  int ordinal_;
  CUcontext context_ = nullptr;
};

/** Properties of memory on a device. */
CUmemAllocationProp memory_on(int device);
CUmemAccessDesc access_for(int device, int flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

/** A reserved range, freed at the end. */
class Range {
 public:
  explicit Range(uint64_t bytes);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  CUdeviceptr at(uint64_t offset = 0) const { return address_ + offset; }
  uint64_t bytes() const { return bytes_; }

 private:
  CUdeviceptr address_ = 0;
  uint64_t bytes_;
};

CUmemGenericAllocationHandle create_handle(uint64_t bytes, int device = 0);

/** Maps the whole handle and gives `device` access. */
void map_with_access(CUdeviceptr address, uint64_t bytes, CUmemGenericAllocationHandle handle,
                     int device = 0);

std::vector<uint8_t> pattern(uint64_t bytes, uint8_t seed);
/** Blocking copies on the default stream; the first error. */
CUresult write(CUdeviceptr address, const std::vector<uint8_t>& bytes);
CUresult read(CUdeviceptr address, std::vector<uint8_t>& bytes);

/** Whether touching the byte from the CPU raises a fault. Tried in a child process. */
bool faults(CUdeviceptr address, bool write);

}  // namespace cudalloc::test

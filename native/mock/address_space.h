// The operating system underneath: ranges of addresses, files of memory, mappings of one in the other, and
// the kernel's limit on the number of mappings. Not thread-safe: the caller holds the mock's lock. Must not
// know of devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "../cuda/types.h"

namespace cudalloc::mock {

/** Accessibility of a range of addresses for the CPU. */
enum class Protection { kNone, kRead, kReadWrite };

/** A file of memory: touched lazily, zero where untouched. The descriptor is -1 until the first `ensure`. */
class MemoryFile {
 public:
  MemoryFile() = default;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { reset(); }

  /** Makes the file at least so long. CUDA_ERROR_OPERATING_SYSTEM when the system refuses. */
  CUresult ensure(uint64_t bytes);
  /** Gives the memory of a range back; it reads as zeros afterwards. */
  CUresult punch(uint64_t offset, uint64_t bytes);
  void reset();
  /** Leaves the descriptor to the caller. */
  int release() { return std::exchange(descriptor_, -1); }
  int descriptor() const { return descriptor_; }
  uint64_t bytes() const { return bytes_; }

  /** A file of so many bytes that other processes can map, and that stays so long. */
  CUresult make_shareable(uint64_t bytes);
  /** The file that another process, or this one, made so. CUDA_ERROR_INVALID_VALUE for any other descriptor.
   */
  CUresult open_shareable(int descriptor);

 private:
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
};

/** Inaccessible addresses. CUDA_ERROR_OUT_OF_MEMORY when there is no such range. @param hint 0: anywhere. */
CUresult reserve_addresses(uint64_t bytes, uint64_t alignment, uint64_t hint, uint64_t* address);

void release_addresses(uint64_t address, uint64_t bytes);

/** Puts a range of a file at reserved addresses, inaccessible. */
CUresult map_file(uint64_t address, uint64_t bytes, const MemoryFile& file, uint64_t offset);

/** Takes whatever is mapped away; the addresses stay reserved. */
CUresult unmap_file(uint64_t address, uint64_t bytes);

CUresult protect(uint64_t address, uint64_t bytes, Protection protection);

/** The process may have so many mappings, instead of what the kernel allows; 0: the kernel's. */
void limit_mappings(uint64_t limit);

/** What the last CUDA_ERROR_OPERATING_SYSTEM of this thread was, in one clause; null before the first. */
const char* last_system_error();

}  // namespace cudalloc::mock

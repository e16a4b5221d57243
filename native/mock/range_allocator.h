// First-fit allocator of numbers (file offsets): the lowest free range that fits, so that what is made in a
// row lies in a row. Knows nothing of what the numbers stand for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace cudalloc::mock {

class RangeAllocator {
 public:
  explicit RangeAllocator(uint64_t size) : size_(size) { free_.emplace(0, size); }

  /** Lowest free range. Linear in free ranges. @param alignment a power of two. */
  std::optional<uint64_t> take(uint64_t bytes, uint64_t alignment);

  /** Gives a range back. Logarithmic. */
  void give(uint64_t offset, uint64_t bytes);

  uint64_t size() const { return size_; }

 private:
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, neighbours merged
  uint64_t size_;
};

}  // namespace cudalloc::mock

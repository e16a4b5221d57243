#include "range_allocator.h"

#include <iterator>

namespace cudalloc::mock {

std::optional<uint64_t> RangeAllocator::take(uint64_t bytes, uint64_t alignment) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const uint64_t begin = it->first;
    const uint64_t end = begin + it->second;
    const uint64_t start = (begin + alignment - 1) & ~(alignment - 1);
    if (start >= end || end - start < bytes) continue;
    free_.erase(it);
    if (start > begin) free_.emplace(begin, start - begin);
    if (start + bytes < end) free_.emplace(start + bytes, end - start - bytes);
    return start;
  }
  return std::nullopt;
}

void RangeAllocator::give(uint64_t offset, uint64_t bytes) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace_hint(next, offset, bytes);
}

}  // namespace cudalloc::mock

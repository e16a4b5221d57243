#include "address_space.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace cudalloc::mock {
namespace {

thread_local const char* system_error = nullptr;

CUresult fail(const char* reason) {
  system_error = reason;
  return CUDA_ERROR_OPERATING_SYSTEM;
}

constexpr const char* kMappingLimitReason =
    "the process has reached the kernel's limit on memory mappings (vm.max_map_count)";

/**
 * Counts the mappings that may still be made. Asking the kernel costs a read of /proc/self/maps, so it is
 * asked only when as many changes have been made as could, at worst, have used up what was left. The head
 * room is for everybody else in the process: with none left, a thread or a malloc would fail instead of us.
 */
class MappingBudget {
 public:
  bool take() {
    if (changes_left_ == 0) refill();
    if (changes_left_ == 0) return false;
    --changes_left_;
    return true;
  }

  /** For changes that give something back: they may use the head room, or nobody could get away from the
   * limit. */
  void count_only() {
    if (changes_left_ > 0) --changes_left_;
  }

  void set_limit(uint64_t limit) {
    limit_ = limit;
    changes_left_ = 0;
  }

 private:
  static constexpr uint64_t kHeadRoom = 2048;
  static constexpr uint64_t kMappingsPerChange = 2;  // a change inside a mapping splits it into three

  static uint64_t kernel_limit() {
    uint64_t limit = 65530;  // the kernel's default, where /proc does not say
    if (FILE* file = std::fopen("/proc/sys/vm/max_map_count", "re")) {
      unsigned long long value;
      if (std::fscanf(file, "%llu", &value) == 1) limit = value;
      std::fclose(file);
    }
    return limit;
  }

  static uint64_t mappings_now() {
    uint64_t lines = 0;
    const int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return 0;
    char buffer[1 << 14];
    for (ssize_t n; (n = read(descriptor, buffer, sizeof buffer)) > 0;) {
      for (ssize_t i = 0; i < n; ++i) lines += buffer[i] == '\n';
    }
    close(descriptor);
    return lines;
  }

  void refill() {
    const uint64_t limit = limit_ != 0 ? limit_ : kernel_limit();
    const uint64_t used = mappings_now() + kHeadRoom;
    // Near the limit a few changes at a time would mean reading the whole table for each.
    constexpr uint64_t kSmallest = 128;
    const uint64_t changes = limit > used ? (limit - used) / kMappingsPerChange : 0;
    changes_left_ = changes < kSmallest ? 0 : changes;
  }

  uint64_t limit_ = 0;
  uint64_t changes_left_ = 0;
};

MappingBudget budget;

/** How a file that processes share is told from others. */
constexpr const char* kShareableName = "cudalloc-mock-page";
constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int flags_of(Protection protection) {
  switch (protection) {
    case Protection::kRead:
      return PROT_READ;
    case Protection::kReadWrite:
      return PROT_READ | PROT_WRITE;
    default:
      return PROT_NONE;
  }
}

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

CUresult place(uint64_t address, uint64_t bytes, int flags, int descriptor, uint64_t offset) {
  const void* placed = mmap(pointer(address), bytes, PROT_NONE, flags | MAP_FIXED | MAP_NORESERVE, descriptor,
                            static_cast<off_t>(offset));
  if (placed != MAP_FAILED) return CUDA_SUCCESS;
  return fail(errno == ENOMEM ? kMappingLimitReason : "mmap was refused");
}

}  // namespace

CUresult MemoryFile::ensure(uint64_t bytes) {
  if (descriptor_ < 0) {
    descriptor_ = memfd_create("cudalloc-mock", MFD_CLOEXEC);
    if (descriptor_ < 0) return fail("memfd_create was refused: no file of memory for the mock device");
  }
  if (bytes <= bytes_) return CUDA_SUCCESS;
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    return fail("ftruncate was refused: the mock device's file of memory cannot grow");
  }
  bytes_ = bytes;
  return CUDA_SUCCESS;
}

CUresult MemoryFile::punch(uint64_t offset, uint64_t bytes) {
  while (fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return fail("fallocate was refused: the mock device's memory was not given back");
  }
  return CUDA_SUCCESS;
}

CUresult MemoryFile::make_shareable(uint64_t bytes) {
  descriptor_ = memfd_create(kShareableName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor_ < 0) return fail("memfd_create was refused: no file of memory for a shareable page");
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0 ||
      fcntl(descriptor_, F_ADD_SEALS, kFixedSize) != 0) {
    reset();
    return fail("the file of memory of a shareable page could not be given its size");
  }
  bytes_ = bytes;
  return CUDA_SUCCESS;
}

CUresult MemoryFile::open_shareable(int descriptor) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const std::string name = std::string("/memfd:") + kShareableName;
  char target[64] = "";
  struct stat status;
  // Without its seals the file could become shorter, and end whoever has it mapped.
  const bool ours = descriptor >= 0 && readlink(link.c_str(), target, sizeof target - 1) > 0 &&
                    std::strncmp(target, name.c_str(), name.size()) == 0 &&
                    fcntl(descriptor, F_GET_SEALS) == kFixedSize && fstat(descriptor, &status) == 0;
  if (!ours) return CUDA_ERROR_INVALID_VALUE;
  descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor_ < 0) return fail("the process has no descriptor left for a shared page");
  bytes_ = static_cast<uint64_t>(status.st_size);
  return CUDA_SUCCESS;
}

void MemoryFile::reset() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
  bytes_ = 0;
}

CUresult reserve_addresses(uint64_t bytes, uint64_t alignment, uint64_t hint, uint64_t* address) {
  if (!budget.take()) return fail(kMappingLimitReason);
  const uint64_t padded = bytes + alignment;
  if (padded < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  void* raw = mmap(pointer(hint), padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t begin = reinterpret_cast<uint64_t>(raw);
  const uint64_t start = (begin + alignment - 1) & ~(alignment - 1);
  if (start > begin) munmap(raw, start - begin);
  munmap(pointer(start + bytes), begin + padded - (start + bytes));
  *address = start;
  return CUDA_SUCCESS;
}

void release_addresses(uint64_t address, uint64_t bytes) { munmap(pointer(address), bytes); }

CUresult map_file(uint64_t address, uint64_t bytes, const MemoryFile& file, uint64_t offset) {
  if (!budget.take()) return fail(kMappingLimitReason);
  return place(address, bytes, MAP_SHARED, file.descriptor(), offset);
}

CUresult unmap_file(uint64_t address, uint64_t bytes) {
  budget.count_only();
  return place(address, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

CUresult protect(uint64_t address, uint64_t bytes, Protection protection) {
  if (protection == Protection::kNone) {
    budget.count_only();
  } else if (!budget.take()) {
    return fail(kMappingLimitReason);
  }
  if (mprotect(pointer(address), bytes, flags_of(protection)) == 0) return CUDA_SUCCESS;
  return fail(errno == ENOMEM ? kMappingLimitReason : "mprotect was refused");
}

void limit_mappings(uint64_t limit) { budget.set_limit(limit); }

const char* last_system_error() { return system_error; }

}  // namespace cudalloc::mock

// What the environments of this process share: one entry for each device that somebody has open, with its
// limit, the bytes taken, the physical pages, what is mapped where, and who may access it. State without
// policy, under a mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "descriptor.h"
#include "functions.h"

namespace cudalloc {

class Device;

// Who may map a page besides the environments of this process.
enum class Sharing {
  kNone,
  // Whoever gets the descriptor that it is exported as.
  kShareable,
  // Another process made it, and this one counts nothing for it.
  kImported,
};

// One physical allocation of cuMemCreate, or of another process.
struct Page {
  CUmemGenericAllocationHandle handle;
  uint64_t bytes;
  // The opening that gives it back when it ends: its creator, or whoever mapped it since while nobody had it
  // mapped.
  Device* owner;
  Sharing sharing = Sharing::kNone;
  // What it is exported as; null until it is.
  std::unique_ptr<ExportedDescriptor> exported;
  int mapped = 0;
  // Given up by its owner while mapped: goes back to the driver with its last mapping.
  bool released = false;
  // Its owner does not use it: any other opening may take it.
  bool offered = false;
};

struct Mapping {
  uint64_t bytes;
  int32_t page;
  Device* owner;
};

struct SharedDevice {
  std::string backend;
  int ordinal = 0;

  // Bytes that may be taken; 0 for no limit of ours.
  uint64_t capacity = 0;
  std::atomic<uint64_t> used{0};
  // How many have the device open.
  std::atomic<int> openings{0};

  // Guards all below, and is held across the driver's calls on them, so that whoever gets access to this
  // device's memory sees every mapping.
  std::mutex mutex;
  std::unordered_map<int32_t, Page> pages;
  std::map<uint64_t, Mapping> mappings;
  // Ordinals of the other devices that may access this one's memory.
  std::vector<int> accessors;

  // Adds to `used` unless that exceeds the limit.
  bool take(uint64_t bytes);
  void give_back(uint64_t bytes) { used.fetch_sub(bytes); }
  // The driver has the page back. The caller holds the lock.
  void forget_page(int32_t id);
};

class DeviceTable {
 public:
  static DeviceTable& instance();

  // Joins the others that have the device open, or makes its entry. Throws Config when it is open with
  // another capacity (0 fits any).
  std::shared_ptr<SharedDevice> acquire(const std::string& backend, int ordinal, uint64_t capacity);
  // After the last release the entry is gone, and with it the device's access to others.
  void release(const std::shared_ptr<SharedDevice>& shared);

  // Positive, ascending; the same for no two objects of the process. Streams, events, modules, functions and
  // pages draw from it.
  int32_t next_id();
  // Whether such a number was ever given out: a use after free rather than a foreign number.
  bool was_given(int64_t id) const;

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::shared_ptr<SharedDevice>> entries_;
  std::atomic<int32_t> last_id_{0};
};

}  // namespace cudalloc

// The process-wide table of open devices.
#include "device_table.h"

#include <algorithm>
#include <limits>

#include "errors.h"

namespace cudalloc {

bool SharedDevice::take(uint64_t bytes) {
  uint64_t before = used.load();
  do {
    if (capacity != 0 && (before > capacity || bytes > capacity - before)) return false;
  } while (!used.compare_exchange_weak(before, before + bytes));
  return true;
}

void SharedDevice::forget_page(int32_t id) {
  const auto it = pages.find(id);
  if (it->second.sharing != Sharing::kImported) give_back(it->second.bytes);
  pages.erase(it);
}

DeviceTable& DeviceTable::instance() {
  // Never destroyed: other threads may still use it while the process ends.
  static DeviceTable* table = new DeviceTable;
  return *table;
}

std::shared_ptr<SharedDevice> DeviceTable::acquire(const std::string& backend, int ordinal,
                                                   uint64_t capacity) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<SharedDevice>& shared = entries_[{backend, ordinal}];
  if (!shared) {
    shared = std::make_shared<SharedDevice>();
    shared->backend = backend;
    shared->ordinal = ordinal;
    shared->capacity = capacity;
  } else if (capacity != 0 && capacity != shared->capacity) {
    const uint64_t current = shared->capacity;
    throw Error(
        ErrorCode::Config,
        "Device " + std::to_string(ordinal) + " of " + backend + " is open with " +
            (current == 0 ? "no capacity limit" : "a capacity of " + std::to_string(current) + " bytes") +
            ", so it cannot be opened with " + std::to_string(capacity) + " bytes.");
  }
  ++shared->openings;
  return shared;
}

void DeviceTable::release(const std::shared_ptr<SharedDevice>& shared) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = entries_.find({shared->backend, shared->ordinal});
  if (--shared->openings > 0) return;
  entries_.erase(it);
  for (auto& [key, entry] : entries_) {
    if (key.first != shared->backend) continue;
    std::lock_guard<std::mutex> other(entry->mutex);
    auto& accessors = entry->accessors;
    accessors.erase(std::remove(accessors.begin(), accessors.end(), shared->ordinal), accessors.end());
  }
}

int32_t DeviceTable::next_id() {
  const int32_t id = last_id_.fetch_add(1) + 1;
  if (id == std::numeric_limits<int32_t>::max()) {
    last_id_.fetch_sub(1);
    throw Error(ErrorCode::Unsupported,
                "This process has used up all numbers for pages, streams and events.");
  }
  return id;
}

bool DeviceTable::was_given(int64_t id) const { return id > 0 && id <= last_id_.load(); }

}  // namespace cudalloc

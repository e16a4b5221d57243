// Pages that their owner does not use, for the other openings of a device in this process: whoever is short
// takes them, whatever the thread of their owner does meanwhile.
#include "device.h"

namespace cudalloc {

void Device::mem_offer(const int32_t* pages, size_t count) {
  require_virtual_memory();
  std::lock_guard<std::mutex> lock(shared_->mutex);
  for (size_t i = 0; i < count; ++i) {
    auto it = shared_->pages.find(pages[i]);
    if (it == shared_->pages.end() || it->second.released) fail_unknown("page", pages[i]);
    refuse_offered(pages[i], it->second);
    if (it->second.owner != this) {
      throw Error(ErrorCode::InvalidAddress,
                  "Page " + std::to_string(pages[i]) + " belongs to another thread.");
    }
    if (it->second.sharing != Sharing::kNone) {
      throw Error(ErrorCode::InvalidAddress,
                  "Page " + std::to_string(pages[i]) + " may be mapped by other processes.");
    }
  }
  for (size_t i = 0; i < count; ++i) shared_->pages.at(pages[i]).offered = true;
}

size_t Device::mem_claim(int32_t* pages, size_t count) {
  require_virtual_memory();
  std::lock_guard<std::mutex> lock(shared_->mutex);
  size_t gone = 0;
  for (size_t i = 0; i < count; ++i) {
    auto it = shared_->pages.find(pages[i]);
    if (it != shared_->pages.end() && it->second.owner == this && !it->second.released) {
      it->second.offered = false;
      continue;
    }
    if (it == shared_->pages.end() && !DeviceTable::instance().was_given(pages[i]))
      fail_unknown("page", pages[i]);
    pages[i] = -1;
    ++gone;
  }
  return gone;
}

uint64_t Device::mem_offered() const {
  std::lock_guard<std::mutex> lock(shared_->mutex);
  uint64_t bytes = 0;
  for (const auto& [id, page] : shared_->pages) {
    if (page.offered && page.owner != this) bytes += page.bytes;
  }
  return bytes;
}

size_t Device::mem_take(uint64_t page_bytes, int32_t* pages, size_t count) {
  size_t taken = 0;
  return take_offered([&](const Page& page) { return taken < count && page.bytes == page_bytes; },
                      [&](int32_t id) { pages[taken++] = id; });
}

uint64_t Device::mem_trim(uint64_t bytes) {
  uint64_t freed = 0;
  take_offered([&](const Page&) { return freed < bytes; },
               [&](int32_t id) {
                 Page& page = shared_->pages.at(id);
                 const uint64_t page_bytes = page.bytes;
                 // Until the driver has it back it is for anybody.
                 page.offered = true;
                 check(Fn::cuMemRelease, release_page(id), [&] {
                   return "a page of " + std::to_string(page_bytes) + " bytes on " + on_device();
                 });
                 freed += page_bytes;
               });
  return freed;
}

// Takes one page after the other of those that others have offered and that are wanted. A failure stops
// there: it is thrown unless something was taken.
size_t Device::take_offered(const std::function<bool(const Page&)>& wanted,
                            const std::function<void(int32_t)>& taken) {
  require_virtual_memory();
  ContextScope scope(*this);
  std::lock_guard<std::mutex> lock(shared_->mutex);
  std::unordered_map<int32_t, std::vector<uint64_t>> mapped_at;
  for (const auto& [id, page] : shared_->pages) {
    if (page.offered && page.owner != this) mapped_at.emplace(id, std::vector<uint64_t>());
  }
  if (mapped_at.empty()) return 0;
  refuse_in_capture("taking pages");
  for (const auto& [address, mapping] : shared_->mappings) {
    auto it = mapped_at.find(mapping.page);
    if (it != mapped_at.end()) it->second.push_back(address);
  }
  // Their owners' work may still be under way there: on the device, and on threads that copy. An owner that
  // closes waits for the lock.
  check(Fn::cuCtxSynchronize, CUDALLOC_CALL(cuCtxSynchronize));
  size_t count = 0;
  for (const auto& [id, addresses] : mapped_at) {
    Page& page = shared_->pages.at(id);
    if (!wanted(page)) continue;
    page.owner->wait_async();
    int failed = CUDA_SUCCESS;
    if (!unmap_everywhere(addresses, &failed)) {
      if (count > 0) return count;
      fail(Fn::cuMemUnmap, failed, "an offered page on " + on_device());
    }
    page.offered = false;
    page.owner = this;
    taken(id);
    ++count;
  }
  return count;
}

// False when a mapping stays and all is as it was. One that stays after another could not be made again goes
// when its owner closes.
bool Device::unmap_everywhere(const std::vector<uint64_t>& addresses, int* failed) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    const uint64_t bytes = shared_->mappings.at(addresses[i]).bytes;
    *failed = CUDALLOC_CALL(cuMemUnmap, addresses[i], bytes);
    if (*failed == CUDA_SUCCESS) continue;
    size_t again = 0;
    for (; again < i; ++again) {
      const Mapping& mapping = shared_->mappings.at(addresses[again]);
      const auto handle = shared_->pages.at(mapping.page).handle;
      if (CUDALLOC_CALL(cuMemMap, addresses[again], mapping.bytes, 0, handle, 0) != CUDA_SUCCESS) break;
      if (set_access(addresses[again], mapping.bytes) != CUDA_SUCCESS) break;
    }
    if (again == i) return false;
    for (size_t lost = again; lost < i; ++lost) forget_mapping(addresses[lost]);
    return true;
  }
  for (const uint64_t address : addresses) forget_mapping(address);
  return true;
}

}  // namespace cudalloc

// Physical pages: made, given back, and all of the virtual memory given back at the end.
#include <algorithm>

#include "device.h"

namespace cudalloc {

void Device::mem_create(uint64_t page_bytes, int32_t* pages, size_t count, bool shareable) {
  require_virtual_memory();
  if (shareable) require_sharing();
  ContextScope scope(*this);
  refuse_in_capture("creating pages");
  const CUmemAllocationProp prop = page_properties(device_, shareable);
  std::lock_guard<std::mutex> lock(shared_->mutex);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = DeviceTable::instance().next_id();
  for (size_t i = 0; i < count; ++i) {
    CUmemGenericAllocationHandle handle = 0;
    const bool fits = shared_->take(page_bytes);
    const int result = fits ? CUDALLOC_CALL(cuMemCreate, &handle, page_bytes, &prop, 0)
                            : counted(Fn::cuMemCreate, CUDA_ERROR_OUT_OF_MEMORY);
    if (result == CUDA_SUCCESS) {
      const Sharing sharing = shareable ? Sharing::kShareable : Sharing::kNone;
      shared_->pages.emplace(ids[i], Page{handle, page_bytes, this, sharing});
      continue;
    }
    if (fits) shared_->give_back(page_bytes);
    for (size_t made = 0; made < i; ++made) release_page(ids[made]);
    fail(Fn::cuMemCreate, result,
         "page " + std::to_string(i + 1) + " of " + std::to_string(count) + " pages of " +
             std::to_string(page_bytes) + " bytes on " + on_device() +
             (fits ? "" : ", of which " + std::to_string(shared_->capacity) + " may be used"));
  }
  std::copy(ids.begin(), ids.end(), pages);
}

// Gives a page that is not mapped back to the driver.
int Device::release_page(int32_t id) {
  auto it = shared_->pages.find(id);
  const int result = CUDALLOC_CALL(cuMemRelease, it->second.handle);
  if (result == CUDA_SUCCESS) shared_->forget_page(id);
  return result;
}

void Device::mem_release(int32_t* pages, size_t count) {
  require_virtual_memory();
  std::lock_guard<std::mutex> lock(shared_->mutex);
  ContextScope scope(*this);
  for (size_t i = 0; i < count; ++i) {
    if (pages[i] == -1) continue;
    auto it = shared_->pages.find(pages[i]);
    if (it == shared_->pages.end() || it->second.released) fail_unknown("page", pages[i]);
    refuse_offered(pages[i], it->second);
    Page& page = it->second;
    if (page.mapped > 0) {
      // Unmapping may have to be undone, which needs the handle: the driver gets it back with the last
      // mapping, which is when the memory comes back in any case.
      page.released = true;
    } else {
      const uint64_t bytes = page.bytes;
      check(Fn::cuMemRelease, release_page(pages[i]),
            [&] { return "a page of " + std::to_string(bytes) + " bytes on " + on_device(); });
    }
    pages[i] = -1;
  }
}

// For closing: the mappings, pages and ranges of this opening. Pages that another environment has mapped stay
// until it unmaps them.
void Device::release_virtual_memory(const Release& release) {
  if (!properties_.virtual_memory.works) return;
  std::lock_guard<std::mutex> lock(shared_->mutex);
  for (auto it = shared_->mappings.begin(); it != shared_->mappings.end();) {
    auto mapping = it++;
    if (mapping->second.owner != this) continue;
    release(Fn::cuMemUnmap, [&] { return CUDALLOC_CALL(cuMemUnmap, mapping->first, mapping->second.bytes); });
    forget_mapping(mapping->first);
  }
  for (auto it = shared_->pages.begin(); it != shared_->pages.end();) {
    auto page = it++;
    if (page->second.owner == this) {
      page->second.released = true;
      page->second.offered = false;
      page->second.owner = nullptr;
    }
    if (!page->second.released || page->second.mapped > 0) continue;
    release(Fn::cuMemRelease, [&] { return CUDALLOC_CALL(cuMemRelease, page->second.handle); });
    shared_->forget_page(page->first);
  }
  for (auto& [address, bytes] : reservations_) {
    release(Fn::cuMemAddressFree,
            [&, at = address, size = bytes] { return CUDALLOC_CALL(cuMemAddressFree, at, size); });
  }
  reservations_.clear();
}

}  // namespace cudalloc

// Address ranges, physical pages, and mappings of the ones into the others: whole runs at a time, all or
// nothing.
#include "device.h"

namespace cudalloc {
namespace {

constexpr uint64_t kLargestAddress = uint64_t{1} << 53;

std::string describe(uint64_t bytes, uint64_t address) {
  return std::to_string(bytes) + " bytes at " + hex(address);
}

}  // namespace

// An offered page may be somebody else's at any moment.
void Device::refuse_offered(int32_t id, const Page& page) {
  if (!page.offered) return;
  throw Error(ErrorCode::InvalidAddress,
              "Page " + std::to_string(id) + " is offered to others; it has to be claimed first.");
}

void Device::require_virtual_memory() const {
  if (!properties_.virtual_memory.works) {
    throw Error(ErrorCode::Unsupported,
                "There is no virtual memory on " + on_device() + ": " + properties_.virtual_memory.reason);
  }
}

uint64_t Device::address_reserve(uint64_t bytes, uint64_t alignment) {
  require_virtual_memory();
  ContextScope scope(*this);
  CUdeviceptr address = 0;
  check(Fn::cuMemAddressReserve, CUDALLOC_CALL(cuMemAddressReserve, &address, bytes, alignment, 0, 0),
        [&] { return std::to_string(bytes) + " bytes of addresses for " + on_device(); });
  if (address + bytes > kLargestAddress) {
    CUDALLOC_CALL(cuMemAddressFree, address, bytes);
    throw Error(ErrorCode::Unsupported,
                "The driver gave address " + hex(address) + ", which is beyond 2^53.");
  }
  reservations_.emplace(address, bytes);
  return address;
}

void Device::address_free(uint64_t address, uint64_t bytes) {
  require_virtual_memory();
  auto it = reservations_.find(address);
  if (it == reservations_.end() || it->second != bytes) {
    throw Error(ErrorCode::InvalidAddress,
                describe(bytes, address) + " are not a range reserved here on " + on_device() + ".");
  }
  std::lock_guard<std::mutex> lock(shared_->mutex);
  auto mapping = shared_->mappings.lower_bound(address);
  if (mapping != shared_->mappings.end() && mapping->first < address + bytes) {
    throw Error(ErrorCode::InvalidAddress, "The range of " + describe(bytes, address) +
                                               " still has a page mapped at " + hex(mapping->first) + ".");
  }
  ContextScope scope(*this);
  check(Fn::cuMemAddressFree, CUDALLOC_CALL(cuMemAddressFree, address, bytes),
        [&] { return describe(bytes, address); });
  reservations_.erase(it);
}

// Throws InvalidAddress unless the range lies in one reservation made here.
void Device::check_in_reservation(uint64_t address, uint64_t bytes) const {
  auto it = reservations_.upper_bound(address);
  if (it != reservations_.begin()) {
    --it;
    const uint64_t offset = address - it->first;
    if (offset < it->second && bytes <= it->second - offset) return;
  }
  throw Error(ErrorCode::InvalidAddress,
              describe(bytes, address) + " are not within a range reserved here on " + on_device() + ".");
}

// This device, and the peers that may access its memory.
std::vector<CUmemAccessDesc> Device::access_list() const {
  std::vector<CUmemAccessDesc> list;
  auto add = [&list](int device) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    list.push_back(access);
  };
  add(device_);
  for (int peer : shared_->accessors) add(peer);
  return list;
}

int Device::set_access(uint64_t address, uint64_t bytes) {
  const std::vector<CUmemAccessDesc> list = access_list();
  return CUDALLOC_CALL(cuMemSetAccess, address, bytes, list.data(), list.size());
}

void Device::forget_mapping(uint64_t address) {
  auto it = shared_->mappings.find(address);
  --shared_->pages.at(it->second.page).mapped;
  shared_->mappings.erase(it);
}

// Throws unless the range is ours and free and the pages exist and fit. The caller holds the lock.
void Device::check_mappable(uint64_t address, uint64_t page_bytes, const int32_t* pages, size_t count) const {
  if (count > kLargestAddress / page_bytes) {
    throw Error(ErrorCode::InvalidSize, std::to_string(count) + " pages of " + std::to_string(page_bytes) +
                                            " bytes are more than 2^53 bytes.");
  }
  const uint64_t bytes = page_bytes * count;
  check_in_reservation(address, bytes);
  const auto& mappings = shared_->mappings;
  auto next = mappings.lower_bound(address);
  if (next != mappings.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address) --next;
  if (next != mappings.end() && next->first < address + bytes) {
    throw Error(ErrorCode::InvalidAddress, "A page is mapped at " + hex(next->first) + " already.");
  }
  for (size_t i = 0; i < count; ++i) {
    auto it = shared_->pages.find(pages[i]);
    if (it == shared_->pages.end() || it->second.released) fail_unknown("page", pages[i]);
    refuse_offered(pages[i], it->second);
    if (it->second.bytes == page_bytes) continue;
    throw Error(ErrorCode::InvalidSize, "Page " + std::to_string(pages[i]) + " has " +
                                            std::to_string(it->second.bytes) + " bytes, not " +
                                            std::to_string(page_bytes) + ".");
  }
}

void Device::mem_map(uint64_t address, uint64_t page_bytes, const int32_t* pages, size_t count) {
  require_virtual_memory();
  if (count == 0) return;
  std::lock_guard<std::mutex> lock(shared_->mutex);
  check_mappable(address, page_bytes, pages, count);
  ContextScope scope(*this);
  refuse_in_capture("mapping pages");
  auto at = [&](size_t i) { return address + i * page_bytes; };
  Fn fn = Fn::cuMemMap;
  int result = CUDA_SUCCESS;
  size_t mapped = 0;
  for (; mapped < count; ++mapped) {
    Page& page = shared_->pages.at(pages[mapped]);
    result = CUDALLOC_CALL(cuMemMap, at(mapped), page_bytes, 0, page.handle, 0);
    if (result != CUDA_SUCCESS) break;
    ++page.mapped;
    shared_->mappings.emplace(at(mapped), Mapping{page_bytes, pages[mapped], this});
  }
  if (result == CUDA_SUCCESS) {
    fn = Fn::cuMemSetAccess;
    result = set_access(address, page_bytes * count);
  }
  if (result == CUDA_SUCCESS) {
    for (size_t i = 0; i < count; ++i) {
      Page& page = shared_->pages.at(pages[i]);
      if (page.mapped == 1) page.owner = this;
    }
    return;
  }
  // What cannot be undone stays known as mapped, so that closing deals with it.
  for (size_t i = mapped; i-- > 0;) {
    if (CUDALLOC_CALL(cuMemUnmap, at(i), page_bytes) == CUDA_SUCCESS) forget_mapping(at(i));
  }
  fail(fn, result,
       std::to_string(count) + " pages of " + describe(page_bytes, address) + " on " + on_device());
}

// Maps the first pages of a run again after they were unmapped. False when not all could be, or not be made
// accessible.
bool Device::restore_maps(uint64_t address, uint64_t page_bytes, size_t count) {
  auto at = [&](size_t i) { return address + i * page_bytes; };
  size_t mapped = 0;
  for (; mapped < count; ++mapped) {
    const auto handle = shared_->pages.at(shared_->mappings.at(at(mapped)).page).handle;
    if (CUDALLOC_CALL(cuMemMap, at(mapped), page_bytes, 0, handle, 0) != CUDA_SUCCESS) break;
  }
  const bool accessible = mapped == 0 || set_access(address, mapped * page_bytes) == CUDA_SUCCESS;
  for (size_t lost = mapped; lost < count; ++lost) forget_mapping(at(lost));
  return accessible && mapped == count;
}

void Device::mem_unmap(uint64_t address, uint64_t page_bytes, size_t count) {
  require_virtual_memory();
  wait_async();
  std::lock_guard<std::mutex> lock(shared_->mutex);
  const auto& mappings = shared_->mappings;
  auto at = [&](size_t i) { return address + i * page_bytes; };
  for (size_t i = 0; i < count; ++i) {
    auto it = mappings.find(at(i));
    if (it != mappings.end() && it->second.owner == this && it->second.bytes == page_bytes) continue;
    throw Error(ErrorCode::InvalidAddress,
                "No page of " + describe(page_bytes, at(i)) + " is mapped here on " + on_device() + ".");
  }
  ContextScope scope(*this);
  refuse_in_capture("unmapping pages");
  for (size_t i = 0; i < count; ++i) {
    const int result = CUDALLOC_CALL(cuMemUnmap, at(i), page_bytes);
    if (result == CUDA_SUCCESS) continue;
    const bool restored = restore_maps(address, page_bytes, i);
    fail(Fn::cuMemUnmap, result,
         "page " + std::to_string(i + 1) + " of " + std::to_string(count) + " pages of " +
             describe(page_bytes, address) + " on " + on_device() +
             (restored ? "" : ", and the pages before it could not all be mapped again"));
  }
  std::vector<uint64_t> addresses(count);
  for (size_t i = 0; i < count; ++i) addresses[i] = at(i);
  forget_mappings(addresses, describe(page_bytes, address));
}

void Device::mem_unmap_range(uint64_t address, uint64_t bytes) {
  require_virtual_memory();
  wait_async();
  std::lock_guard<std::mutex> lock(shared_->mutex);
  std::vector<uint64_t> addresses;
  uint64_t at = address;
  for (auto it = shared_->mappings.find(at); at < address + bytes; ++it) {
    if (it == shared_->mappings.end() || it->first != at || it->second.owner != this ||
        it->second.bytes > address + bytes - at) {
      throw Error(ErrorCode::InvalidAddress, "From " + hex(at) + " on no whole pages are mapped here up to " +
                                                 hex(address + bytes) + " on " + on_device() + ".");
    }
    addresses.push_back(at);
    at += it->second.bytes;
  }
  ContextScope scope(*this);
  refuse_in_capture("unmapping pages");
  check(Fn::cuMemUnmap, CUDALLOC_CALL(cuMemUnmap, address, bytes), [&] { return describe(bytes, address); });
  forget_mappings(addresses, describe(bytes, address));
}

// What is unmapped now. Pages that were given up go back to the driver.
void Device::forget_mappings(const std::vector<uint64_t>& addresses, const std::string& what) {
  int failed = CUDA_SUCCESS;
  for (const uint64_t address : addresses) {
    const int32_t id = shared_->mappings.at(address).page;
    forget_mapping(address);
    const Page& page = shared_->pages.at(id);
    if (!page.released || page.mapped > 0) continue;
    const int result = release_page(id);
    if (failed == CUDA_SUCCESS) failed = result;
  }
  check(Fn::cuMemRelease, failed, [&] { return "pages of " + what + ", which are unmapped now"; });
}

}  // namespace cudalloc

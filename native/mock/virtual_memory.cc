// Virtual memory management: address ranges, handles, mappings, access. A handle is a range of its device's
// file, or a file of its own that processes can share, a mapping that range at reserved addresses; access is
// the protection of the addresses.
#include <algorithm>
#include <iterator>
#include <utility>

#include "context_stack.h"
#include "fn.h"
#include "mapping_access.h"
#include "memory.h"

namespace cudalloc::mock {
namespace {

constexpr uint64_t kUserAddresses = uint64_t{1} << 47;

bool granular(uint64_t value) { return value % kGranularity == 0; }

/** Whether memory can be had that is exported as these types of handle; 0: none. */
bool can_be_exported(const State& state, int types) {
  return types == 0 || (types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && state.configuration.sharing);
}

/** A property that cuMemCreate accepts. @return the device, or null (`*result` says why). */
Device* device_of_prop(State& state, const CUmemAllocationProp* prop, CUresult* result) {
  *result = CUDA_ERROR_INVALID_VALUE;
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return nullptr;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->win32HandleMetaData != nullptr)
    return nullptr;
  Device* device = device_at(state, prop->location.id);
  if (device == nullptr) {
    *result = CUDA_ERROR_INVALID_DEVICE;
  } else if (!state.configuration.virtual_memory || !can_be_exported(state, prop->requestedHandleTypes)) {
    *result = CUDA_ERROR_NOT_SUPPORTED;
    device = nullptr;
  } else {
    *result = CUDA_SUCCESS;
  }
  return device;
}

CUresult place_in_file(Device& device, Physical& physical) {
  const auto offset = device.file_ranges.take(physical.bytes, kGranularity);
  if (!offset) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = device.file.ensure(*offset + physical.bytes);
  if (result != CUDA_SUCCESS) device.file_ranges.give(*offset, physical.bytes);
  physical.offset = *offset;
  return result;
}

CUresult place_in_own_file(Physical& physical) {
  physical.file = std::make_shared<MemoryFile>();
  return physical.file->make_shareable(physical.bytes);
}

/** Gives the memory back when neither the handle nor a mapping needs it. */
CUresult reclaim_if_unused(State& state, CUmemGenericAllocationHandle handle) {
  const auto it = state.physicals.find(handle);
  if (!it->second.released || it->second.mappings > 0) return CUDA_SUCCESS;
  const Physical physical = it->second;
  Device& device = state.devices[static_cast<size_t>(physical.device)];
  // A file of its own goes with its last descriptor and its last mapping, in whatever process.
  if (physical.file == nullptr) {
    const CUresult result = device.file.punch(physical.offset, physical.bytes);
    if (result != CUDA_SUCCESS) return result;
    device.file_ranges.give(physical.offset, physical.bytes);
  }
  if (!physical.imported) device.used -= physical.bytes;
  state.physicals.erase(it);
  return CUDA_SUCCESS;
}

/** The reservation that holds the whole range, or null. */
const Reservation* reservation_around(const State& state, CUdeviceptr address, uint64_t bytes) {
  auto it = state.reservations.upper_bound(address);
  if (it == state.reservations.begin()) return nullptr;
  --it;
  const uint64_t offset = address - it->first;
  return offset <= it->second.bytes && bytes <= it->second.bytes - offset ? &it->second : nullptr;
}

bool anything_mapped(const State& state, CUdeviceptr address, uint64_t bytes) {
  const auto it = state.mappings.lower_bound(address + bytes);
  if (it == state.mappings.begin()) return false;
  const auto before = std::prev(it);
  return before->first + before->second.bytes > address;
}

/** Finds the mappings that make up a range exactly. @return false when it has gaps or cuts a mapping. */
bool whole_mappings(State& state, CUdeviceptr address, uint64_t bytes, MappingIterator* first,
                    MappingIterator* last) {
  *first = state.mappings.find(address);
  auto it = *first;
  CUdeviceptr at = address;
  const CUdeviceptr end = address + bytes;
  while (at < end) {
    if (it == state.mappings.end() || it->first != at) return false;
    at += it->second.bytes;
    ++it;
  }
  *last = it;
  return at == end && bytes > 0 && end > address;
}

/** The device that a mapping's memory is on; -1 when nothing is mapped there. */
int device_of_mapping(CUdeviceptr address) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  const auto it = s.mappings.find(address);
  return it == s.mappings.end() ? -1 : s.physicals.at(it->second.handle).device;
}

int device_of_handle(CUmemGenericAllocationHandle handle) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  const auto it = s.physicals.find(handle);
  return it == s.physicals.end() ? -1 : it->second.device;
}

int device_in_prop(const CUmemAllocationProp* prop) { return prop == nullptr ? -1 : prop->location.id; }

}  // namespace

void release_virtual_memory(State& state, Device& device) {
  for (auto it = state.mappings.begin(); it != state.mappings.end();) {
    const auto physical = state.physicals.find(it->second.handle);
    const auto reservation = std::prev(state.reservations.upper_bound(it->first));
    const bool ours = physical->second.device == device.index || reservation->second.device == device.index;
    if (!ours) {
      ++it;
      continue;
    }
    // Refused only at the kernel's limit on mappings; the addresses then show dead memory until they are
    // released.
    unmap_file(it->first, it->second.bytes);
    --physical->second.mappings;
    const CUmemGenericAllocationHandle handle = it->second.handle;
    it = state.mappings.erase(it);
    reclaim_if_unused(state, handle);
  }
  for (auto it = state.reservations.begin(); it != state.reservations.end();) {
    if (it->second.device != device.index) {
      ++it;
      continue;
    }
    release_addresses(it->first, it->second.bytes);
    it = state.reservations.erase(it);
  }
  for (auto it = state.physicals.begin(); it != state.physicals.end();) {
    it = it->second.device == device.index ? state.physicals.erase(it) : std::next(it);
  }
}

CUresult fn::cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint,
                                 unsigned long long flags) {
  return call(Fn::cuMemAddressReserve, -1, [&](State& state) -> CUresult {
    if (address == nullptr || bytes == 0 || bytes % kHostPage != 0 || hint % kHostPage != 0 || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!state.configuration.virtual_memory) return CUDA_ERROR_NOT_SUPPORTED;
    const uint64_t largest = state.configuration.largest_reservation;
    if ((largest != 0 && bytes > largest) || bytes > kUserAddresses || alignment > kUserAddresses) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint64_t start = 0;
    const CUresult result =
        reserve_addresses(bytes, std::max<uint64_t>(alignment, kGranularity), hint, &start);
    if (result != CUDA_SUCCESS) return result;
    state.reservations.emplace(start, Reservation{bytes, context_stack.top()});
    *address = start;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return call(Fn::cuMemAddressFree, -1, [&](State& state) -> CUresult {
    const auto it = state.reservations.find(address);
    if (it == state.reservations.end() || it->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    if (anything_mapped(state, address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    release_addresses(address, bytes);
    state.reservations.erase(it);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop, int option) {
  return call(Fn::cuMemGetAllocationGranularity, device_in_prop(prop), [&](State& state) -> CUresult {
    constexpr int kRecommended = 1;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (granularity == nullptr || option < CU_MEM_ALLOC_GRANULARITY_MINIMUM || option > kRecommended)
      return result;
    if (device_of_prop(state, prop, &result) != nullptr) *granularity = kGranularity;
    return result;
  });
}

CUresult fn::cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* prop,
                         unsigned long long flags) {
  return call(Fn::cuMemCreate, device_in_prop(prop), [&](State& state) -> CUresult {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (handle == nullptr || bytes == 0 || !granular(bytes) || flags != 0) return result;
    Device* device = device_of_prop(state, prop, &result);
    if (device == nullptr) return result;
    if (bytes > device->free()) return CUDA_ERROR_OUT_OF_MEMORY;
    Physical physical{device->index, bytes, 0, nullptr};
    result = prop->requestedHandleTypes == 0 ? place_in_file(*device, physical) : place_in_own_file(physical);
    if (result != CUDA_SUCCESS) return result;
    device->used += bytes;
    *handle = ++state.handles;
    state.physicals.emplace(*handle, std::move(physical));
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call(Fn::cuMemRelease, device_of_handle(handle), [&](State& state) -> CUresult {
    const auto it = state.physicals.find(handle);
    if (it == state.physicals.end() || it->second.released) return CUDA_ERROR_INVALID_VALUE;
    it->second.released = true;
    const CUresult result = reclaim_if_unused(state, handle);
    if (result != CUDA_SUCCESS) it->second.released = false;
    return result;
  });
}

CUresult fn::cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags) {
  return call(Fn::cuMemMap, device_of_handle(handle), [&](State& state) -> CUresult {
    const auto it = state.physicals.find(handle);
    if (it == state.physicals.end() || it->second.released) return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || flags != 0 || bytes != it->second.bytes || !granular(address))
      return CUDA_ERROR_INVALID_VALUE;
    if (reservation_around(state, address, bytes) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (anything_mapped(state, address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    const Device& device = state.devices[static_cast<size_t>(it->second.device)];
    const MemoryFile& file = it->second.file == nullptr ? device.file : *it->second.file;
    const CUresult result = map_file(address, bytes, file, it->second.offset);
    if (result != CUDA_SUCCESS) return result;
    ++it->second.mappings;
    state.mappings.emplace(address, Mapping{bytes, handle, 0, 0});
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return call(Fn::cuMemUnmap, device_of_mapping(address), [&](State& state) -> CUresult {
    MappingIterator first, last;
    if (!whole_mappings(state, address, bytes, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
    Device& device = state.devices[static_cast<size_t>(state.physicals.at(first->second.handle).device)];
    if (is_capturing(state, device)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult result = unmap_file(address, bytes);
    if (result != CUDA_SUCCESS) return result;
    if (has_pending_work(state, device)) ++device.book.unmaps_under_pending_work;
    while (first != last) {
      const CUmemGenericAllocationHandle handle = first->second.handle;
      first = state.mappings.erase(first);
      --state.physicals.at(handle).mappings;
      const CUresult reclaimed = reclaim_if_unused(state, handle);
      if (result == CUDA_SUCCESS) result = reclaimed;
    }
    return result;
  });
}

CUresult fn::cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* desc, size_t count) {
  return call(Fn::cuMemSetAccess, device_of_mapping(address), [&](State& state) -> CUresult {
    if (desc == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    MappingIterator first, last;
    if (!whole_mappings(state, address, bytes, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
    for (auto it = first; it != last; ++it) {
      for (size_t i = 0; i < count; ++i) {
        const CUresult result = check_access(state, it->second, desc[i]);
        if (result != CUDA_SUCCESS) return result;
      }
    }
    return set_access(first, last, desc, count);
  });
}

}  // namespace cudalloc::mock

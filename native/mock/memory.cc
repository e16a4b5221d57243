// cudaMalloc memory: windows of addresses over the device's file, opened page by page as they are allocated;
// pinned host memory; and who may touch what.
#include "memory.h"

#include <algorithm>
#include <cstdlib>

#include "fn.h"

namespace cudalloc::mock {
namespace {

constexpr uint64_t kSmallestWindow = uint64_t{1} << 30;
constexpr uint64_t kLargestUsualWindow = uint64_t{1} << 40;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/** Takes a range of the device's windows, with a new window where none has room. */
CUresult take_range(Device& device, uint64_t extent, uint64_t alignment, size_t* window, uint64_t* offset) {
  for (size_t i = 0; i < device.windows.size(); ++i) {
    if (const auto taken = device.windows[i].free.take(extent, alignment)) {
      *window = i;
      *offset = *taken;
      return CUDA_SUCCESS;
    }
  }
  const uint64_t usual = std::clamp(device.capacity, kSmallestWindow, kLargestUsualWindow);
  const uint64_t bytes = round_up(std::max(usual, extent), kGranularity);
  const auto file_offset = device.file_ranges.take(bytes, kGranularity);
  if (!file_offset) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t address = 0;
  CUresult result = device.file.ensure(*file_offset + bytes);
  if (result == CUDA_SUCCESS) result = reserve_addresses(bytes, kGranularity, 0, &address);
  if (result == CUDA_SUCCESS) {
    result = map_file(address, bytes, device.file, *file_offset);
    if (result != CUDA_SUCCESS) release_addresses(address, bytes);
  }
  if (result != CUDA_SUCCESS) {
    device.file_ranges.give(*file_offset, bytes);
    return result;
  }
  device.windows.push_back(Window{address, *file_offset, RangeAllocator(bytes)});
  *window = device.windows.size() - 1;
  *offset = *device.windows.back().free.take(extent, alignment);
  return CUDA_SUCCESS;
}

bool mapping_accessible(const State& state, const Device& device, CUdeviceptr address, uint64_t bytes,
                        bool write) {
  const uint64_t bit = uint64_t{1} << device.index;
  auto it = state.mappings.upper_bound(address);
  if (it == state.mappings.begin()) return false;
  --it;
  const CUdeviceptr end = address + bytes;
  for (CUdeviceptr at = address; at < end; ++it) {
    if (it == state.mappings.end() || it->first > at) return false;
    const CUdeviceptr mapped_end = it->first + it->second.bytes;
    if (mapped_end <= at || ((write ? it->second.writers : it->second.readers) & bit) == 0) return false;
    at = mapped_end;
  }
  return true;
}

}  // namespace

CUresult allocate(State& state, Device& device, uint64_t bytes, CUdeviceptr* address) {
  if (bytes > device.free()) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t extent = round_up(bytes, kHostPage);
  const uint64_t alignment = bytes >= kGranularity / 2 ? kGranularity : kHostPage;
  size_t index = 0;
  uint64_t offset = 0;
  CUresult result = take_range(device, extent, alignment, &index, &offset);
  if (result != CUDA_SUCCESS) return result;
  Window& window = device.windows[index];
  result = protect(window.address + offset, extent, Protection::kReadWrite);
  if (result != CUDA_SUCCESS) {
    window.free.give(offset, extent);
    return result;
  }
  *address = window.address + offset;
  state.allocations.emplace(*address, Allocation{device.index, bytes, extent, index});
  device.used += bytes;
  return CUDA_SUCCESS;
}

CUresult release_allocation(State& state, CUdeviceptr address) {
  const auto it = state.allocations.find(address);
  const Allocation allocation = it->second;
  Device& device = state.devices[static_cast<size_t>(allocation.device)];
  Window& window = device.windows[allocation.window];
  CUresult result = protect(address, allocation.extent, Protection::kNone);
  if (result == CUDA_SUCCESS) {
    result = device.file.punch(window.offset + (address - window.address), allocation.extent);
    if (result != CUDA_SUCCESS) protect(address, allocation.extent, Protection::kReadWrite);
  }
  if (result != CUDA_SUCCESS) return result;
  window.free.give(address - window.address, allocation.extent);
  state.allocations.erase(it);
  device.used -= allocation.bytes;
  return CUDA_SUCCESS;
}

CUresult free_allocation(State& state, CUdeviceptr address) {
  const auto it = state.allocations.find(address);
  if (it == state.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  Device& device = state.devices[static_cast<size_t>(it->second.device)];
  if (is_capturing(state, device)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const bool pending = has_pending_work(state, device);
  const CUresult result = release_allocation(state, address);
  if (result == CUDA_SUCCESS && pending) ++device.book.unmaps_under_pending_work;
  return result;
}

bool accessible(State& state, const Device& device, CUdeviceptr address, uint64_t bytes, bool write) {
  if (address + bytes < address) return false;
  auto it = state.allocations.upper_bound(address);
  if (it != state.allocations.begin()) {
    --it;
    if (address - it->first < it->second.extent) {
      const bool inside = address - it->first + bytes <= it->second.bytes;
      const bool own = it->second.device == device.index;
      return inside && (own || ((device.peers >> it->second.device) & 1) != 0);
    }
  }
  return mapping_accessible(state, device, address, bytes, write);
}

bool overlaps_device_space(const State& state, uint64_t address, uint64_t bytes) {
  auto it = state.reservations.lower_bound(address + bytes);
  if (it != state.reservations.begin()) {
    --it;
    if (it->first + it->second.bytes > address) return true;
  }
  for (const Device& device : state.devices) {
    for (const Window& window : device.windows) {
      if (window.address < address + bytes && window.address + window.free.size() > address) return true;
    }
  }
  return false;
}

CUresult fn::cuMemGetInfo(size_t* free, size_t* total) {
  return call_in_context(Fn::cuMemGetInfo, [&](State&, Device& device) {
    if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *free = device.free();
    *total = device.capacity;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  return call_in_context(Fn::cuMemAlloc, [&](State& state, Device& device) {
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (is_capturing(state, device)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return allocate(state, device, bytes, address);
  });
}

CUresult fn::cuMemFree(CUdeviceptr address) {
  return call_in_context(Fn::cuMemFree,
                         [&](State& state, Device&) { return free_allocation(state, address); });
}

CUresult fn::cuMemHostAlloc(void** address, size_t bytes, unsigned flags) {
  return call_in_context(Fn::cuMemHostAlloc, [&](State& state, Device& device) -> CUresult {
    constexpr unsigned kKnownFlags = 7;  // portable, device map, write combined
    if (address == nullptr || bytes == 0 || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (is_capturing(state, device)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    void* block = nullptr;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&block, kHostPage, bytes) != 0)
      return CUDA_ERROR_OUT_OF_MEMORY;
    state.host_blocks.emplace(block, HostBlock{device.index});
    *address = block;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuMemFreeHost(void* address) {
  return call_in_context(Fn::cuMemFreeHost, [&](State& state, Device& device) -> CUresult {
    const auto it = state.host_blocks.find(address);
    if (it == state.host_blocks.end()) return CUDA_ERROR_INVALID_VALUE;
    if (is_capturing(state, device)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    state.host_blocks.erase(it);
    std::free(address);
    return CUDA_SUCCESS;
  });
}

}  // namespace cudalloc::mock

// Everything the mock knows: devices, memory, streams, modules; and `call`, the frame around every function.
// One lock guards it all. Must not know of the controls' callers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../kernels/registry.h"
#include "address_space.h"
#include "calls.h"
#include "mock.h"
#include "range_allocator.h"
#include "timeline.h"

namespace cudalloc::mock {

inline constexpr uint64_t kHostPage = 4096;
/** Room in a device's file of memory: far beyond any capacity, so that fragmentation of the file never
 * matters. */
inline constexpr uint64_t kFileBytes = uint64_t{1} << 56;

/** Addresses for cudaMalloc, with a range of the device's file behind all of them; what is not allocated is
 * inaccessible. */
struct Window {
  uint64_t address;
  uint64_t offset;  // in the file
  RangeAllocator free;
};

struct Device {
  int index = 0;
  int openings = 0;  // acquire_device
  int retained = 0;  // cuDevicePrimaryCtxRetain
  bool retained_by_runtime = false;
  uint64_t capacity = 0;
  uint64_t used = 0;
  uint64_t used_by_others = 0;
  CUresult lost = CUDA_SUCCESS;    // until the device is new again
  CUresult sticky = CUDA_SUCCESS;  // until the primary context is destroyed
  bool hold_events = false;
  uint64_t peers = 0;  // bit per device whose memory this one's context may touch
  StreamPointer default_stream, per_thread_stream;
  MemoryFile file;
  RangeAllocator file_ranges{kFileBytes};
  std::vector<Window> windows;
  CallBook book;

  bool context_active() const { return retained > 0 || retained_by_runtime; }
  bool in_use() const { return openings > 0 || context_active(); }
  uint64_t free() const {
    const uint64_t taken = used + used_by_others;
    return taken < capacity ? capacity - taken : 0;
  }
};

/** A cudaMalloc. */
struct Allocation {
  int device;
  uint64_t bytes;   // as asked
  uint64_t extent;  // whole pages
  size_t window;
};

/** A cuMemAddressReserve. */
struct Reservation {
  uint64_t bytes;
  int device;  // that was current; -1: none
};

/** A cuMemCreate, or an import of another process's. */
struct Physical {
  int device;
  uint64_t bytes;
  uint64_t offset;                   // in the file
  std::shared_ptr<MemoryFile> file;  // of a shareable one, its own; null: the device's
  bool imported = false;             // another process's memory: not counted here
  uint64_t mappings = 0;
  bool released = false;
};

/** A cuMemMap. */
struct Mapping {
  uint64_t bytes;
  CUmemGenericAllocationHandle handle;
  uint64_t readers, writers;  // bit per device
};

struct HostBlock {
  int device;
};

struct Event {
  int device;
  unsigned flags;
  PointPointer point;    // null: never recorded
  uint64_t capture = 0;  // recorded into a capture: it says nothing about completion
};

struct Module {
  int device;
  std::string image;  // as far as it can be searched for entries
  bool searchable;
};

struct KernelEntry {
  CUmodule module;
  const KernelTwin* twin;
};

struct State {
  std::mutex mutex;
  Configuration configuration;
  bool initialized = false;
  bool shut_down = false;
  std::array<Device, kMaxDevices> devices;
  CallBook no_device;
  std::vector<Injection> injections;  // for every call
  std::map<CUdeviceptr, Allocation> allocations;
  std::map<CUdeviceptr, Reservation> reservations;
  std::map<CUdeviceptr, Mapping> mappings;
  std::unordered_map<CUmemGenericAllocationHandle, Physical> physicals;
  std::map<void*, HostBlock> host_blocks;
  std::unordered_map<CUstream, StreamPointer> streams;
  std::vector<StreamPointer> draining;  // destroyed with work pending
  std::unordered_map<CUevent, Event> events;
  std::unordered_map<CUmodule, Module> modules;
  std::unordered_map<CUfunction, KernelEntry> functions;
  uint64_t captures = 0;  // made so far
  uint64_t handles = 0;   // made so far; never used twice, so that a stale one is recognised

  template <class T>
  T new_handle() {
    return reinterpret_cast<T>(kFirstHandle + 16 * ++handles);
  }

 private:
  static constexpr uint64_t kFirstHandle = 0x100000;
};

/** Never destroyed: calls may come while the process ends. */
State& state();

/** This thread's current context. @return the device, or null (`*result` then says why). */
Device* current_device(State& state, CUresult* result);

/** Destroys what lives in the device's primary context: allocations, pinned memory, streams, events, modules.
 */
void destroy_context(State& state, Device& device);

/** Makes the device as new. */
void reset_device(State& state, Device& device);

/** Completes what can be completed after something else was. */
void settle_all(State& state);
/** Completes all work of a device. */
void synchronize_device(State& state, const Device& device);
/** Whether a point is pending on any stream of the device. */
bool has_pending_work(const State& state, const Device& device);
/** Whether a stream of the device is being captured. */
bool is_capturing(const State& state, const Device& device);

/** Enters a call: counts it for its device and says whether its body may run. */
CUresult enter_call(State& state, Fn fn, int about, CallBook** book);

/**
 * The frame around every function.
 * @param about the device that the call is about, for calls made without a current context; -1: none.
 */
template <class Body>
CUresult call(Fn fn, int about, Body&& body) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  CallBook* book = nullptr;
  CUresult result = enter_call(s, fn, about, &book);
  if (result == CUDA_SUCCESS) result = body(s);
  book->count(fn, result);
  return result;
}

/** The same for functions that need a current context; the body gets its device. */
template <class Body>
CUresult call_in_context(Fn fn, Body&& body) {
  return call(fn, -1, [&](State& s) {
    CUresult result = CUDA_SUCCESS;
    Device* device = current_device(s, &result);
    return device == nullptr ? result : body(s, *device);
  });
}

/** @return null for no such ordinal. */
Device* device_at(State& state, int ordinal);

}  // namespace cudalloc::mock

#include "state.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>

#include "context_stack.h"
#include "memory.h"

namespace cudalloc::mock {

thread_local ContextStack context_stack;

namespace {

// Contexts are told apart by address; nothing is behind them.
char context_tags[kMaxDevices];

bool answers_when_shut_down(Fn fn) {
  return fn == Fn::cuGetErrorName || fn == Fn::cuGetErrorString || fn == Fn::cudaGetLastError;
}

bool answers_when_lost(Fn fn) {
  return works_always(fn) || is_bookkeeping(fn) || fn == Fn::cuDeviceGetCount || fn == Fn::cuDeviceGet ||
         fn == Fn::cuDevicePrimaryCtxRelease || fn == Fn::cudaSetDevice;
}

void destroy_streams(State& state, Device& device) {
  for (auto it = state.streams.begin(); it != state.streams.end();) {
    if (it->second->device == device.index) {
      abandon(*it->second);
      it = state.streams.erase(it);
    } else {
      ++it;
    }
  }
  for (StreamPointer& stream : state.draining) {
    if (stream->device == device.index) abandon(*stream);
  }
  for (const StreamPointer& stream : {device.default_stream, device.per_thread_stream}) {
    if (stream != nullptr) abandon(*stream);
  }
  device.default_stream = std::make_shared<Stream>();
  device.per_thread_stream = std::make_shared<Stream>();
  device.default_stream->device = device.per_thread_stream->device = device.index;
}

template <class Map>
void erase_of_device(Map& map, int device) {
  for (auto it = map.begin(); it != map.end();)
    it = it->second.device == device ? map.erase(it) : std::next(it);
}

void create_devices(State& state) {
  for (int i = 0; i < kMaxDevices; ++i) {
    state.devices[static_cast<size_t>(i)].index = i;
    destroy_streams(state, state.devices[static_cast<size_t>(i)]);
  }
}

}  // namespace

State& state() {
  static State* const instance = [] {
    auto* made = new State;
    create_devices(*made);
    return made;
  }();
  return *instance;
}

CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(&context_tags[device]); }

int device_of(CUcontext context) {
  const auto* tag = reinterpret_cast<const char*>(context);
  const bool known = !std::less<const char*>()(tag, context_tags) &&
                     std::less<const char*>()(tag, context_tags + kMaxDevices);
  return known ? static_cast<int>(tag - context_tags) : -1;
}

Device* device_at(State& state, int ordinal) {
  if (ordinal < 0 || ordinal >= state.configuration.device_count) return nullptr;
  Device& device = state.devices[static_cast<size_t>(ordinal)];
  if (device.capacity == 0) device.capacity = state.configuration.default_capacity;
  return &device;
}

Device* current_device(State& state, CUresult* result) {
  Device* device = device_at(state, context_stack.top());
  if (device == nullptr) {
    *result = CUDA_ERROR_INVALID_CONTEXT;
  } else if (!device->context_active()) {
    *result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    device = nullptr;
  }
  return device;
}

CUresult enter_call(State& state, Fn fn, int about, CallBook** book) {
  const int top = context_stack.top();
  Device* device = device_at(state, top >= 0 ? top : about);
  *book = device != nullptr ? &device->book : &state.no_device;
  if (state.shut_down && !answers_when_shut_down(fn)) return CUDA_ERROR_DEINITIALIZED;
  if (!state.initialized && !works_always(fn) && !is_runtime(fn)) return CUDA_ERROR_NOT_INITIALIZED;
  CUresult error = take_due(state.injections, fn);
  if (error == CUDA_SUCCESS) error = take_due((*book)->injections, fn);
  if (error == CUDA_SUCCESS && device != nullptr && !answers_when_lost(fn)) {
    error = device->lost != CUDA_SUCCESS ? device->lost : device->sticky;
  }
  return error;
}

void settle_all(State& state) {
  for (bool any = true; any;) {
    any = false;
    for (auto& [handle, stream] : state.streams) any |= settle(*stream);
    for (StreamPointer& stream : state.draining) any |= settle(*stream);
    for (Device& device : state.devices)
      any |= settle(*device.default_stream) | settle(*device.per_thread_stream);
  }
  state.draining.erase(std::remove_if(state.draining.begin(), state.draining.end(),
                                      [](const StreamPointer& stream) { return stream->pending.empty(); }),
                       state.draining.end());
}

namespace {

template <class Visit>
void for_each_stream(const State& state, const Device& device, Visit&& visit) {
  visit(*device.default_stream);
  visit(*device.per_thread_stream);
  for (const auto& [handle, stream] : state.streams) {
    if (stream->device == device.index) visit(*stream);
  }
  for (const StreamPointer& stream : state.draining) {
    if (stream->device == device.index) visit(*stream);
  }
}

}  // namespace

void synchronize_device(State& state, const Device& device) {
  for_each_stream(state, device, [](Stream& stream) { complete_all(stream); });
  settle_all(state);
}

bool has_pending_work(const State& state, const Device& device) {
  bool any = false;
  for_each_stream(state, device, [&](const Stream& stream) { any |= !stream.pending.empty(); });
  return any;
}

bool is_capturing(const State& state, const Device& device) {
  bool any = false;
  for_each_stream(state, device, [&](const Stream& stream) { any |= stream.capture != 0; });
  return any;
}

void destroy_context(State& state, Device& device) {
  for (auto it = state.allocations.begin(); it != state.allocations.end();) {
    const CUdeviceptr address = it->first;
    const bool ours = it->second.device == device.index;
    ++it;
    if (ours) release_allocation(state, address);
  }
  for (auto it = state.host_blocks.begin(); it != state.host_blocks.end();) {
    if (it->second.device == device.index) {
      std::free(it->first);
      it = state.host_blocks.erase(it);
    } else {
      ++it;
    }
  }
  destroy_streams(state, device);
  settle_all(state);
  erase_of_device(state.events, device.index);
  for (auto it = state.functions.begin(); it != state.functions.end();) {
    const auto module = state.modules.find(it->second.module);
    const bool gone = module == state.modules.end() || module->second.device == device.index;
    it = gone ? state.functions.erase(it) : std::next(it);
  }
  erase_of_device(state.modules, device.index);
  for (Device& other : state.devices) other.peers &= ~(uint64_t{1} << device.index);
  device.peers = 0;
  device.sticky = CUDA_SUCCESS;
}

void reset_device(State& state, Device& device) {
  destroy_context(state, device);
  release_virtual_memory(state, device);
  for (const Window& window : device.windows) release_addresses(window.address, window.free.size());
  device.windows.clear();
  device.file.reset();
  device.file_ranges = RangeAllocator(kFileBytes);
  device.openings = device.retained = 0;
  device.retained_by_runtime = false;
  device.capacity = device.used = device.used_by_others = 0;
  device.lost = CUDA_SUCCESS;
  device.hold_events = false;
  device.book = CallBook{};
}

}  // namespace cudalloc::mock

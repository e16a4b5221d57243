// The controls of mock.h.
#include <algorithm>

#include "state.h"

namespace cudalloc::mock {
namespace {

/** Runs the body under the lock with the device. @return whether there is one. */
template <class Body>
bool with_device(int ordinal, Body&& body) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  Device* device = device_at(s, ordinal);
  if (device != nullptr) body(s, *device);
  return device != nullptr;
}

int free_ordinal(State& state) {
  for (int i = 0; i < state.configuration.device_count; ++i) {
    if (!state.devices[static_cast<size_t>(i)].in_use()) return i;
  }
  return -1;
}

StreamPointer stream_of(State& state, Device& device, CUstream handle) {
  if (handle == nullptr) return device.default_stream;
  const auto it = state.streams.find(handle);
  return it == state.streams.end() || it->second->device != device.index ? nullptr : it->second;
}

/** Ends a capture on all streams that it has drawn in; its events are as if never recorded. */
void end_capture(State& state, uint64_t capture) {
  for (Device& device : state.devices) {
    for (Stream* stream : {device.default_stream.get(), device.per_thread_stream.get()}) {
      if (stream->capture == capture) stream->capture = 0;
    }
  }
  for (auto& [handle, stream] : state.streams) {
    if (stream->capture == capture) stream->capture = 0;
  }
  for (auto& [handle, event] : state.events) {
    if (event.capture == capture) event.capture = 0;
  }
}

}  // namespace

int acquire_device(int index, uint64_t capacity, bool* conflict) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  *conflict = false;
  const int ordinal = index == -1 ? free_ordinal(s) : index;
  Device* device = device_at(s, ordinal);
  if (device == nullptr) return -1;
  if (capacity != 0 && device->in_use() && capacity != device->capacity) {
    *conflict = true;
    return -1;
  }
  if (capacity != 0) device->capacity = capacity;
  ++device->openings;
  return ordinal;
}

void release_device(int ordinal) {
  with_device(ordinal, [](State& state, Device& device) {
    if (device.openings > 0 && --device.openings == 0) reset_device(state, device);
  });
}

bool fail_nth(int ordinal, const std::string& function, uint64_t n, CUresult error) {
  const Fn fn = function == "*" ? Fn::kCount : fn_by_name(function);
  if ((fn == Fn::kCount && function != "*") || error == CUDA_SUCCESS) return false;
  const Injection injection{fn, n, error};
  if (ordinal != kAnyDevice) {
    return with_device(ordinal, [&](State&, Device& device) { device.book.injections.push_back(injection); });
  }
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.injections.push_back(injection);
  return true;
}

void clear_failures(int ordinal) {
  if (ordinal != kAnyDevice) {
    with_device(ordinal, [](State&, Device& device) { device.book.injections.clear(); });
    return;
  }
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.injections.clear();
}

void hold_events(int ordinal, bool hold) {
  with_device(ordinal, [&](State&, Device& device) { device.hold_events = hold; });
}

void complete_events(int ordinal, CUstream handle, bool all) {
  with_device(ordinal, [&](State& state, Device& device) {
    if (all) {
      synchronize_device(state, device);
    } else if (const StreamPointer stream = stream_of(state, device, handle)) {
      complete_all(*stream);
      settle_all(state);
    }
  });
}

int64_t take_by_others(int ordinal, int64_t bytes) {
  int64_t change = 0;
  with_device(ordinal, [&](State&, Device& device) {
    const auto taken = static_cast<int64_t>(device.used_by_others);
    change = std::clamp(bytes, -taken, static_cast<int64_t>(device.free()));
    device.used_by_others = static_cast<uint64_t>(taken + change);
  });
  return change;
}

void lose_device(int ordinal, CUresult error) {
  with_device(ordinal, [&](State&, Device& device) {
    device.lost = error == CUDA_SUCCESS ? CUDA_ERROR_LAUNCH_FAILED : error;
  });
}

bool set_capturing(int ordinal, CUstream handle, bool capturing) {
  bool found = false;
  with_device(ordinal, [&](State& state, Device& device) {
    const StreamPointer stream = stream_of(state, device, handle);
    found = stream != nullptr;
    if (!found || capturing == (stream->capture != 0)) return;
    if (capturing) {
      stream->capture = ++state.captures;
    } else {
      end_capture(state, stream->capture);
    }
  });
  return found;
}

std::map<std::string, uint64_t> counters(int ordinal) {
  std::map<std::string, uint64_t> result;
  const auto collect = [&](const CallBook& book) {
    for (int i = 0; i < kFunctionCount; ++i) {
      const auto at = static_cast<size_t>(i);
      const std::string name = name_of(static_cast<Fn>(i));
      if (book.succeeded[at] != 0) result[name] = book.succeeded[at];
      if (book.failed[at] != 0) result[name + "_failed"] = book.failed[at];
    }
    if (book.unmaps_under_pending_work != 0) result["unmapUnderPendingWork"] = book.unmaps_under_pending_work;
  };
  if (ordinal == kAnyDevice) {
    State& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    collect(s.no_device);
  } else {
    with_device(ordinal, [&](State&, Device& device) { collect(device.book); });
  }
  return result;
}

void reset_counters(int ordinal) {
  const auto reset = [](CallBook& book) {
    book.succeeded.fill(0);
    book.failed.fill(0);
    book.unmaps_under_pending_work = 0;
  };
  if (ordinal == kAnyDevice) {
    State& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    reset(s.no_device);
  } else {
    with_device(ordinal, [&](State&, Device& device) { reset(device.book); });
  }
}

bool configure(const Configuration& configuration) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  for (const Device& device : s.devices) {
    if (device.in_use()) return false;
  }
  if (configuration.device_count < 0 || configuration.device_count > kMaxDevices) return false;
  for (Device& device : s.devices) reset_device(s, device);
  s.configuration = configuration;
  s.initialized = false;
  return true;
}

void set_shut_down(bool shut_down) {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.shut_down = shut_down;
}

void set_mapping_limit(uint64_t limit) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  limit_mappings(limit);
}

}  // namespace cudalloc::mock

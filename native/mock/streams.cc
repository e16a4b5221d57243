// Streams and events.
#include "streams.h"

#include "fn.h"

namespace cudalloc::mock {
namespace {

// The handles that CUDA gives a meaning of their own.
const CUstream kLegacyStream = reinterpret_cast<CUstream>(1);
const CUstream kPerThreadStream = reinterpret_cast<CUstream>(2);

constexpr unsigned kEventFlags = 7;  // blocking sync, disable timing, interprocess
constexpr unsigned kEventInterprocess = 4;

bool implicitly_captured(const State& state, const Device& device, const Stream& stream) {
  if (&stream != device.default_stream.get()) return false;
  for (const auto& [handle, other] : state.streams) {
    const bool blocking = (other->flags & CU_STREAM_NON_BLOCKING) == 0;
    if (other->device == device.index && blocking && other->capture != 0) return true;
  }
  return false;
}

Event* find_event(State& state, CUevent handle) {
  const auto it = state.events.find(handle);
  return it == state.events.end() ? nullptr : &it->second;
}

/** The frame of the functions that say something about an event's completion. */
template <class Body>
CUresult call_on_event(Fn fn, CUevent handle, Body&& body) {
  return call_in_context(fn, [&](State& state, Device& device) {
    Event* event = find_event(state, handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != 0 || is_capturing(state, device)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return body(state, *event);
  });
}

/** The frame of the functions that look at or wait for a stream. */
template <class Body>
CUresult call_on_stream(Fn fn, CUstream handle, Body&& body) {
  return call_in_context(fn, [&](State& state, Device& device) {
    const StreamPointer stream = find_stream(state, device, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (implicitly_captured(state, device, *stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return body(state, *stream);
  });
}

}  // namespace

StreamPointer find_stream(State& state, Device& device, CUstream handle) {
  if (handle == nullptr || handle == kLegacyStream) return device.default_stream;
  if (handle == kPerThreadStream) return device.per_thread_stream;
  const auto it = state.streams.find(handle);
  return it == state.streams.end() ? nullptr : it->second;
}

CUresult stream_for_work(State& state, Device& device, CUstream handle, StreamPointer* stream) {
  *stream = find_stream(state, device, handle);
  if (*stream == nullptr || (*stream)->device != device.index) return CUDA_ERROR_INVALID_HANDLE;
  if (implicitly_captured(state, device, **stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  return CUDA_SUCCESS;
}

CUresult fn::cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int) {
  // Any priority is fine: the driver clamps it to its range.
  return call_in_context(Fn::cuStreamCreateWithPriority, [&](State& state, Device& device) -> CUresult {
    if (handle == nullptr || (flags & ~CU_STREAM_NON_BLOCKING) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto stream = std::make_shared<Stream>();
    stream->device = device.index;
    stream->flags = flags;
    *handle = state.new_handle<CUstream>();
    state.streams.emplace(*handle, std::move(stream));
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuStreamDestroy(CUstream handle) {
  return call_in_context(Fn::cuStreamDestroy, [&](State& state, Device&) -> CUresult {
    const auto it = state.streams.find(handle);
    if (it == state.streams.end()) return CUDA_ERROR_INVALID_HANDLE;
    if (it->second->capture != 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!it->second->pending.empty()) state.draining.push_back(it->second);
    state.streams.erase(it);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuStreamSynchronize(CUstream handle) {
  return call_on_stream(Fn::cuStreamSynchronize, handle, [](State& state, Stream& stream) {
    complete_all(stream);
    settle_all(state);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuStreamQuery(CUstream handle) {
  return call_on_stream(Fn::cuStreamQuery, handle, [](State&, Stream& stream) {
    return stream.pending.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult fn::cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  return call_in_context(Fn::cuStreamWaitEvent, [&](State& state, Device& device) -> CUresult {
    Event* event = find_event(state, event_handle);
    const StreamPointer stream = find_stream(state, device, handle);
    if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (implicitly_captured(state, device, *stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (event->capture != 0) {
      // A captured event draws the waiting stream into its capture; a stream cannot be in two.
      if (stream->capture != 0 && stream->capture != event->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      stream->capture = event->capture;
    } else if (stream->capture == 0 && event->point && !event->point->done) {
      append_point(stream, false, event->point);
    }
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuStreamIsCapturing(CUstream handle, int* status) {
  return call_in_context(Fn::cuStreamIsCapturing, [&](State& state, Device& device) -> CUresult {
    const StreamPointer stream = find_stream(state, device, handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture == 0 && implicitly_captured(state, device, *stream))
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = stream->capture != 0 ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuEventCreate(CUevent* handle, unsigned flags) {
  return call_in_context(Fn::cuEventCreate, [&](State& state, Device& device) -> CUresult {
    const bool untimed = (flags & CU_EVENT_DISABLE_TIMING) != 0;
    if (handle == nullptr || (flags & ~kEventFlags) != 0 || ((flags & kEventInterprocess) != 0 && !untimed)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = state.new_handle<CUevent>();
    state.events.emplace(*handle, Event{device.index, flags, nullptr, 0});
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuEventDestroy(CUevent handle) {
  return call_in_context(Fn::cuEventDestroy, [&](State& state, Device&) {
    return state.events.erase(handle) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult fn::cuEventRecord(CUevent handle, CUstream stream_handle) {
  return call_in_context(Fn::cuEventRecord, [&](State& state, Device& device) -> CUresult {
    Event* event = find_event(state, handle);
    const StreamPointer stream = find_stream(state, device, stream_handle);
    if (event == nullptr || stream == nullptr || event->device != stream->device)
      return CUDA_ERROR_INVALID_HANDLE;
    if (implicitly_captured(state, device, *stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    event->capture = stream->capture;
    const bool held = state.devices[static_cast<size_t>(stream->device)].hold_events;
    event->point = stream->capture != 0 ? nullptr : append_point(stream, held, nullptr);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuEventQuery(CUevent handle) {
  return call_on_event(Fn::cuEventQuery, handle, [](State&, const Event& event) {
    return event.point && !event.point->done ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  });
}

CUresult fn::cuEventSynchronize(CUevent handle) {
  return call_on_event(Fn::cuEventSynchronize, handle, [](State& state, const Event& event) {
    if (event.point) complete(event.point);
    settle_all(state);
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuEventElapsedTime(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  return call_in_context(Fn::cuEventElapsedTime, [&](State& state, Device&) -> CUresult {
    const Event* start = find_event(state, start_handle);
    const Event* end = find_event(state, end_handle);
    if (start == nullptr || end == nullptr || !start->point || !end->point) return CUDA_ERROR_INVALID_HANDLE;
    if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
    if (start->device != end->device) return CUDA_ERROR_INVALID_HANDLE;
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!start->point->done || !end->point->done) return CUDA_ERROR_NOT_READY;
    const std::chrono::duration<float, std::milli> elapsed = end->point->completed - start->point->completed;
    *milliseconds = elapsed.count();
    return CUDA_SUCCESS;
  });
}

}  // namespace cudalloc::mock

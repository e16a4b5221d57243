// Streams and events.
#include "device.h"

namespace cudalloc {

int32_t Device::stream_create(bool non_blocking, int priority) {
  ContextScope scope(*this);
  const int32_t id = DeviceTable::instance().next_id();
  CUstream stream = nullptr;
  check(Fn::cuStreamCreateWithPriority,
        CUDALLOC_CALL(cuStreamCreateWithPriority, &stream,
                      non_blocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, priority));
  streams_.emplace(id, Stream{stream, false});
  return id;
}

int32_t Device::stream_wrap(uint64_t handle) {
  const int32_t id = DeviceTable::instance().next_id();
  streams_.emplace(id, Stream{reinterpret_cast<CUstream>(handle), true});
  return id;
}

CUstream Device::stream_handle(int32_t stream) const {
  if (stream == 0) return nullptr;
  auto it = streams_.find(stream);
  if (it == streams_.end()) fail_unknown("stream", stream);
  return it->second.handle;
}

void Device::stream_synchronize(int32_t stream) { begin_stream_synchronize(stream)(); }

bool Device::stream_query(int32_t stream) {
  const CUstream handle = stream_handle(stream);
  ContextScope scope(*this);
  refuse_in_capture("asking whether a stream is done");
  const CUresult result = counted_query(Fn::cuStreamQuery, cuda_.cuStreamQuery(handle));
  if (result == CUDA_ERROR_NOT_READY) return false;
  check(Fn::cuStreamQuery, result);
  return true;
}

void Device::stream_wait_event(int32_t stream, int32_t event) {
  const CUstream handle = stream_handle(stream);
  const CUevent awaited = event_handle(event);
  ContextScope scope(*this);
  check(Fn::cuStreamWaitEvent, CUDALLOC_CALL(cuStreamWaitEvent, handle, awaited, 0));
}

bool Device::stream_is_capturing(int32_t stream) {
  const CUstream handle = stream_handle(stream);
  if (!cuda_.cuStreamIsCapturing) return false;
  ContextScope scope(*this);
  return is_capturing(handle, false);
}

void Device::stream_destroy(int32_t stream) {
  auto it = streams_.find(stream);
  if (it == streams_.end()) fail_unknown("stream", stream);
  wait_async();
  if (!it->second.wrapped) {
    ContextScope scope(*this);
    check(Fn::cuStreamDestroy, CUDALLOC_CALL(cuStreamDestroy, it->second.handle));
  }
  streams_.erase(it);
}

CUevent Device::event_handle(int32_t event) const {
  auto it = events_.find(event);
  if (it == events_.end()) fail_unknown("event", event);
  return it->second;
}

int32_t Device::event_create(bool timing) {
  ContextScope scope(*this);
  const int32_t id = DeviceTable::instance().next_id();
  CUevent event = nullptr;
  check(Fn::cuEventCreate,
        CUDALLOC_CALL(cuEventCreate, &event, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
  events_.emplace(id, event);
  return id;
}

void Device::event_record(int32_t event, int32_t stream) {
  const CUevent handle = event_handle(event);
  const CUstream recorded = stream_handle(stream);
  ContextScope scope(*this);
  check(Fn::cuEventRecord, CUDALLOC_CALL(cuEventRecord, handle, recorded));
}

bool Device::event_query(int32_t event) {
  const CUevent handle = event_handle(event);
  ContextScope scope(*this);
  refuse_in_capture("asking whether an event is done");
  const CUresult result = counted_query(Fn::cuEventQuery, cuda_.cuEventQuery(handle));
  if (result == CUDA_ERROR_NOT_READY) return false;
  check(Fn::cuEventQuery, result);
  return true;
}

void Device::event_synchronize(int32_t event) {
  const CUevent handle = event_handle(event);
  ContextScope scope(*this);
  refuse_in_capture("waiting for an event");
  check(Fn::cuEventSynchronize, CUDALLOC_CALL(cuEventSynchronize, handle));
}

double Device::event_elapsed_time(int32_t start, int32_t end) {
  const CUevent from = event_handle(start);
  const CUevent to = event_handle(end);
  ContextScope scope(*this);
  float milliseconds = 0;
  check(Fn::cuEventElapsedTime, CUDALLOC_CALL(cuEventElapsedTime, &milliseconds, from, to));
  return milliseconds;
}

void Device::event_destroy(int32_t event) {
  const CUevent handle = event_handle(event);
  ContextScope scope(*this);
  check(Fn::cuEventDestroy, CUDALLOC_CALL(cuEventDestroy, handle));
  events_.erase(event);
}

}  // namespace cudalloc

// Opening and closing a device, the counted call, the question about captures, and waiting for the thread
// pool.
#include "device.h"

#include <algorithm>

namespace cudalloc {

Device::Device(Options options) : options_(std::move(options)), cuda_(*options_.functions) {
  shared_ = DeviceTable::instance().acquire(options_.backend, options_.ordinal, options_.capacity);
  try {
    properties_ = device_properties(cuda_, options_.ordinal, options_.runtime_reason);
    const uint64_t limit = shared_->capacity;
    if (limit > properties_.total_memory) {
      throw Error(ErrorCode::Config, "A capacity of " + std::to_string(limit) + " bytes is more than the " +
                                         std::to_string(properties_.total_memory) + " bytes of " +
                                         on_device() + ".");
    }
    if (limit != 0) properties_.total_memory = limit;
    check(Fn::cuDeviceGet, CUDALLOC_CALL(cuDeviceGet, &device_, options_.ordinal));
    check(Fn::cuDevicePrimaryCtxRetain, CUDALLOC_CALL(cuDevicePrimaryCtxRetain, &context_, device_));
  } catch (...) {
    DeviceTable::instance().release(shared_);
    throw;
  }
}

Device::~Device() {
  if (closed_) return;
  wait_async();
  release_all();
  finish();
}

void Device::close() {
  if (closed_) return;
  wait_async();
  try {
    ContextScope scope(*this);
    refuse_in_capture("closing the device");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Capturing) throw;
    // Whatever else is wrong shows again below, where the device is given up all the same.
  }
  std::unique_ptr<Error> error = release_all();
  finish();
  if (error) throw *error;
}

void Device::finish() {
  closed_ = true;
  DeviceTable::instance().release(shared_);
  if (options_.on_closed) options_.on_closed();
}

std::unique_ptr<Error> Device::release_all() {
  std::unique_ptr<Error> first;
  // What is lost with the device or gone with the driver needs no releasing.
  auto note = [&](Fn fn, int result) {
    if (result == CUDA_SUCCESS || is_shutting_down(result) || is_sticky(result) || first) return;
    first = std::make_unique<Error>(driver_error(cuda_, fn, result, "while closing " + on_device()));
  };
  const int pushed = cuda_.cuCtxPushCurrent(context_);
  note(Fn::cuCtxPushCurrent, pushed);
  // Without the context nothing can be released, and nothing is left to release.
  const Release release = [&](Fn fn, const std::function<int()>& call) {
    if (pushed == CUDA_SUCCESS) note(fn, call());
  };
  release(Fn::cuCtxSynchronize, [&] { return CUDALLOC_CALL(cuCtxSynchronize); });
  release_virtual_memory(release);
  release_memory(release);
  release_objects(release);
  CUcontext ignored = nullptr;
  if (pushed == CUDA_SUCCESS) cuda_.cuCtxPopCurrent(&ignored);
  note(Fn::cuDevicePrimaryCtxRelease, CUDALLOC_CALL(cuDevicePrimaryCtxRelease, device_));
  return first;
}

void Device::release_memory(const Release& release) {
  for (auto& [address, bytes] : mallocs_) {
    release(cuda_.cudaMalloc ? Fn::cudaFree : Fn::cuMemFree, [&, at = address] { return call_free(at); });
    shared_->give_back(bytes);
  }
  mallocs_.clear();
  for (auto& [data, memory] : pinned_) {
    release(Fn::cuMemFreeHost, [&, at = memory->data] { return CUDALLOC_CALL(cuMemFreeHost, at); });
    memory->device = nullptr;
  }
  pinned_.clear();
  abandoned_.clear();
}

void Device::release_objects(const Release& release) {
  kernels_.clear();
  for (auto& [id, module] : modules_) {
    release(Fn::cuModuleUnload, [&, handle = module] { return CUDALLOC_CALL(cuModuleUnload, handle); });
  }
  modules_.clear();
  for (auto& [id, event] : events_) {
    release(Fn::cuEventDestroy, [&, handle = event] { return CUDALLOC_CALL(cuEventDestroy, handle); });
  }
  events_.clear();
  for (auto& [id, stream] : streams_) {
    if (stream.wrapped) continue;
    release(Fn::cuStreamDestroy,
            [&, handle = stream.handle] { return CUDALLOC_CALL(cuStreamDestroy, handle); });
  }
  streams_.clear();
}

CUresult Device::counted(Fn fn, int result) {
  counts_.add(fn, result != CUDA_SUCCESS);
  return result;
}

// For questions whose answer may be "not yet", which is no failure.
CUresult Device::counted_query(Fn fn, int result) {
  counts_.add(fn, result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY);
  return result;
}

void Device::fail(Fn fn, int result, const std::string& detail) const {
  throw driver_error(cuda_, fn, result, detail);
}

std::string Device::on_device() const { return "device " + std::to_string(options_.ordinal); }

void Device::fail_unknown(const char* kind, int64_t id) {
  const std::string name = std::string(kind) + " " + std::to_string(id);
  if (DeviceTable::instance().was_given(id)) {
    throw Error(ErrorCode::UseAfterFree,
                "There is no " + name + " here: it is gone, or belongs to another device or thread.");
  }
  throw Error(ErrorCode::InvalidAddress, "There is no " + name + ".");
}

void Device::synchronize() {
  wait_async();
  ContextScope scope(*this);
  refuse_in_capture("waiting for the device");
  check(Fn::cuCtxSynchronize, CUDALLOC_CALL(cuCtxSynchronize));
}

void Device::mem_get_info(uint64_t* free, uint64_t* total) {
  ContextScope scope(*this);
  size_t free_now = 0;
  size_t total_now = 0;
  check(Fn::cuMemGetInfo, CUDALLOC_CALL(cuMemGetInfo, &free_now, &total_now));
  *free = free_now;
  *total = total_now;
  if (shared_->capacity != 0) {
    const uint64_t used = shared_->used.load();
    *free = std::min<uint64_t>(free_now, shared_->capacity > used ? shared_->capacity - used : 0);
    *total = shared_->capacity;
  }
}

// Throws Capturing when a stream known here is being captured: the call named by `what` would break that
// capture. The caller has the context current. Costs one question a stream.
void Device::refuse_in_capture(const char* what) {
  if (!cuda_.cuStreamIsCapturing) return;
  bool capturing = is_capturing(nullptr, false);
  for (auto it = streams_.begin(); !capturing && it != streams_.end(); ++it) {
    capturing = is_capturing(it->second.handle, it->second.wrapped);
  }
  if (capturing) {
    throw Error(ErrorCode::Capturing, "A stream of " + on_device() + " is being captured into a graph, and " +
                                          what + " would break the capture.");
  }
}

bool Device::is_capturing(CUstream stream, bool wrapped) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = cuda_.cuStreamIsCapturing(stream, &status);
  // The default stream answers so when another one, also an unknown one, is capturing with it.
  const bool implicit = result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  // Its owner may have destroyed a wrapped stream, which then captures nothing.
  const bool gone =
      wrapped && (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  counts_.add(Fn::cuStreamIsCapturing, result != CUDA_SUCCESS && !implicit && !gone);
  if (implicit) return true;
  if (gone) return false;
  check(Fn::cuStreamIsCapturing, result);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void Device::begin_async() {
  std::lock_guard<std::mutex> lock(async_mutex_);
  ++async_count_;
}

void Device::end_async() {
  // Notified under the lock: the waiter may destroy this device as soon as it can take it.
  std::lock_guard<std::mutex> lock(async_mutex_);
  if (--async_count_ == 0) async_done_.notify_all();
}

// Waits for the thread pool's copies, which need nothing of this thread.
void Device::wait_async() {
  std::unique_lock<std::mutex> lock(async_mutex_);
  async_done_.wait(lock, [this] { return async_count_ == 0; });
}

}  // namespace cudalloc

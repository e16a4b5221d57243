// Copies and fills. Those between host and device are asynchronous calls followed by a wait, so that pageable
// and pinned memory behave alike; they may run on a thread of the pool.
#include "device.h"

namespace cudalloc {
namespace {

std::string describe(uint64_t bytes, uint64_t target, uint64_t source) {
  return std::to_string(bytes) + " bytes from " + hex(source) + " to " + hex(target);
}

// Ends announced work however it goes.
class AsyncEnd {
 public:
  explicit AsyncEnd(Device& device) : device_(device) {}
  ~AsyncEnd() { device_.end_async(); }
  AsyncEnd(const AsyncEnd&) = delete;
  AsyncEnd& operator=(const AsyncEnd&) = delete;

 private:
  Device& device_;
};

}  // namespace

// Any thread.
void Device::copy_and_wait(Fn fn, uint64_t device_address, void* host, uint64_t bytes, CUstream stream) {
  if (bytes == 0) return;
  ContextScope scope(*this);
  const CUresult result = fn == Fn::cuMemcpyHtoDAsync
                              ? CUDALLOC_CALL(cuMemcpyHtoDAsync, device_address, host, bytes, stream)
                              : CUDALLOC_CALL(cuMemcpyDtoHAsync, host, device_address, bytes, stream);
  const auto detail = [&] {
    return std::to_string(bytes) + " bytes at " + hex(device_address) + " of " + on_device();
  };
  if (result != CUDA_SUCCESS) fail(fn, result, detail());
  const CUresult waited = CUDALLOC_CALL(cuStreamSynchronize, stream);
  if (waited != CUDA_SUCCESS) fail(Fn::cuStreamSynchronize, waited, "copying " + detail());
}

void Device::memcpy_htod(uint64_t target, const void* source, uint64_t bytes, int32_t stream) {
  begin_htod(target, source, bytes, stream)();
}

void Device::memcpy_dtoh(void* target, uint64_t source, uint64_t bytes, int32_t stream) {
  begin_dtoh(target, source, bytes, stream)();
}

std::function<void()> Device::announce(const char* what, std::function<void()> work) {
  {
    ContextScope scope(*this);
    refuse_in_capture(what);
  }
  begin_async();
  return [this, work = std::move(work)] {
    AsyncEnd end(*this);
    work();
  };
}

std::function<void()> Device::begin_htod(uint64_t target, const void* source, uint64_t bytes,
                                         int32_t stream) {
  const CUstream handle = stream_handle(stream);
  return announce("a copy that waits", [=] {
    copy_and_wait(Fn::cuMemcpyHtoDAsync, target, const_cast<void*>(source), bytes, handle);
  });
}

std::function<void()> Device::begin_dtoh(void* target, uint64_t source, uint64_t bytes, int32_t stream) {
  const CUstream handle = stream_handle(stream);
  return announce("a copy that waits",
                  [=] { copy_and_wait(Fn::cuMemcpyDtoHAsync, source, target, bytes, handle); });
}

std::function<void()> Device::begin_stream_synchronize(int32_t stream) {
  const CUstream handle = stream_handle(stream);
  return announce("waiting for a stream", [=] {
    ContextScope scope(*this);
    check(Fn::cuStreamSynchronize, CUDALLOC_CALL(cuStreamSynchronize, handle));
  });
}

void Device::memcpy_dtod(uint64_t target, uint64_t source, uint64_t bytes, int32_t stream) {
  const CUstream handle = stream_handle(stream);
  if (bytes == 0) return;
  ContextScope scope(*this);
  const CUresult result = CUDALLOC_CALL(cuMemcpyDtoDAsync, target, source, bytes, handle);
  if (result != CUDA_SUCCESS)
    fail(Fn::cuMemcpyDtoDAsync, result, describe(bytes, target, source) + " on " + on_device());
}

void Device::memcpy_peer(Device& target_device, uint64_t target, uint64_t source, uint64_t bytes,
                         int32_t stream) {
  if (target_device.backend() != backend()) {
    throw Error(ErrorCode::Unsupported, "A copy between a device of " + backend() + " and one of " +
                                            target_device.backend() + " is not possible.");
  }
  const CUstream handle = stream_handle(stream);
  if (bytes == 0) return;
  ContextScope scope(*this);
  const CUresult result =
      CUDALLOC_CALL(cuMemcpyPeerAsync, target, target_device.context_, source, context_, bytes, handle);
  if (result != CUDA_SUCCESS) {
    fail(Fn::cuMemcpyPeerAsync, result,
         describe(bytes, target, source) + ", from " + on_device() + " to " + target_device.on_device());
  }
}

void Device::memset(uint64_t address, uint8_t byte, uint64_t bytes, int32_t stream) {
  const CUstream handle = stream_handle(stream);
  if (bytes == 0) return;
  ContextScope scope(*this);
  const CUresult result = CUDALLOC_CALL(cuMemsetD8Async, address, byte, bytes, handle);
  if (result != CUDA_SUCCESS) {
    fail(Fn::cuMemsetD8Async, result,
         std::to_string(bytes) + " bytes at " + hex(address) + " of " + on_device());
  }
}

}  // namespace cudalloc

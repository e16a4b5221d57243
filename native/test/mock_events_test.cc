// The mock's events and captures under control.
#include <thread>

#include "mock_device.h"

namespace cudalloc::test {
namespace {

CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  REQUIRE(cuda().cuStreamCreateWithPriority(&stream, flags, 0) == CUDA_SUCCESS);
  return stream;
}

CUevent recorded(CUstream stream) {
  CUevent event = nullptr;
  REQUIRE(cuda().cuEventCreate(&event, 0) == CUDA_SUCCESS);
  REQUIRE(cuda().cuEventRecord(event, stream) == CUDA_SUCCESS);
  return event;
}

bool complete(CUevent event) {
  const CUresult result = cuda().cuEventQuery(event);
  REQUIRE((result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY));
  return result == CUDA_SUCCESS;
}

}  // namespace

TEST_CASE("events complete as soon as they are recorded, unless held") {
  MockDevice device;
  const CUstream stream = make_stream();
  CHECK(complete(recorded(stream)));
  mock::hold_events(device.index, true);
  const CUevent held = recorded(stream);
  CHECK(!complete(held));
  CHECK(cuda().cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  CHECK(cuda().cuStreamQuery(nullptr) == CUDA_SUCCESS);
  float milliseconds = 0;
  CHECK(cuda().cuEventElapsedTime(&milliseconds, held, held) == CUDA_ERROR_NOT_READY);
  mock::hold_events(device.index, false);
  CHECK(!complete(held));
  // The same stream still has a pending event.
  const CUevent behind = recorded(stream);
  CHECK(!complete(behind));
  CHECK(complete(recorded(nullptr)));
  mock::complete_events(device.index, nullptr, true);
  CHECK(complete(held));
  CHECK(complete(behind));
}

TEST_CASE("waiting for an event completes it and those before it on its stream, no others") {
  MockDevice device;
  mock::hold_events(device.index, true);
  const CUstream a = make_stream(), b = make_stream();
  const CUevent a1 = recorded(a), b1 = recorded(b), a2 = recorded(a), a3 = recorded(a);
  CHECK(cuda().cuEventSynchronize(a2) == CUDA_SUCCESS);
  CHECK(complete(a1));
  CHECK(complete(a2));
  CHECK(!complete(a3));
  CHECK(!complete(b1));
  CHECK(cuda().cuStreamSynchronize(b) == CUDA_SUCCESS);
  CHECK(complete(b1));
  CHECK(!complete(a3));
  CHECK(cuda().cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(complete(a3));
  // Holding goes on.
  CHECK(!complete(recorded(a)));
}

TEST_CASE("completing one stream; an event that is recorded again") {
  MockDevice device;
  mock::hold_events(device.index, true);
  const CUstream a = make_stream(), b = make_stream();
  const CUevent on_a = recorded(a), on_b = recorded(b), on_default = recorded(nullptr);
  mock::complete_events(device.index, a, false);
  CHECK(complete(on_a));
  CHECK(!complete(on_b));
  mock::complete_events(device.index, nullptr, false);
  CHECK(complete(on_default));
  CHECK(!complete(on_b));
  REQUIRE(cuda().cuEventRecord(on_a, b) == CUDA_SUCCESS);
  CHECK(!complete(on_a));
  mock::complete_events(device.index, a, false);
  CHECK(!complete(on_a));
}

TEST_CASE("a stream that waits for an event is pending until it completes") {
  MockDevice device;
  const CUstream a = make_stream(), b = make_stream();
  mock::hold_events(device.index, true);
  const CUevent on_a = recorded(a);
  mock::hold_events(device.index, false);
  CHECK(cuda().cuStreamWaitEvent(b, on_a, 0) == CUDA_SUCCESS);
  const CUevent on_b = recorded(b);
  CHECK(!complete(on_b));
  CHECK(cuda().cuStreamQuery(b) == CUDA_ERROR_NOT_READY);
  mock::complete_events(device.index, a, false);
  CHECK(complete(on_b));
  CHECK(cuda().cuStreamQuery(b) == CUDA_SUCCESS);
  // And waiting for the waiter waits for what it waits for.
  mock::hold_events(device.index, true);
  const CUevent first = recorded(a);
  CHECK(cuda().cuStreamWaitEvent(b, first, 0) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamSynchronize(b) == CUDA_SUCCESS);
  CHECK(complete(first));
  CHECK(cuda().cuStreamWaitEvent(b, first, 0x100) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("destroying events and streams with work pending leaves the work pending") {
  MockDevice device;
  mock::hold_events(device.index, true);
  const CUstream stream = make_stream(), waiter = make_stream();
  const CUevent event = recorded(stream), last = recorded(stream);
  REQUIRE(cuda().cuStreamWaitEvent(waiter, last, 0) == CUDA_SUCCESS);
  CHECK(cuda().cuEventDestroy(event) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  CHECK(cuda().cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(!complete(last));
  CHECK(cuda().cuStreamQuery(waiter) == CUDA_ERROR_NOT_READY);
  CHECK(cuda().cuEventSynchronize(last) == CUDA_SUCCESS);
  CHECK(complete(last));
  CHECK(cuda().cuStreamQuery(waiter) == CUDA_SUCCESS);
}

TEST_CASE("work that awaits a device which is gone is free to complete") {
  MockDevice device;
  const CUstream waiter = make_stream();
  {
    MockDevice other;
    mock::hold_events(other.index, true);
    const CUevent event = recorded(nullptr);
    REQUIRE(cuda().cuStreamWaitEvent(waiter, event, 0) == CUDA_SUCCESS);
    CHECK(cuda().cuStreamQuery(waiter) == CUDA_ERROR_NOT_READY);
  }
  CHECK(cuda().cuStreamQuery(waiter) == CUDA_SUCCESS);
}

TEST_CASE("elapsed time is real") {
  MockDevice device;
  const CUevent start = recorded(nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const CUevent end = recorded(nullptr);
  float milliseconds = 0;
  REQUIRE(cuda().cuEventElapsedTime(&milliseconds, start, end) == CUDA_SUCCESS);
  CHECK(milliseconds >= 19.0F);
  CHECK(milliseconds < 5000.0F);
}

TEST_CASE("unmapping and freeing under pending work is counted") {
  MockDevice device;
  const CUdeviceptr address = device.malloc(kMiB), another = device.malloc(kMiB);
  REQUIRE(cuda().cuMemFree(another) == CUDA_SUCCESS);
  CHECK(device.calls("unmapUnderPendingWork") == 0);
  mock::hold_events(device.index, true);
  recorded(nullptr);
  REQUIRE(cuda().cuMemFree(address) == CUDA_SUCCESS);
  CHECK(device.calls("unmapUnderPendingWork") == 1);
}

TEST_CASE("a captured stream takes work without doing it, and what would break the capture is refused") {
  MockDevice device;
  const CUstream stream = make_stream(), other = make_stream();
  const CUdeviceptr address = device.malloc(kMiB);
  REQUIRE(cuda().cuMemsetD8Async(address, 1, kMiB, nullptr) == CUDA_SUCCESS);
  const CUevent before = recorded(other);
  CHECK(mock::set_capturing(device.index, stream, true));
  int status = -1;
  CHECK(cuda().cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(cuda().cuStreamIsCapturing(other, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);

  CHECK(cuda().cuMemsetD8Async(address, 2, kMiB, stream) == CUDA_SUCCESS);
  const CUevent captured = recorded(stream);
  CUdeviceptr none = 0;
  void* host = nullptr;
  CHECK(cuda().cuMemAlloc(&none, 1) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cudaMalloc(&host, 1) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuMemFree(address) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuMemHostAlloc(&host, 64, 0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuCtxSynchronize() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuStreamSynchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuStreamQuery(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuStreamDestroy(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuEventQuery(captured) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuEventQuery(before) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuEventSynchronize(before) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuda().cuStreamSynchronize(other) == CUDA_SUCCESS);

  // A stream that waits for a captured event is drawn into the capture.
  CHECK(cuda().cuStreamWaitEvent(other, captured, 0) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamIsCapturing(other, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);

  CHECK(mock::set_capturing(device.index, stream, false));
  CHECK(cuda().cuStreamIsCapturing(other, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
  std::vector<uint8_t> bytes(16);
  CHECK(read(address, bytes) == CUDA_SUCCESS);
  CHECK(bytes == std::vector<uint8_t>(16, 1));
  CHECK(cuda().cuMemFree(address) == CUDA_SUCCESS);
  CHECK(!mock::set_capturing(device.index, reinterpret_cast<CUstream>(0x1234), true));
}

TEST_CASE("unmapping breaks a capture; the default stream is bound to blocking streams") {
  MockDevice device;
  Range range(kPage);
  const auto handle = create_handle(kPage, device.index);
  map_with_access(range.at(), kPage, handle, device.index);
  const CUstream stream = make_stream(CU_STREAM_DEFAULT);
  REQUIRE(mock::set_capturing(device.index, stream, true));
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  int status = 0;
  CHECK(cuda().cuStreamIsCapturing(nullptr, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(cuda().cuMemsetD8Async(range.at(), 1, 16, nullptr) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(cuda().cuStreamSynchronize(nullptr) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  REQUIRE(mock::set_capturing(device.index, stream, false));
  CHECK(cuda().cuMemUnmap(range.at(), kPage) == CUDA_SUCCESS);
  CHECK(cuda().cuMemRelease(handle) == CUDA_SUCCESS);
}

}  // namespace cudalloc::test

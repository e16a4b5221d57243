// Rules of streams and events.
#include <doctest/doctest.h>

#include "fixture.h"

namespace cudalloc::test {
namespace {

CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  REQUIRE(cuda().cuStreamCreateWithPriority(&stream, flags, 0) == CUDA_SUCCESS);
  return stream;
}

CUevent make_event(unsigned flags = CU_EVENT_DEFAULT) {
  CUevent event = nullptr;
  REQUIRE(cuda().cuEventCreate(&event, flags) == CUDA_SUCCESS);
  return event;
}

}  // namespace

TEST_CASE("streams are made, used and destroyed once") {
  OnDevice device;
  CUstream stream = nullptr;
  CHECK(cuda().cuStreamCreateWithPriority(nullptr, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuStreamCreateWithPriority(&stream, 0x100, 0) == CUDA_ERROR_INVALID_VALUE);
  stream = make_stream();
  CHECK(stream != nullptr);
  CUdeviceptr address = 0;
  REQUIRE(cuda().cuMemAlloc(&address, 4096) == CUDA_SUCCESS);
  CHECK(cuda().cuMemsetD8Async(address, 1, 4096, stream) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamQuery(stream) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamDestroy(stream) == CUDA_SUCCESS);
  if (is_standin()) {
    CHECK(cuda().cuStreamDestroy(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuda().cuStreamQuery(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuda().cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuda().cuMemsetD8Async(address, 1, 4096, stream) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(cuda().cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamQuery(nullptr) == CUDA_SUCCESS);
  cuda().cuMemFree(address);
}

TEST_CASE("events: unrecorded ones are complete, recorded ones complete, destroyed ones are unknown") {
  OnDevice device;
  CUevent event = nullptr;
  CHECK(cuda().cuEventCreate(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuEventCreate(&event, 0x100) == CUDA_ERROR_INVALID_VALUE);
  event = make_event(CU_EVENT_DISABLE_TIMING);
  CHECK(cuda().cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(cuda().cuEventSynchronize(event) == CUDA_SUCCESS);
  const CUstream stream = make_stream();
  CHECK(cuda().cuEventRecord(event, stream) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamWaitEvent(nullptr, event, 0) == CUDA_SUCCESS);
  CHECK(cuda().cuEventSynchronize(event) == CUDA_SUCCESS);
  CHECK(cuda().cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(cuda().cuEventDestroy(event) == CUDA_SUCCESS);
  if (is_standin()) {
    CHECK(cuda().cuEventDestroy(event) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuda().cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuda().cuEventSynchronize(event) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuda().cuEventRecord(event, stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuda().cuStreamWaitEvent(stream, event, 0) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(cuda().cuStreamDestroy(stream) == CUDA_SUCCESS);
}

TEST_CASE("elapsed time needs two recorded events with timing") {
  OnDevice device;
  const CUevent start = make_event(), end = make_event(), untimed = make_event(CU_EVENT_DISABLE_TIMING);
  float milliseconds = -1;
  CHECK(cuda().cuEventElapsedTime(&milliseconds, start, end) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuda().cuEventRecord(start, nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuEventElapsedTime(&milliseconds, start, end) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuda().cuEventRecord(untimed, nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuEventRecord(end, nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuEventSynchronize(end) == CUDA_SUCCESS);
  CHECK(cuda().cuEventElapsedTime(&milliseconds, start, untimed) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuda().cuEventElapsedTime(&milliseconds, start, end) == CUDA_SUCCESS);
  CHECK(milliseconds >= 0);
  CHECK(milliseconds < 10000);
  for (const CUevent event : {start, end, untimed}) CHECK(cuda().cuEventDestroy(event) == CUDA_SUCCESS);
}

TEST_CASE("nothing is being captured unless somebody captures") {
  if (cuda().cuStreamIsCapturing == nullptr) return;
  OnDevice device;
  int status = -1;
  CHECK(cuda().cuStreamIsCapturing(nullptr, &status) == CUDA_SUCCESS);
  CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK(cuda().cuStreamIsCapturing(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("streams and events belong to a context") {
  if (!is_standin() || device_count() < 2) return;
  OnDevice other(1);
  const CUstream there = make_stream();
  OnDevice device(0);
  const CUevent event = make_event();
  CUdeviceptr address = 0;
  REQUIRE(cuda().cuMemAlloc(&address, 64) == CUDA_SUCCESS);
  CHECK(cuda().cuEventRecord(event, there) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuda().cuMemsetD8Async(address, 0, 64, there) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuda().cuEventRecord(event, nullptr) == CUDA_SUCCESS);
  CHECK(cuda().cuStreamWaitEvent(there, event, 0) == CUDA_SUCCESS);
}

}  // namespace cudalloc::test

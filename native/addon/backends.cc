// Opening a device of the CUDA driver or of the CPU mock.
#include "backends.h"

#include "../cuda/loader.h"
#include "../mock/mock.h"

namespace cudalloc {
namespace {

[[noreturn]] void fail_unknown_backend(const std::string& backend) {
  throw Error(ErrorCode::Config, "There is no backend '" + backend + "'; there are 'cuda' and 'mock'.");
}

std::unique_ptr<Device> open_cuda(int index, uint64_t capacity) {
  const Driver& cuda = driver();
  if (cuda.device_count == 0) {
    throw Error(ErrorCode::NoDevice, cuda.driver_reason.empty() ? cuda.device_reason : cuda.driver_reason);
  }
  if (index < 0 || index >= cuda.device_count) {
    throw Error(ErrorCode::NoDevice, "There is no CUDA device " + std::to_string(index) +
                                         "; the driver finds " + std::to_string(cuda.device_count) +
                                         ", numbered from 0.");
  }
  return std::make_unique<Device>(
      Device::Options{&cuda.functions, "cuda", index, capacity, cuda.runtime_reason, nullptr});
}

std::unique_ptr<Device> open_mock(int index, uint64_t capacity) {
  bool conflict = false;
  const int ordinal = mock::acquire_device(index, capacity, &conflict);
  if (ordinal < 0 && conflict) {
    throw Error(ErrorCode::Config, "Mock device " + std::to_string(index) +
                                       " is open with another capacity than " + std::to_string(capacity) +
                                       " bytes.");
  }
  if (ordinal < 0) {
    throw Error(ErrorCode::NoDevice, index < 0 ? "All mock devices are open."
                                               : "There is no mock device " + std::to_string(index) + ".");
  }
  try {
    // The capacity is the mock's own, so there is no limit to keep above it.
    return std::make_unique<Device>(Device::Options{&mock::functions(), "mock", ordinal, 0, "",
                                                    [ordinal] { mock::release_device(ordinal); }});
  } catch (...) {
    mock::release_device(ordinal);
    throw;
  }
}

}  // namespace

int device_count(const std::string& backend) {
  if (backend == "cuda") return driver().device_count;
  if (backend != "mock") fail_unknown_backend(backend);
  int count = 0;
  const Functions& functions = mock::functions();
  const CUresult started = functions.cuInit(0);
  if (started != CUDA_SUCCESS) throw driver_error(functions, Fn::cuInit, started, "the mock");
  const CUresult counted = functions.cuDeviceGetCount(&count);
  if (counted != CUDA_SUCCESS) throw driver_error(functions, Fn::cuDeviceGetCount, counted, "the mock");
  return count;
}

std::unique_ptr<Device> open_device(const std::string& backend, int index, uint64_t capacity) {
  if (backend == "cuda") return open_cuda(index, capacity);
  if (backend != "mock") fail_unknown_backend(backend);
  const CUresult started = mock::functions().cuInit(0);
  if (started != CUDA_SUCCESS) throw driver_error(mock::functions(), Fn::cuInit, started, "the mock");
  return open_mock(index, capacity);
}

}  // namespace cudalloc

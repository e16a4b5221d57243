// Device memory from cudaMalloc or cuMemAlloc, and pinned host memory.
#include <algorithm>

#include "device.h"

namespace cudalloc {
namespace {

// Addresses cross the border as numbers.
constexpr uint64_t kLargestAddress = uint64_t{1} << 53;

}  // namespace

// The runtime where there is one, so that tools that watch it see the memory.
int Device::call_malloc(uint64_t bytes, uint64_t* address) {
  if (!cuda_.cudaMalloc) {
    CUdeviceptr pointer = 0;
    const int result = CUDALLOC_CALL(cuMemAlloc, &pointer, bytes);
    *address = pointer;
    return result;
  }
  // Binds the runtime to the context that is current already: the device's primary one.
  int result = CUDALLOC_CALL(cudaSetDevice, options_.ordinal);
  void* pointer = nullptr;
  if (result == cudaSuccess) result = CUDALLOC_CALL(cudaMalloc, &pointer, bytes);
  // The runtime keeps the last error for whoever asks next; it is ours.
  if (result != cudaSuccess) cuda_.cudaGetLastError();
  *address = reinterpret_cast<uint64_t>(pointer);
  return result;
}

int Device::call_free(uint64_t address) {
  if (!cuda_.cudaMalloc) return CUDALLOC_CALL(cuMemFree, address);
  const int result = CUDALLOC_CALL(cudaFree, reinterpret_cast<void*>(address));
  if (result != cudaSuccess) cuda_.cudaGetLastError();
  return result;
}

uint64_t Device::malloc(uint64_t bytes) {
  const Fn fn = cuda_.cudaMalloc ? Fn::cudaMalloc : Fn::cuMemAlloc;
  const auto detail = [&] { return std::to_string(bytes) + " bytes on " + on_device(); };
  ContextScope scope(*this);
  refuse_in_capture("allocating memory");
  if (!shared_->take(bytes)) {
    counted(fn, CUDA_ERROR_OUT_OF_MEMORY);
    fail(fn, CUDA_ERROR_OUT_OF_MEMORY,
         detail() + ", of which " + std::to_string(shared_->capacity) + " may be used");
  }
  uint64_t address = 0;
  const int result = call_malloc(bytes, &address);
  if (result != CUDA_SUCCESS) {
    shared_->give_back(bytes);
    fail(fn, result, detail());
  }
  if (address + bytes > kLargestAddress) {
    call_free(address);
    shared_->give_back(bytes);
    throw Error(ErrorCode::Unsupported,
                "The driver gave address " + hex(address) + ", which is beyond 2^53.");
  }
  mallocs_.emplace(address, bytes);
  return address;
}

void Device::free(uint64_t address) {
  auto it = mallocs_.find(address);
  if (it == mallocs_.end()) {
    throw Error(ErrorCode::InvalidAddress, "Address " + hex(address) +
                                               " is not that of memory allocated here on " + on_device() +
                                               ", or it was freed.");
  }
  wait_async();
  ContextScope scope(*this);
  refuse_in_capture("freeing memory");
  check(cuda_.cudaMalloc ? Fn::cudaFree : Fn::cuMemFree, call_free(address),
        [&] { return hex(address) + " on " + on_device(); });
  shared_->give_back(it->second);
  mallocs_.erase(it);
}

std::shared_ptr<PinnedMemory> Device::host_alloc(uint64_t bytes) {
  ContextScope scope(*this);
  refuse_in_capture("allocating pinned memory");
  drain_abandoned();
  void* data = nullptr;
  check(Fn::cuMemHostAlloc, CUDALLOC_CALL(cuMemHostAlloc, &data, bytes, CU_MEMHOSTALLOC_PORTABLE),
        [&] { return std::to_string(bytes) + " bytes of pinned host memory"; });
  auto memory = std::make_shared<PinnedMemory>(PinnedMemory{data, bytes, this});
  pinned_.emplace(data, memory);
  return memory;
}

void Device::host_free(const std::shared_ptr<PinnedMemory>& memory) {
  if (!memory->device) return;
  wait_async();
  ContextScope scope(*this);
  refuse_in_capture("freeing pinned memory");
  check(Fn::cuMemFreeHost, CUDALLOC_CALL(cuMemFreeHost, memory->data),
        [&] { return std::to_string(memory->bytes) + " bytes of pinned host memory"; });
  memory->device = nullptr;
  pinned_.erase(memory->data);
}

void Device::host_abandon(const std::shared_ptr<PinnedMemory>& memory) {
  if (!memory->device) return;
  try {
    host_free(memory);
  } catch (const Error&) {
    // In a capture, or the driver refuses: the next allocation tries again, and closing does.
    abandoned_.push_back(memory);
  }
}

// Frees what finalizers could not. The caller has the context current and knows that nothing is being
// captured.
void Device::drain_abandoned() {
  auto freed = [this](const std::shared_ptr<PinnedMemory>& memory) {
    if (CUDALLOC_CALL(cuMemFreeHost, memory->data) != CUDA_SUCCESS) return false;
    memory->device = nullptr;
    pinned_.erase(memory->data);
    return true;
  };
  abandoned_.erase(std::remove_if(abandoned_.begin(), abandoned_.end(), freed), abandoned_.end());
}

std::shared_ptr<PinnedMemory> Device::find_pinned(const void* data) const {
  auto it = pinned_.find(data);
  return it == pinned_.end() ? nullptr : it->second;
}

}  // namespace cudalloc

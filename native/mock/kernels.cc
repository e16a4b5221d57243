// Modules and kernels: a module is searched for the entries it declares, and a kernel is run by its CPU twin.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "fn.h"
#include "memory.h"
#include "streams.h"

namespace cudalloc::mock {
namespace {

constexpr uint32_t kFatbinMagic = 0xBA55ED50;
constexpr char kElfMagic[] = {0x7f, 'E', 'L', 'F'};

template <class T>
T read_at(const char* image, size_t offset) {
  T value;
  std::memcpy(&value, image + offset, sizeof value);
  return value;
}

/** Length of an ELF file: its section headers come last. */
size_t elf_bytes(const char* image) {
  const auto sections = read_at<uint64_t>(image, 0x28);
  return sections + uint64_t{read_at<uint16_t>(image, 0x3a)} * read_at<uint16_t>(image, 0x3c);
}

/** Takes the image in, as far as it can be searched for entries. @return false for what is no image. */
bool read_image(const char* image, Module* module) {
  if (std::memcmp(image, kElfMagic, 1) == 0) {
    if (std::memcmp(image, kElfMagic, sizeof kElfMagic) != 0) return false;
    module->image.assign(image, elf_bytes(image));
    module->searchable = true;
    return true;
  }
  if (static_cast<unsigned char>(image[0]) == (kFatbinMagic & 0xff)) {
    // The code inside may be compressed, so any kernel that has a twin is taken to be there.
    module->searchable = false;
    return image[1] != 0 && image[2] != 0 && read_at<uint32_t>(image, 0) == kFatbinMagic;
  }
  module->image = image;
  module->searchable = true;
  return module->image.find(".version") != std::string::npos &&
         module->image.find(".target") != std::string::npos;
}

bool name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

bool declares(const Module& module, const std::string& name) {
  if (!module.searchable) return true;
  const bool ptx = module.image[0] != kElfMagic[0];
  for (size_t at = module.image.find(name); at != std::string::npos; at = module.image.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end < module.image.size() && name_character(module.image[end])) continue;
    if (!ptx) return true;
    const size_t word = module.image.find_last_not_of(" \t\r\n", at - 1);
    constexpr const char* kEntry = ".entry";
    constexpr size_t kLength = 6;
    if (word != at - 1 && word + 1 >= kLength &&
        module.image.compare(word + 1 - kLength, kLength, kEntry) == 0)
      return true;
  }
  return false;
}

class CheckedMemory : public TwinMemory {
 public:
  CheckedMemory(State& state, const Device& device) : state_(state), device_(device) {}
  void* access(CUdeviceptr address, size_t bytes, bool write) override {
    return accessible(state_, device_, address, bytes, write) ? reinterpret_cast<void*>(address) : nullptr;
  }

 private:
  State& state_;
  const Device& device_;
};

bool valid_dimensions(const LaunchDimensions& d) {
  constexpr unsigned kMaxGridX = 0x7fffffff, kMaxGrid = 65535, kMaxBlock = 1024, kMaxBlockZ = 64,
                     kMaxShared = 48 << 10;
  for (int i = 0; i < 3; ++i) {
    if (d.grid[i] == 0 || d.block[i] == 0) return false;
  }
  if (d.grid[0] > kMaxGridX || d.grid[1] > kMaxGrid || d.grid[2] > kMaxGrid || d.shared_bytes > kMaxShared)
    return false;
  if (d.block[0] > kMaxBlock || d.block[1] > kMaxBlock || d.block[2] > kMaxBlockZ) return false;
  return uint64_t{d.block[0]} * d.block[1] * d.block[2] <= kMaxBlock;
}

/** The parameters as an array, from either of the two ways of passing them. @return false when they do not
 * fit the kernel. */
bool gather_parameters(const KernelTwin& twin, void** parameters, void** extra,
                       std::vector<void*>* gathered) {
  if (parameters != nullptr) {
    if (extra != nullptr) return false;
    gathered->assign(parameters, parameters + twin.parameter_bytes.size());
    return std::find(gathered->begin(), gathered->end(), nullptr) == gathered->end();
  }
  void* const kEnd = nullptr;
  void* const kBuffer = reinterpret_cast<void*>(1);
  void* const kSize = reinterpret_cast<void*>(2);
  char* buffer = nullptr;
  size_t bytes = 0;
  for (void** entry = extra; entry != nullptr && *entry != kEnd; entry += 2) {
    if (*entry == kBuffer) buffer = static_cast<char*>(entry[1]);
    if (*entry == kSize) bytes = *static_cast<size_t*>(entry[1]);
    if (*entry != kBuffer && *entry != kSize) return false;
  }
  size_t offset = 0;
  for (const size_t size : twin.parameter_bytes) {
    offset = (offset + size - 1) / size * size;
    if (buffer == nullptr || offset + size > bytes) return false;
    gathered->push_back(buffer + offset);
    offset += size;
  }
  return true;
}

}  // namespace

CUresult fn::cuModuleLoadData(CUmodule* handle, const void* image) {
  return call_in_context(Fn::cuModuleLoadData, [&](State& state, Device& device) -> CUresult {
    if (handle == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Module module{device.index, {}, false};
    if (!read_image(static_cast<const char*>(image), &module)) return CUDA_ERROR_INVALID_IMAGE;
    *handle = state.new_handle<CUmodule>();
    state.modules.emplace(*handle, std::move(module));
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuModuleUnload(CUmodule handle) {
  return call_in_context(Fn::cuModuleUnload, [&](State& state, Device&) -> CUresult {
    if (state.modules.erase(handle) == 0) return CUDA_ERROR_INVALID_VALUE;
    for (auto it = state.functions.begin(); it != state.functions.end();) {
      it = it->second.module == handle ? state.functions.erase(it) : std::next(it);
    }
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  return call_in_context(Fn::cuModuleGetFunction, [&](State& state, Device&) -> CUresult {
    const auto module = state.modules.find(handle);
    if (function == nullptr || name == nullptr || module == state.modules.end())
      return CUDA_ERROR_INVALID_VALUE;
    const KernelTwin* twin = find_kernel_twin(name);
    if (twin == nullptr || !declares(module->second, name)) return CUDA_ERROR_NOT_FOUND;
    *function = state.new_handle<CUfunction>();
    state.functions.emplace(*function, KernelEntry{handle, twin});
    return CUDA_SUCCESS;
  });
}

CUresult fn::cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                            CUstream stream, void** parameters, void** extra) {
  return call_in_context(Fn::cuLaunchKernel, [&](State& state, Device& device) -> CUresult {
    const auto entry = state.functions.find(function);
    if (entry == state.functions.end()) return CUDA_ERROR_INVALID_HANDLE;
    if (state.modules.at(entry->second.module).device != device.index) return CUDA_ERROR_INVALID_HANDLE;
    const KernelTwin& twin = *entry->second.twin;
    const LaunchDimensions dimensions{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    std::vector<void*> gathered;
    if (!valid_dimensions(dimensions) || !gather_parameters(twin, parameters, extra, &gathered)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    StreamPointer on;
    const CUresult result = stream_for_work(state, device, stream, &on);
    if (result != CUDA_SUCCESS || on->capture != 0) return result;
    CheckedMemory memory(state, device);
    // As on a GPU, the launch has succeeded; the fault shows in what is called next, and stays.
    if (!twin.run(dimensions, gathered.data(), memory)) device.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    return CUDA_SUCCESS;
  });
}

}  // namespace cudalloc::mock

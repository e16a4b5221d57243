// Kernel modules and launches.
#include <cstring>

#include "device.h"

namespace cudalloc {

int32_t Device::module_load_data(const void* image, size_t bytes) {
  // The driver is not told the length: text has to end with a zero.
  std::vector<char> copy(bytes + 1, '\0');
  if (bytes != 0) std::memcpy(copy.data(), image, bytes);
  ContextScope scope(*this);
  refuse_in_capture("loading a module");
  const int32_t id = DeviceTable::instance().next_id();
  CUmodule module = nullptr;
  check(Fn::cuModuleLoadData, CUDALLOC_CALL(cuModuleLoadData, &module, copy.data()),
        [&] { return "an image of " + std::to_string(bytes) + " bytes on " + on_device(); });
  modules_.emplace(id, module);
  return id;
}

void Device::module_unload(int32_t module) {
  auto it = modules_.find(module);
  if (it == modules_.end()) fail_unknown("module", module);
  ContextScope scope(*this);
  refuse_in_capture("unloading a module");
  check(Fn::cuModuleUnload, CUDALLOC_CALL(cuModuleUnload, it->second));
  modules_.erase(it);
  for (auto kernel = kernels_.begin(); kernel != kernels_.end();) {
    kernel = kernel->second.module == module ? kernels_.erase(kernel) : std::next(kernel);
  }
}

int32_t Device::module_get_function(int32_t module, const std::string& name) {
  auto it = modules_.find(module);
  if (it == modules_.end()) fail_unknown("module", module);
  ContextScope scope(*this);
  const int32_t id = DeviceTable::instance().next_id();
  CUfunction function = nullptr;
  check(Fn::cuModuleGetFunction, CUDALLOC_CALL(cuModuleGetFunction, &function, it->second, name.c_str()),
        [&] { return "function " + name; });
  kernels_.emplace(id, Function{function, module});
  return id;
}

void Device::launch_kernel(int32_t function, const uint32_t (&d)[7], int32_t stream, void** parameters) {
  auto it = kernels_.find(function);
  if (it == kernels_.end()) fail_unknown("function", function);
  const CUstream handle = stream_handle(stream);
  ContextScope scope(*this);
  check(Fn::cuLaunchKernel,
        CUDALLOC_CALL(cuLaunchKernel, it->second.handle, d[0], d[1], d[2], d[3], d[4], d[5], d[6], handle,
                      parameters, nullptr),
        [&] {
          auto size = [&](int i) {
            return std::to_string(d[i]) + " x " + std::to_string(d[i + 1]) + " x " + std::to_string(d[i + 2]);
          };
          return "a grid of " + size(0) + " blocks of " + size(3) + " threads on " + on_device();
        });
}

}  // namespace cudalloc

// Group "kernel" of the border: modules, functions, launches.
#include <algorithm>
#include <cstring>

#include "arguments.h"
#include "groups.h"

namespace cudalloc {
namespace {

Napi::Value module_load_data(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const View<uint8_t> image = arguments.bytes_view(1, "image");
  return Napi::Number::New(arguments.env(), device.module_load_data(image.data, image.length));
}

Napi::Value module_unload(const Arguments& arguments) {
  arguments.device(0).module_unload(arguments.id(1, "module"));
  return arguments.env().Undefined();
}

Napi::Value module_get_function(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const int32_t module = arguments.id(1, "module");
  return Napi::Number::New(arguments.env(), device.module_get_function(module, arguments.text(2, "name")));
}

Napi::Value launch_kernel(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const int32_t function = arguments.id(1, "function");
  const View<uint32_t> dimensions = arguments.uint32_view(2, "dimensions");
  const int32_t stream = arguments.id(3, "stream");
  const View<uint8_t> parameters = arguments.bytes_view(4, "parameters");
  const View<uint32_t> offsets = arguments.uint32_view(5, "offsets");
  if (dimensions.length != 7) {
    throw Napi::RangeError::New(arguments.env(), "dimensions must have seven numbers.");
  }
  uint32_t shape[7];
  std::copy(dimensions.data, dimensions.data + 7, shape);
  // A copy that starts at an aligned address: a view may begin anywhere.
  std::vector<uint64_t> aligned(parameters.length / 8 + 1);
  if (parameters.length != 0) std::memcpy(aligned.data(), parameters.data, parameters.length);
  std::vector<void*> pointers(offsets.length);
  for (size_t i = 0; i < offsets.length; ++i) {
    if (offsets.data[i] >= parameters.length) {
      throw Napi::RangeError::New(arguments.env(), "offsets must lie within parameters.");
    }
    pointers[i] = reinterpret_cast<char*>(aligned.data()) + offsets.data[i];
  }
  device.launch_kernel(function, shape, stream, pointers.data());
  return arguments.env().Undefined();
}

}  // namespace

void add_kernel(Napi::Object exports) {
  add<module_load_data>(exports, "moduleLoadData");
  add<module_unload>(exports, "moduleUnload");
  add<module_get_function>(exports, "moduleGetFunction");
  add<launch_kernel>(exports, "launchKernel");
}

}  // namespace cudalloc

// Group "virtual memory" of the border: ranges, pages, mappings, whole runs a call.
#include "arguments.h"
#include "groups.h"

namespace cudalloc {
namespace {

Napi::Value address_reserve(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t bytes = arguments.positive_bytes(1, "bytes");
  const uint64_t address = device.address_reserve(bytes, arguments.bytes(2, "alignment"));
  return Napi::Number::New(arguments.env(), static_cast<double>(address));
}

Napi::Value address_free(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t address = arguments.address(1, "address");
  device.address_free(address, arguments.bytes(2, "bytes"));
  return arguments.env().Undefined();
}

Napi::Value mem_create(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t page_bytes = arguments.positive_bytes(1, "pageBytes");
  const View<int32_t> handles = arguments.int32_view(2, "handles");
  device.mem_create(page_bytes, handles.data, handles.length, arguments.boolean(3, "shareable"));
  return arguments.env().Undefined();
}

Napi::Value mem_map(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t address = arguments.address(1, "address");
  const uint64_t page_bytes = arguments.positive_bytes(2, "pageBytes");
  const View<int32_t> handles = arguments.int32_view(3, "handles");
  device.mem_map(address, page_bytes, handles.data, handles.length);
  return arguments.env().Undefined();
}

Napi::Value mem_unmap(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t address = arguments.address(1, "address");
  const uint64_t page_bytes = arguments.positive_bytes(2, "pageBytes");
  device.mem_unmap(address, page_bytes, arguments.bytes(3, "count"));
  return arguments.env().Undefined();
}

Napi::Value mem_unmap_range(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t address = arguments.address(1, "address");
  device.mem_unmap_range(address, arguments.positive_bytes(2, "bytes"));
  return arguments.env().Undefined();
}

Napi::Value mem_release(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const View<int32_t> handles = arguments.int32_view(1, "handles");
  device.mem_release(handles.data, handles.length);
  return arguments.env().Undefined();
}

}  // namespace

void add_virtual_memory(Napi::Object exports) {
  add<address_reserve>(exports, "addressReserve");
  add<address_free>(exports, "addressFree");
  add<mem_create>(exports, "memCreate");
  add<mem_map>(exports, "memMap");
  add<mem_unmap>(exports, "memUnmap");
  add<mem_unmap_range>(exports, "memUnmapRange");
  add<mem_release>(exports, "memRelease");
}

}  // namespace cudalloc

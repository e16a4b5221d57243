// Group "sharing" of the border: pages that go from one process to another.
#include "arguments.h"
#include "groups.h"

namespace cudalloc {
namespace {

constexpr int64_t kLargestInt = 0x7fffffff;

int number(const Arguments& arguments, size_t i, const char* name) {
  return static_cast<int>(arguments.integer(i, name, 0, kLargestInt));
}

Napi::Value mem_export(const Arguments& arguments) {
  const DescriptorAddress address = arguments.device(0).mem_export(arguments.id(1, "handle"));
  Napi::Object result = Napi::Object::New(arguments.env());
  result.Set("process", address.process);
  result.Set("descriptor", address.descriptor);
  result.Set("witness", address.witness);
  result.Set("token", address.token);
  return result;
}

Napi::Value mem_import(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t bytes = arguments.positive_bytes(1, "bytes");
  const DescriptorAddress source{number(arguments, 2, "process"), number(arguments, 3, "descriptor"),
                                 number(arguments, 4, "witness"), arguments.text(5, "token")};
  return Napi::Number::New(arguments.env(), device.mem_import(bytes, source));
}

Napi::Value mem_import_descriptor(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t bytes = arguments.positive_bytes(1, "bytes");
  return Napi::Number::New(arguments.env(), device.mem_import(bytes, number(arguments, 2, "descriptor")));
}

}  // namespace

void add_sharing(Napi::Object exports) {
  add<mem_export>(exports, "memExport");
  add<mem_import>(exports, "memImport");
  add<mem_import_descriptor>(exports, "memImportDescriptor");
}

}  // namespace cudalloc

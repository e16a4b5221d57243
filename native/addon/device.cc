// Group "device" of the border: what there is, opening, closing, memory info, counts.
#include "../cuda/device.h"

#include "../cuda/loader.h"
#include "arguments.h"
#include "backends.h"
#include "groups.h"

namespace cudalloc {
namespace {

constexpr int kInterfaceVersion = 1;

Napi::Object feature(Napi::Env env, const Feature& feature) {
  Napi::Object result = Napi::Object::New(env);
  result.Set("works", feature.works);
  result.Set("reason", feature.reason);
  return result;
}

Napi::Object properties_object(Napi::Env env, const DeviceProperties& properties) {
  Napi::Object result = Napi::Object::New(env);
  result.Set("name", properties.name);
  result.Set("uuid", properties.uuid);
  result.Set("totalMemory", static_cast<double>(properties.total_memory));
  Napi::Array capability = Napi::Array::New(env, 2);
  capability.Set(0u, properties.major);
  capability.Set(1u, properties.minor);
  result.Set("computeCapability", capability);
  result.Set("multiprocessors", properties.multiprocessors);
  result.Set("granularity", static_cast<double>(properties.granularity));
  Napi::Object features = Napi::Object::New(env);
  features.Set("virtualMemory", feature(env, properties.virtual_memory));
  features.Set("sharing", feature(env, properties.sharing));
  features.Set("cudaMalloc", feature(env, properties.cuda_malloc));
  features.Set("kernels", feature(env, properties.kernels));
  result.Set("features", features);
  return result;
}

Napi::Value driver_report(const Arguments& arguments) {
  const Napi::Env env = arguments.env();
  const Driver& cuda = driver();
  std::string device_reason = cuda.device_reason;
  Napi::Array devices = Napi::Array::New(env);
  for (int ordinal = 0; ordinal < cuda.device_count; ++ordinal) {
    try {
      devices.Set(devices.Length(),
                  properties_object(env, device_properties(cuda.functions, ordinal, cuda.runtime_reason)));
    } catch (const Error& error) {
      device_reason += (device_reason.empty() ? "" : " ") + std::string(error.what());
    }
  }
  Napi::Array missing = Napi::Array::New(env, cuda.missing.size());
  for (uint32_t i = 0; i < cuda.missing.size(); ++i) missing.Set(i, cuda.missing[i]);
  Napi::Object report = Napi::Object::New(env);
  report.Set("driverLibrary", cuda.driver_library);
  report.Set("driverVersion", cuda.driver_version);
  report.Set("runtimeLibrary", cuda.runtime_library);
  report.Set("runtimeVersion", cuda.runtime_version);
  report.Set("driverReason", cuda.driver_reason);
  report.Set("runtimeReason", cuda.runtime_reason);
  report.Set("deviceReason", device_reason);
  report.Set("missing", missing);
  report.Set("devices", devices);
  return report;
}

Napi::Value count_devices(const Arguments& arguments) {
  return Napi::Number::New(arguments.env(), device_count(arguments.text(0, "backend")));
}

Napi::Value open(const Arguments& arguments) {
  const std::string backend = arguments.text(0, "backend");
  const int index = arguments.id(1, "device");
  const uint64_t capacity = arguments.bytes(2, "capacity");
  Environment& environment = Environment::of(arguments.env());
  return Napi::Number::New(arguments.env(), environment.add(open_device(backend, index, capacity)));
}

Napi::Value index(const Arguments& arguments) {
  return Napi::Number::New(arguments.env(), arguments.device(0).ordinal());
}

Napi::Value properties(const Arguments& arguments) {
  return properties_object(arguments.env(), arguments.device(0).properties());
}

Napi::Value close(const Arguments& arguments) {
  Environment::of(arguments.env()).close(arguments.id(0, "device"));
  return arguments.env().Undefined();
}

Napi::Value synchronize(const Arguments& arguments) {
  arguments.device(0).synchronize();
  return arguments.env().Undefined();
}

Napi::Value mem_get_info(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const View<double> out = arguments.float64_view(1, "out");
  if (out.length < 2) throw Napi::RangeError::New(arguments.env(), "out must have room for two numbers.");
  uint64_t free = 0;
  uint64_t total = 0;
  device.mem_get_info(&free, &total);
  out.data[0] = static_cast<double>(free);
  out.data[1] = static_cast<double>(total);
  return arguments.env().Undefined();
}

Napi::Value driver_calls(const Arguments& arguments) {
  const CallCounts& counts = arguments.device(0).counts();
  Napi::Object result = Napi::Object::New(arguments.env());
  for (int i = 0; i < kFunctionCount; ++i) {
    const Fn fn = static_cast<Fn>(i);
    const std::string name = name_of(fn);
    if (const uint64_t made = counts.made(fn)) result.Set(name, static_cast<double>(made));
    if (const uint64_t failed = counts.failed(fn)) result.Set(name + "_failed", static_cast<double>(failed));
  }
  return result;
}

// Node-API without any wrapping: what a crossing costs at least.
napi_value identity(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument = nullptr;
  double value = 0;
  if (napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr) != napi_ok ||
      napi_get_value_double(env, argument, &value) != napi_ok) {
    napi_throw_type_error(env, nullptr, "value must be a number.");
    return nullptr;
  }
  napi_value result = nullptr;
  napi_create_double(env, value, &result);
  return result;
}

}  // namespace

void add_device(Napi::Object exports) {
  const Napi::Env env = exports.Env();
  exports.Set("interfaceVersion", Napi::Number::New(env, kInterfaceVersion));
  add<driver_report>(exports, "driverReport");
  add<count_devices>(exports, "deviceCount");
  add<open>(exports, "openDevice");
  add<index>(exports, "deviceIndex");
  add<properties>(exports, "deviceProperties");
  add<close>(exports, "closeDevice");
  add<synchronize>(exports, "synchronize");
  add<mem_get_info>(exports, "memGetInfo");
  add<driver_calls>(exports, "driverCalls");
  napi_value function = nullptr;
  if (napi_create_function(env, "identity", NAPI_AUTO_LENGTH, identity, nullptr, &function) != napi_ok) {
    throw Napi::Error::New(env);
  }
  exports.Set("identity", Napi::Value(env, function));
}

}  // namespace cudalloc

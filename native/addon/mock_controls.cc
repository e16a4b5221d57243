// Group "mock controls" of the border: what only a stand-in can do.
#include <cstdlib>

#include "../mock/mock.h"
#include "arguments.h"
#include "groups.h"

namespace cudalloc {
namespace {

constexpr int64_t kLargest = int64_t{1} << 53;

Device& mock_device(const Arguments& arguments) {
  Device& device = arguments.device(0);
  if (device.backend() != "mock") {
    throw Error(ErrorCode::Unsupported,
                "Only a device of the mock can be told what to do; this one is " + device.backend() + ".");
  }
  return device;
}

// A CUDA name, or a decimal number.
int parse_error(const std::string& text) {
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, 10);
  const bool decimal = !text.empty() && text[0] >= '0' && text[0] <= '9' && *end == '\0';
  const int error =
      decimal ? (number <= INT32_MAX ? static_cast<int>(number) : -1) : mock::error_by_name(text);
  if (error <= 0) throw Error(ErrorCode::Config, "'" + text + "' is not a CUDA error.");
  return error;
}

Napi::Value fail_nth(const Arguments& arguments) {
  Device& device = mock_device(arguments);
  const std::string function = arguments.text(1, "fn");
  const int64_t n = arguments.integer(2, "n", 1, kLargest);
  if (!mock::fail_nth(device.ordinal(), function, static_cast<uint64_t>(n),
                      parse_error(arguments.text(3, "error")))) {
    throw Error(ErrorCode::Config, "'" + function + "' is not a CUDA function that the mock has.");
  }
  return arguments.env().Undefined();
}

Napi::Value clear_failures(const Arguments& arguments) {
  mock::clear_failures(mock_device(arguments).ordinal());
  return arguments.env().Undefined();
}

Napi::Value hold_events(const Arguments& arguments) {
  Device& device = mock_device(arguments);
  mock::hold_events(device.ordinal(), arguments.boolean(1, "hold"));
  return arguments.env().Undefined();
}

Napi::Value complete_events(const Arguments& arguments) {
  Device& device = mock_device(arguments);
  const int32_t stream = arguments.id(1, "stream");
  const bool all = stream == -1;
  mock::complete_events(device.ordinal(), all ? nullptr : device.stream_handle(stream), all);
  return arguments.env().Undefined();
}

Napi::Value take_by_others(const Arguments& arguments) {
  Device& device = mock_device(arguments);
  mock::take_by_others(device.ordinal(), arguments.integer(1, "bytes", -kLargest, kLargest));
  return arguments.env().Undefined();
}

Napi::Value lose_device(const Arguments& arguments) {
  Device& device = mock_device(arguments);
  mock::lose_device(device.ordinal(), parse_error(arguments.text(1, "error")));
  return arguments.env().Undefined();
}

Napi::Value set_capturing(const Arguments& arguments) {
  Device& device = mock_device(arguments);
  const CUstream stream = device.stream_handle(arguments.id(1, "stream"));
  if (!mock::set_capturing(device.ordinal(), stream, arguments.boolean(2, "capturing"))) {
    throw Error(ErrorCode::InvalidAddress, "The mock does not know the stream.");
  }
  return arguments.env().Undefined();
}

Napi::Value counters(const Arguments& arguments) {
  Napi::Object result = Napi::Object::New(arguments.env());
  for (const auto& [name, count] : mock::counters(mock_device(arguments).ordinal())) {
    result.Set(name, static_cast<double>(count));
  }
  return result;
}

Napi::Value reset_counters(const Arguments& arguments) {
  mock::reset_counters(mock_device(arguments).ordinal());
  return arguments.env().Undefined();
}

}  // namespace

void add_mock_controls(Napi::Object exports) {
  add<fail_nth>(exports, "mockFailNth");
  add<clear_failures>(exports, "mockClearFailures");
  add<hold_events>(exports, "mockHoldEvents");
  add<complete_events>(exports, "mockCompleteEvents");
  add<take_by_others>(exports, "mockTakeByOthers");
  add<lose_device>(exports, "mockLoseDevice");
  add<set_capturing>(exports, "mockSetCapturing");
  add<counters>(exports, "mockCounters");
  add<reset_counters>(exports, "mockResetCounters");
}

}  // namespace cudalloc

#include "standin.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "mock/mock.h"

#ifndef CUDALLOC_STANDIN_DEFAULT_VERSION
#error "the build says which driver this library stands in for"
#endif

namespace cudalloc::standin {
namespace {

uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "cudalloc stand-in driver: %s\n", what.c_str());
  std::abort();
}

int error_number(const std::string& text) {
  const int named = mock::error_by_name(text);
  if (named >= 0) return named;
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != 0) refuse("no such error: " + text);
  return static_cast<int>(value);
}

void inject(const char* text) {
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    std::istringstream parts(item);
    std::string function, n, error;
    std::getline(parts, function, ':');
    std::getline(parts, n, ':');
    std::getline(parts, error, ':');
    if (!mock::fail_nth(mock::kAnyDevice, function, std::strtoull(n.c_str(), nullptr, 10),
                        error_number(error))) {
      refuse("cannot inject " + item);
    }
  }
}

mock::Configuration configuration() {
  mock::Configuration c;
  c.device_count = static_cast<int>(number("CUDALLOC_STANDIN_DEVICES", 1));
  c.default_capacity = number("CUDALLOC_STANDIN_CAPACITY", c.default_capacity);
  c.virtual_memory = number("CUDALLOC_STANDIN_VIRTUAL_MEMORY", 1) != 0;
  c.sharing = number("CUDALLOC_STANDIN_SHARING", 1) != 0;
  c.peer_access = number("CUDALLOC_STANDIN_PEER_ACCESS", 1) != 0;
  c.largest_reservation = number("CUDALLOC_STANDIN_LARGEST_RESERVATION", 0);
  c.driver_version =
      static_cast<int>(number("CUDALLOC_STANDIN_DRIVER_VERSION", CUDALLOC_STANDIN_DEFAULT_VERSION));
  c.runtime_version = static_cast<int>(number("CUDALLOC_STANDIN_RUNTIME_VERSION", 12040));
  return c;
}

const Controls kControls = {
    [](int device, const char* function, uint64_t n, CUresult error) {
      return mock::fail_nth(device, function, n, error);
    },
    mock::clear_failures,
    mock::hold_events,
    mock::complete_events,
    mock::take_by_others,
    mock::lose_device,
    mock::set_capturing,
    [](int device, const char* name) {
      const auto counters = mock::counters(device);
      const auto it = counters.find(name);
      return it == counters.end() ? uint64_t{0} : it->second;
    },
    mock::reset_counters,
    mock::set_shut_down,
};

__attribute__((destructor)) void shut_down_at_exit() { mock::set_shut_down(true); }

#if CUDALLOC_STANDIN_DEFAULT_VERSION >= 11030
void* find_export(const char* name) {
  for (const Export* entry = kExports; entry->name != nullptr; ++entry) {
    if (std::string(name) == entry->name) return entry->address;
  }
  return nullptr;
}

int driver_version() {
  int version = 0;
  functions().cuDriverGetVersion(&version);
  return version;
}
#endif

}  // namespace

const Functions& functions() {
  static const bool configured = [] {
    if (!mock::configure(configuration())) refuse("the configuration in the environment is not valid");
    if (const char* failures = std::getenv("CUDALLOC_STANDIN_FAIL")) inject(failures);
    return true;
  }();
  static_cast<void>(configured);
  return mock::functions();
}

#define CUDALLOC_EXPORT extern "C" __attribute__((visibility("default")))

CUDALLOC_EXPORT const Controls* cudalloc_standin_controls() {
  functions();
  return &kControls;
}

/** For the stand-in runtime, which works on the same devices. */
CUDALLOC_EXPORT const Functions* cudalloc_standin_functions() { return &functions(); }

#if CUDALLOC_STANDIN_DEFAULT_VERSION >= 11030
CUDALLOC_EXPORT CUresult cuGetProcAddress(const char* name, void** address, int version, uint64_t) {
  if (name == nullptr || address == nullptr || version > driver_version()) return CUDA_ERROR_INVALID_VALUE;
  *address = find_export(name);
  return *address == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
#endif

#if CUDALLOC_STANDIN_DEFAULT_VERSION >= 12000
CUDALLOC_EXPORT CUresult cuGetProcAddress_v2(const char* name, void** address, int version, uint64_t,
                                             int* status) {
  constexpr int kSymbolNotFound = 1;
  if (name == nullptr || address == nullptr || version > driver_version()) return CUDA_ERROR_INVALID_VALUE;
  *address = find_export(name);
  if (status != nullptr) *status = *address == nullptr ? kSymbolNotFound : 0;
  return CUDA_SUCCESS;
}
#endif

}  // namespace cudalloc::standin

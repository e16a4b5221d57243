// dlopen and symbol lookup for the table. The libraries stay loaded until the process ends: other code may
// use them too.
#include "loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "errors.h"

namespace cudalloc {
namespace {

// The newest version of the interface whose signatures functions.h declares.
constexpr int kInterfaceVersion = 12000;

using GetProcAddress = CUresult (*)(const char*, void**, int, uint64_t);
using GetProcAddressV2 = CUresult (*)(const char*, void**, int, uint64_t, int*);

void* open_library(const std::string& name, std::string& reason) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  const char* text = dlerror();
  reason = text ? text : name + " could not be loaded";
  return nullptr;
}

// Asks the driver for the version of a function that functions.h declares; before 11.3 the exported names
// carry it.
class SymbolLookup {
 public:
  explicit SymbolLookup(void* library) : library_(library) {
    v2_ = reinterpret_cast<GetProcAddressV2>(dlsym(library, "cuGetProcAddress_v2"));
    v1_ = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress"));
    auto get_version = reinterpret_cast<CUresult (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
    int version = 0;
    // An older driver refuses to be asked for versions of the future.
    if (get_version && get_version(&version) == CUDA_SUCCESS && version > 0) {
      version_ = std::min(version, kInterfaceVersion);
    }
  }

  void* find(const char* name, const char* exported) const {
    void* symbol = nullptr;
    if (v2_) {
      int status = 0;
      return v2_(name, &symbol, version_, 0, &status) == CUDA_SUCCESS && status == 0 ? symbol : nullptr;
    }
    if (v1_) return v1_(name, &symbol, version_, 0) == CUDA_SUCCESS ? symbol : nullptr;
    return dlsym(library_, exported);
  }

 private:
  void* library_;
  GetProcAddressV2 v2_ = nullptr;
  GetProcAddress v1_ = nullptr;
  int version_ = kInterfaceVersion;
};

// Names of the required functions that are missing, joined; empty when there are none.
std::string fill_driver_functions(void* library, Driver& driver) {
  SymbolLookup lookup(library);
  constexpr bool Required = true;
  constexpr bool Optional = false;
  std::string required;
  auto note_missing = [&](const char* name, bool need) {
    driver.missing.push_back(name);
    if (need) required += (required.empty() ? "" : ", ") + std::string(name);
  };
#define X(name, exported, need, params)                                                        \
  driver.functions.name = reinterpret_cast<CUresult(*) params>(lookup.find(#name, #exported)); \
  if (!driver.functions.name) note_missing(#name, need);
  CUDALLOC_DRIVER_FUNCTIONS(X)
#undef X
  return required;
}

std::string describe(const Functions& functions, Fn fn, CUresult error) {
  return std::string(name_of(fn)) + " answers " + error_name(functions, fn, error);
}

// Starts the driver and counts its devices; the reason is in `device_reason` when there is none.
void count_devices(Driver& driver) {
  const Functions& cuda = driver.functions;
  CUresult result = cuda.cuInit(0);
  if (result == CUDA_ERROR_STUB_LIBRARY) {
    driver.driver_reason =
        driver.driver_library +
        " is the stub that the CUDA toolkit installs for linking (CUDA_ERROR_STUB_LIBRARY); the "
        "NVIDIA driver's own library must come first in the library path.";
    return;
  }
  if (result == CUDA_ERROR_NO_DEVICE) {
    driver.device_reason = "The driver finds no CUDA device (cuInit answers CUDA_ERROR_NO_DEVICE).";
    return;
  }
  if (result != CUDA_SUCCESS) {
    driver.device_reason = "The driver does not start: " + describe(cuda, Fn::cuInit, result) + ".";
    return;
  }
  int count = 0;
  result = cuda.cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) {
    driver.device_reason =
        "The devices cannot be counted: " + describe(cuda, Fn::cuDeviceGetCount, result) + ".";
    return;
  }
  if (count == 0)
    driver.device_reason = "The driver finds no CUDA device (CUDA_VISIBLE_DEVICES may hide it).";
  driver.device_count = count;
}

// True when the library has every function of the runtime's part and is not newer than the driver.
bool fill_runtime_functions(void* library, const std::string& name, Driver& driver, std::string& reason) {
  Functions found = driver.functions;
  std::string missing;
#define X(symbol, params)                                                          \
  found.symbol = reinterpret_cast<cudaError_t(*) params>(dlsym(library, #symbol)); \
  if (!found.symbol && missing.empty()) missing = #symbol;
  CUDALLOC_RUNTIME_FUNCTIONS(X)
#undef X
  if (!missing.empty()) {
    reason = name + " has no " + missing;
    return false;
  }
  int version = 0;
  cudaError_t result = found.cudaRuntimeGetVersion(&version);
  if (result != cudaSuccess) {
    reason = name + ": " + describe(driver.functions, Fn::cudaRuntimeGetVersion, result);
    return false;
  }
  if (version / 1000 > driver.driver_version / 1000) {
    reason = name + " is version " + std::to_string(version) + ", too new for the driver's " +
             std::to_string(driver.driver_version);
    return false;
  }
  driver.functions = found;
  driver.runtime_library = name;
  driver.runtime_version = version;
  return true;
}

void load_runtime(Driver& driver, const std::vector<std::string>& names) {
  std::string reasons;
  for (const std::string& name : names) {
    std::string reason;
    void* library = open_library(name, reason);
    if (library && fill_runtime_functions(library, name, driver, reason)) return;
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  driver.runtime_reason = reasons.empty()
                              ? "No CUDA runtime library was asked for (CUDALLOC_LIBCUDART is empty)."
                              : "No CUDA runtime library could be used: " + reasons + ".";
}

}  // namespace

Driver load_driver(const std::string& driver_name, const std::vector<std::string>& runtime_names) {
  Driver driver;
  std::string reason;
  void* library = open_library(driver_name, reason);
  if (!library) {
    driver.driver_reason = "The CUDA driver library could not be loaded: " + reason + ".";
    driver.device_reason = "There is no CUDA driver.";
    driver.runtime_reason = "It was not looked for, since there is no CUDA driver.";
    return driver;
  }
  driver.driver_library = driver_name;
  std::string missing = fill_driver_functions(library, driver);
  if (driver.functions.cuDriverGetVersion &&
      driver.functions.cuDriverGetVersion(&driver.driver_version) != CUDA_SUCCESS) {
    driver.driver_version = 0;
  }
  if (!missing.empty()) {
    driver.driver_reason = driver_name + " (version " + std::to_string(driver.driver_version) +
                           ") lacks functions that are needed: " + missing + ".";
  } else {
    count_devices(driver);
  }
  if (!driver.driver_reason.empty()) driver.device_reason = "The CUDA driver cannot be used.";
  if (driver.device_count == 0) {
    driver.runtime_reason = "It was not looked for, since there is no CUDA device.";
  } else {
    load_runtime(driver, runtime_names);
  }
  return driver;
}

const Driver& driver() {
  static std::once_flag once;
  // Never destroyed: threads may still be calling while the process ends.
  static const Driver* loaded = nullptr;
  std::call_once(once, [] {
    const char* cuda = std::getenv("CUDALLOC_LIBCUDA");
    const char* runtime = std::getenv("CUDALLOC_LIBCUDART");
    std::vector<std::string> runtimes{"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                      "libcudart.so"};
    if (runtime) runtimes = *runtime ? std::vector<std::string>{runtime} : std::vector<std::string>{};
    loaded = new Driver(load_driver(cuda && *cuda ? cuda : "libcuda.so.1", runtimes));
  });
  return *loaded;
}

}  // namespace cudalloc

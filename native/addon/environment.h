// What one JavaScript environment (the main thread or a worker) has open. Ends with it: everything is given
// back then, in the cleanup hook, without a word.
#pragma once

#include <napi.h>

#include <memory>
#include <unordered_map>

#include "../cuda/device.h"

namespace cudalloc {

class Environment {
 public:
  // Creates the state of `env` and registers its end.
  static void attach(Napi::Env env);
  static Environment& of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

  int32_t add(std::unique_ptr<Device> device);
  // Throws UseAfterFree or InvalidAddress when there is no such device here.
  Device& device(int64_t id);
  // Throws as Device::close does; the device is gone unless it was Capturing.
  void close(int64_t id);
  void close_all() { devices_.clear(); }

 private:
  std::unordered_map<int64_t, std::unique_ptr<Device>> devices_;
};

}  // namespace cudalloc

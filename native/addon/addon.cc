// Entry point of the addon, called once in each environment that loads it.
#include "environment.h"
#include "groups.h"

static Napi::Object init(Napi::Env env, Napi::Object exports) {
  cudalloc::Environment::attach(env);
  cudalloc::add_device(exports);
  cudalloc::add_memory(exports);
  cudalloc::add_virtual_memory(exports);
  cudalloc::add_offers(exports);
  cudalloc::add_sharing(exports);
  cudalloc::add_stream(exports);
  cudalloc::add_kernel(exports);
  cudalloc::add_mock_controls(exports);
  return exports;
}

NODE_API_MODULE(cudalloc, init)

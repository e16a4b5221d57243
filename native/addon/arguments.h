// Arguments of a call from JavaScript, checked: a wrong type is a TypeError, a number out of its range an
// error that names it. And the way back: exceptions of the core as Error objects.
#pragma once

#include <napi.h>

#include <string>

#include "environment.h"

namespace cudalloc {

// The elements of a typed array, valid while the JavaScript thread is in the call.
template <typename T>
struct View {
  T* data;
  size_t length;
};

class Arguments {
 public:
  explicit Arguments(const Napi::CallbackInfo& info) : info_(info) {}

  Napi::Env env() const { return info_.Env(); }
  Napi::Value operator[](size_t i) const { return info_[i]; }

  Device& device(size_t i) const;
  // Whole numbers up to 2^53.
  uint64_t bytes(size_t i, const char* name) const;
  uint64_t positive_bytes(size_t i, const char* name) const;
  uint64_t address(size_t i, const char* name) const;
  // An identifier; -1 and anything else that fits is left to the lookup.
  int32_t id(size_t i, const char* name) const;
  // RangeError outside of the bounds.
  int64_t integer(size_t i, const char* name, int64_t least, int64_t most) const;
  bool boolean(size_t i, const char* name) const;
  std::string text(size_t i, const char* name) const;
  uint64_t bigint(size_t i, const char* name) const;

  View<uint8_t> bytes_view(size_t i, const char* name) const;
  View<int32_t> int32_view(size_t i, const char* name) const;
  View<uint32_t> uint32_view(size_t i, const char* name) const;
  View<double> float64_view(size_t i, const char* name) const;

 private:
  double number(size_t i, const char* name) const;
  uint64_t whole(size_t i, const char* name, uint64_t least, ErrorCode code) const;
  template <typename T>
  View<T> view(size_t i, const char* name, napi_typedarray_type type, const char* type_name) const;

  const Napi::CallbackInfo& info_;
};

// An Error with `code`, and `fn`, `cudaError`, `cudaCode` where a CUDA function failed.
Napi::Error to_javascript(Napi::Env env, const Error& error);

using Body = Napi::Value (*)(const Arguments& arguments);

// A body as Node-API calls it.
template <Body body>
Napi::Value entry(const Napi::CallbackInfo& info) {
  try {
    return body(Arguments(info));
  } catch (const Error& error) {
    throw to_javascript(info.Env(), error);
  } catch (const std::bad_alloc&) {
    throw Napi::Error::New(info.Env(), "There is no host memory left for the call.");
  }
}

template <Body body>
void add(Napi::Object exports, const char* name) {
  exports.Set(name, Napi::Function::New<entry<body>>(exports.Env(), name));
}

}  // namespace cudalloc

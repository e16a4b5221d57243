// Checked arguments, and exceptions as Error objects.
#include "arguments.h"

#include <cmath>

namespace cudalloc {
namespace {

constexpr double kLargestNumber = 9007199254740992.0;  // 2^53

std::string shown(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

double Arguments::number(size_t i, const char* name) const {
  const Napi::Value value = info_[i];
  if (!value.IsNumber()) throw Napi::TypeError::New(env(), std::string(name) + " must be a number.");
  return value.As<Napi::Number>().DoubleValue();
}

uint64_t Arguments::whole(size_t i, const char* name, uint64_t least, ErrorCode code) const {
  const double value = number(i, name);
  if (value >= static_cast<double>(least) && value <= kLargestNumber && value == std::floor(value)) {
    return static_cast<uint64_t>(value);
  }
  throw Error(code, std::string(name) + " must be a whole number from " + std::to_string(least) +
                        " to 2^53, not " + shown(value) + ".");
}

uint64_t Arguments::bytes(size_t i, const char* name) const {
  return whole(i, name, 0, ErrorCode::InvalidSize);
}

uint64_t Arguments::positive_bytes(size_t i, const char* name) const {
  return whole(i, name, 1, ErrorCode::InvalidSize);
}

uint64_t Arguments::address(size_t i, const char* name) const {
  return whole(i, name, 0, ErrorCode::InvalidAddress);
}

int32_t Arguments::id(size_t i, const char* name) const {
  const double value = number(i, name);
  if (value >= INT32_MIN && value <= INT32_MAX && value == std::floor(value))
    return static_cast<int32_t>(value);
  throw Error(ErrorCode::InvalidAddress, "There is no " + std::string(name) + " " + shown(value) + ".");
}

Device& Arguments::device(size_t i) const { return Environment::of(env()).device(id(i, "device")); }

int64_t Arguments::integer(size_t i, const char* name, int64_t least, int64_t most) const {
  const double value = number(i, name);
  if (value >= static_cast<double>(least) && value <= static_cast<double>(most) &&
      value == std::floor(value)) {
    return static_cast<int64_t>(value);
  }
  throw Napi::RangeError::New(env(), std::string(name) + " must be a whole number from " +
                                         std::to_string(least) + " to " + std::to_string(most) + ", not " +
                                         shown(value) + ".");
}

bool Arguments::boolean(size_t i, const char* name) const {
  const Napi::Value value = info_[i];
  if (!value.IsBoolean()) throw Napi::TypeError::New(env(), std::string(name) + " must be true or false.");
  return value.As<Napi::Boolean>().Value();
}

std::string Arguments::text(size_t i, const char* name) const {
  const Napi::Value value = info_[i];
  if (!value.IsString()) throw Napi::TypeError::New(env(), std::string(name) + " must be a string.");
  return value.As<Napi::String>().Utf8Value();
}

uint64_t Arguments::bigint(size_t i, const char* name) const {
  const Napi::Value value = info_[i];
  if (!value.IsBigInt()) throw Napi::TypeError::New(env(), std::string(name) + " must be a bigint.");
  bool lossless = false;
  const uint64_t number = value.As<Napi::BigInt>().Uint64Value(&lossless);
  if (!lossless || number > static_cast<uint64_t>(kLargestNumber)) {
    throw Error(ErrorCode::InvalidAddress, std::string(name) + " must be from 0 to 2^53.");
  }
  return number;
}

template <typename T>
View<T> Arguments::view(size_t i, const char* name, napi_typedarray_type type, const char* type_name) const {
  const Napi::Value value = info_[i];
  napi_typedarray_type actual = napi_int8_array;
  void* data = nullptr;
  size_t length = 0;
  // Asked of Node-API itself, which also takes arrays over shared memory.
  if (!value.IsTypedArray() ||
      napi_get_typedarray_info(env(), value, &actual, &length, &data, nullptr, nullptr) != napi_ok ||
      actual != type) {
    throw Napi::TypeError::New(env(), std::string(name) + " must be a " + type_name + ".");
  }
  return {static_cast<T*>(data), length};
}

View<uint8_t> Arguments::bytes_view(size_t i, const char* name) const {
  return view<uint8_t>(i, name, napi_uint8_array, "Uint8Array");
}

View<int32_t> Arguments::int32_view(size_t i, const char* name) const {
  return view<int32_t>(i, name, napi_int32_array, "Int32Array");
}

View<uint32_t> Arguments::uint32_view(size_t i, const char* name) const {
  return view<uint32_t>(i, name, napi_uint32_array, "Uint32Array");
}

View<double> Arguments::float64_view(size_t i, const char* name) const {
  return view<double>(i, name, napi_float64_array, "Float64Array");
}

Napi::Error to_javascript(Napi::Env env, const Error& error) {
  Napi::Error result = Napi::Error::New(env, error.what());
  result.Set("code", Napi::String::New(env, code_name(error.code())));
  if (!error.fn().empty()) {
    result.Set("fn", Napi::String::New(env, error.fn()));
    result.Set("cudaError", Napi::String::New(env, error.cuda_error()));
    result.Set("cudaCode", Napi::Number::New(env, error.cuda_code()));
  }
  return result;
}

}  // namespace cudalloc

// The one exception of the native core, and how a CUDA error becomes one. Must not know JavaScript; the addon
// turns it into an Error object with the same fields.
#pragma once

#include <exception>
#include <string>

#include "calls.h"

namespace cudalloc {

// `ERR_CUDALLOC_` and the name in capitals at the border.
enum class ErrorCode {
  Driver,
  DeviceLost,
  AddressSpace,
  NoDevice,
  Unsupported,
  Capturing,
  Config,
  InvalidSize,
  InvalidAddress,
  UseAfterFree,
};

const char* code_name(ErrorCode code);

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
  Error(ErrorCode code, std::string message, Fn fn, std::string cuda_error, int cuda_code)
      : code_(code),
        message_(std::move(message)),
        fn_(name_of(fn)),
        cuda_error_(std::move(cuda_error)),
        cuda_code_(cuda_code) {}

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorCode code() const { return code_; }
  // Empty when no CUDA function failed.
  const std::string& fn() const { return fn_; }
  const std::string& cuda_error() const { return cuda_error_; }
  int cuda_code() const { return cuda_code_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::string fn_;
  std::string cuda_error_;
  int cuda_code_ = 0;
};

// After such an error nothing works on the device any more in this process.
bool is_sticky(int error);
// The driver or the runtime is shutting down, as at the end of the process: what was to be released is gone
// already.
bool is_shutting_down(int error);

// CUDA's name of an error, the runtime's own where a runtime function returned it.
std::string error_name(const Functions& functions, Fn fn, int error);

// The exception for a failed call. `detail` says what was asked, with the sizes: "2097152 bytes on device 0".
Error driver_error(const Functions& functions, Fn fn, int error, const std::string& detail);

// "0x7f0000000000"
std::string hex(uint64_t address);

}  // namespace cudalloc

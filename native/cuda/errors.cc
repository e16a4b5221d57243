// How a CUDA error becomes the exception of the native core: its code, its name and its sentence.
#include "errors.h"

#include <cinttypes>
#include <cstdio>

namespace cudalloc {
namespace {

ErrorCode classify(Fn fn, int error) {
  if (is_sticky(error)) return ErrorCode::DeviceLost;
  switch (error) {
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return ErrorCode::Capturing;
    default:
      return fn == Fn::cuMemAddressReserve ? ErrorCode::AddressSpace : ErrorCode::Driver;
  }
}

// The runtime numbers its errors as the driver does, but has names of its own. Null for one that is not
// listed.
const char* runtime_error_name(int error) {
  switch (error) {
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case CUDA_ERROR_NOT_INITIALIZED:
      return "cudaErrorInitializationError";
    case cudaErrorCudartUnloading:
      return "cudaErrorCudartUnloading";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return "cudaErrorDevicesUnavailable";
    case CUDA_ERROR_NO_DEVICE:
      return "cudaErrorNoDevice";
    case CUDA_ERROR_INVALID_DEVICE:
      return "cudaErrorInvalidDevice";
    case CUDA_ERROR_INVALID_CONTEXT:
      return "cudaErrorDeviceUninitialized";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
      return "cudaErrorECCUncorrectable";
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
      return "cudaErrorNvlinkUncorrectable";
    case CUDA_ERROR_CONTAINED:
      return "cudaErrorContained";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      return "cudaErrorIllegalAddress";
    case CUDA_ERROR_LAUNCH_TIMEOUT:
      return "cudaErrorLaunchTimeout";
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return "cudaErrorContextIsDestroyed";
    case CUDA_ERROR_ASSERT:
      return "cudaErrorAssert";
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
      return "cudaErrorHardwareStackError";
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
      return "cudaErrorIllegalInstruction";
    case CUDA_ERROR_MISALIGNED_ADDRESS:
      return "cudaErrorMisalignedAddress";
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
      return "cudaErrorInvalidAddressSpace";
    case CUDA_ERROR_INVALID_PC:
      return "cudaErrorInvalidPc";
    case CUDA_ERROR_LAUNCH_FAILED:
      return "cudaErrorLaunchFailure";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      return "cudaErrorStreamCaptureUnsupported";
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return "cudaErrorStreamCaptureImplicit";
    case CUDA_ERROR_UNKNOWN:
      return "cudaErrorUnknown";
    default:
      return nullptr;
  }
}

}  // namespace

const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::Driver:
      return "ERR_CUDALLOC_DRIVER";
    case ErrorCode::DeviceLost:
      return "ERR_CUDALLOC_DEVICE_LOST";
    case ErrorCode::AddressSpace:
      return "ERR_CUDALLOC_ADDRESS_SPACE";
    case ErrorCode::NoDevice:
      return "ERR_CUDALLOC_NO_DEVICE";
    case ErrorCode::Unsupported:
      return "ERR_CUDALLOC_UNSUPPORTED";
    case ErrorCode::Capturing:
      return "ERR_CUDALLOC_CAPTURING";
    case ErrorCode::Config:
      return "ERR_CUDALLOC_CONFIG";
    case ErrorCode::InvalidSize:
      return "ERR_CUDALLOC_INVALID_SIZE";
    case ErrorCode::InvalidAddress:
      return "ERR_CUDALLOC_INVALID_ADDRESS";
    case ErrorCode::UseAfterFree:
      return "ERR_CUDALLOC_USE_AFTER_FREE";
  }
  return "ERR_CUDALLOC_DRIVER";
}

bool is_sticky(int error) {
  switch (error) {
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

bool is_shutting_down(int error) { return error == CUDA_ERROR_DEINITIALIZED; }

std::string error_name(const Functions& functions, Fn fn, int error) {
  if (is_runtime(fn)) {
    if (const char* name = runtime_error_name(error)) return name;
  }
  const char* name = nullptr;
  if (functions.cuGetErrorName && functions.cuGetErrorName(error, &name) == CUDA_SUCCESS && name) return name;
  return "CUDA_ERROR_" + std::to_string(error);
}

Error driver_error(const Functions& functions, Fn fn, int error, const std::string& detail) {
  std::string name = error_name(functions, fn, error);
  std::string message = std::string(name_of(fn)) + " failed with " + name;
  const char* text = nullptr;
  if (functions.cuGetErrorString && functions.cuGetErrorString(error, &text) == CUDA_SUCCESS && text) {
    message += std::string(" (") + text + ")";
  }
  if (!detail.empty()) message += ": " + detail;
  return Error(classify(fn, error), message + ".", fn, name, error);
}

std::string hex(uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, address);
  return text;
}

}  // namespace cudalloc

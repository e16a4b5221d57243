#include "calls.h"

#include <cstddef>

namespace cudalloc::mock {
Fn fn_by_name(const std::string& name) {
  for (int i = 0; i < kFunctionCount; ++i) {
    if (name == kFunctionNames[i]) return static_cast<Fn>(i);
  }
  return Fn::kCount;
}

bool works_always(Fn fn) {
  switch (fn) {
    case Fn::cuInit:
    case Fn::cuDriverGetVersion:
    case Fn::cuGetErrorName:
    case Fn::cuGetErrorString:
    case Fn::cudaGetLastError:
    case Fn::cudaRuntimeGetVersion:
      return true;
    default:
      return false;
  }
}

bool is_bookkeeping(Fn fn) {
  switch (fn) {
    case Fn::cuCtxPushCurrent:
    case Fn::cuCtxPopCurrent:
    case Fn::cuGetErrorName:
    case Fn::cuGetErrorString:
    case Fn::cudaGetLastError:
      return true;
    default:
      return false;
  }
}

CUresult take_due(std::vector<Injection>& injections, Fn fn) {
  CUresult error = CUDA_SUCCESS;
  for (size_t i = 0; i < injections.size();) {
    Injection& injection = injections[i];
    const bool hit = injection.fn == fn || (injection.fn == Fn::kCount && !is_bookkeeping(fn));
    if (hit && injection.calls_left == 0 && error == CUDA_SUCCESS) error = injection.error;
    // Two that are due at once: the second keeps waiting for the next call.
    const bool last = hit && injection.calls_left == 1;
    if (hit && injection.calls_left > 1) --injection.calls_left;
    if (last && error == CUDA_SUCCESS) {
      error = injection.error;
      injections.erase(injections.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return error;
}

}  // namespace cudalloc::mock

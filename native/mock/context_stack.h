// Which context is current on the calling thread. Plain data without a destructor, since calls may come while
// a thread or the process ends.
#pragma once

#include "../cuda/types.h"

namespace cudalloc::mock {

struct ContextStack {
  static constexpr int kDepth = 256;
  int devices[kDepth];
  int depth;
  int runtime_device;         // cudaSetDevice
  cudaError_t runtime_error;  // cudaGetLastError

  /** -1 when there is none. */
  int top() const { return depth == 0 ? -1 : devices[depth - 1]; }
};

extern thread_local ContextStack context_stack;

/** The primary context of a device as a handle, and back (-1: no such context). */
CUcontext context_of(int device);
int device_of(CUcontext context);

}  // namespace cudalloc::mock

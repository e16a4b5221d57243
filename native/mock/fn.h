// Declares the mock's implementation of every function of the table, under CUDA's names. Must not know what
// they do.
#pragma once

#include "../cuda/functions.h"

namespace cudalloc::mock::fn {

#define X(name, exported, need, params) CUresult name params;
CUDALLOC_DRIVER_FUNCTIONS(X)
#undef X
#define X(name, params) cudaError_t name params;
CUDALLOC_RUNTIME_FUNCTIONS(X)
#undef X

}  // namespace cudalloc::mock::fn

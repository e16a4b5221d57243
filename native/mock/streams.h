// Finding the stream behind a handle. Must not know what is enqueued.
#pragma once

#include "state.h"

namespace cudalloc::mock {

/** The stream of a handle (null and the special handles: those of `device`). @return null when unknown. */
StreamPointer find_stream(State& state, Device& device, CUstream handle);

/**
 * The stream for work of `device`'s context. CUDA_ERROR_INVALID_HANDLE when there is none or it is of another
 * context; CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the default stream while a stream that synchronises with it
 * is being captured.
 */
CUresult stream_for_work(State& state, Device& device, CUstream handle, StreamPointer* stream);

}  // namespace cudalloc::mock

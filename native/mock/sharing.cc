// Memory that goes from one process to another: a handle with a file of its own is exported as that file's
// descriptor.
#include <utility>

#include "fn.h"
#include "state.h"

namespace cudalloc::mock {

CUresult fn::cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle, int type,
                                          unsigned long long flags) {
  return call(Fn::cuMemExportToShareableHandle, -1, [&](State& state) -> CUresult {
    if (shareable == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const auto it = state.physicals.find(handle);
    if (it == state.physicals.end() || it->second.released || it->second.file == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    MemoryFile copy;
    const CUresult result = copy.open_shareable(it->second.file->descriptor());
    if (result == CUDA_SUCCESS) *static_cast<int*>(shareable) = copy.release();
    return result;
  });
}

CUresult fn::cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable, int type) {
  return call_in_context(Fn::cuMemImportFromShareableHandle, [&](State& state, Device& device) -> CUresult {
    if (handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return CUDA_ERROR_INVALID_VALUE;
    if (!state.configuration.sharing) return CUDA_ERROR_NOT_SUPPORTED;
    Physical physical{device.index, 0, 0, std::make_shared<MemoryFile>(), true};
    const auto descriptor = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
    const CUresult result = physical.file->open_shareable(descriptor);
    if (result != CUDA_SUCCESS) return result;
    physical.bytes = physical.file->bytes();
    *handle = ++state.handles;
    state.physicals.emplace(*handle, std::move(physical));
    return CUDA_SUCCESS;
  });
}

}  // namespace cudalloc::mock

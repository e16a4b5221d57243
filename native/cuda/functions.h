// The table of CUDA functions: one row each, named as CUDA names it. The loader fills it from the driver's
// libraries, the mock with stand-ins of the same signatures. Must not know who fills it.
//
// CUDALLOC_DRIVER_FUNCTIONS(X): X(name, exported name of the newest ABI, need, parameter list)
//   `exported` is what dlsym finds where cuGetProcAddress is absent (before 11.3).
//   need: Required (no device without it), Optional (its feature is off without it, and the caller checks for
//   null).
// CUDALLOC_RUNTIME_FUNCTIONS(X): X(name, parameter list), all optional together: without them cuMemAlloc is
// used.
#pragma once

#include "types.h"

// clang-format off
#define CUDALLOC_DRIVER_FUNCTIONS(X) \
  X(cuInit, cuInit, Required, (unsigned flags)) \
  X(cuDriverGetVersion, cuDriverGetVersion, Required, (int* version)) \
  X(cuGetErrorName, cuGetErrorName, Required, (CUresult error, const char** name)) \
  X(cuGetErrorString, cuGetErrorString, Required, (CUresult error, const char** text)) \
  X(cuDeviceGetCount, cuDeviceGetCount, Required, (int* count)) \
  X(cuDeviceGet, cuDeviceGet, Required, (CUdevice* device, int ordinal)) \
  X(cuDeviceGetName, cuDeviceGetName, Required, (char* name, int length, CUdevice device)) \
  X(cuDeviceGetUuid, cuDeviceGetUuid, Optional, (CUuuid* uuid, CUdevice device)) \
  X(cuDeviceTotalMem, cuDeviceTotalMem_v2, Required, (size_t* bytes, CUdevice device)) \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, Required, (int* value, int attribute, CUdevice device)) \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, Required, (CUcontext* context, CUdevice device)) \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, Required, (CUdevice device)) \
  X(cuCtxPushCurrent, cuCtxPushCurrent_v2, Required, (CUcontext context)) \
  X(cuCtxPopCurrent, cuCtxPopCurrent_v2, Required, (CUcontext* context)) \
  X(cuCtxSynchronize, cuCtxSynchronize, Required, ()) \
  X(cuMemGetInfo, cuMemGetInfo_v2, Required, (size_t* free, size_t* total)) \
  X(cuMemAlloc, cuMemAlloc_v2, Required, (CUdeviceptr* address, size_t bytes)) \
  X(cuMemFree, cuMemFree_v2, Required, (CUdeviceptr address)) \
  X(cuMemHostAlloc, cuMemHostAlloc, Required, (void** address, size_t bytes, unsigned flags)) \
  X(cuMemFreeHost, cuMemFreeHost, Required, (void* address)) \
  X(cuMemAddressReserve, cuMemAddressReserve, Optional, (CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags)) \
  X(cuMemAddressFree, cuMemAddressFree, Optional, (CUdeviceptr address, size_t bytes)) \
  X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, Optional, (size_t* granularity, const CUmemAllocationProp* prop, int option)) \
  X(cuMemCreate, cuMemCreate, Optional, (CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* prop, unsigned long long flags)) \
  X(cuMemRelease, cuMemRelease, Optional, (CUmemGenericAllocationHandle handle)) \
  X(cuMemMap, cuMemMap, Optional, (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
  X(cuMemUnmap, cuMemUnmap, Optional, (CUdeviceptr address, size_t bytes)) \
  X(cuMemSetAccess, cuMemSetAccess, Optional, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc* desc, size_t count)) \
  X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, Optional, (void* shareable, CUmemGenericAllocationHandle handle, int type, unsigned long long flags)) \
  X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, Optional, (CUmemGenericAllocationHandle* handle, void* shareable, int type)) \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, Required, (CUdeviceptr target, const void* source, size_t bytes, CUstream stream)) \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, Required, (void* target, CUdeviceptr source, size_t bytes, CUstream stream)) \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, Required, (CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)) \
  X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, Required, (CUdeviceptr target, CUcontext target_context, CUdeviceptr source, CUcontext source_context, size_t bytes, CUstream stream)) \
  X(cuMemsetD8Async, cuMemsetD8Async, Required, (CUdeviceptr address, unsigned char byte, size_t bytes, CUstream stream)) \
  X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, Required, (int* can, CUdevice device, CUdevice peer)) \
  X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, Required, (CUcontext peer, unsigned flags)) \
  X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, Required, (CUstream* stream, unsigned flags, int priority)) \
  X(cuStreamDestroy, cuStreamDestroy_v2, Required, (CUstream stream)) \
  X(cuStreamSynchronize, cuStreamSynchronize, Required, (CUstream stream)) \
  X(cuStreamQuery, cuStreamQuery, Required, (CUstream stream)) \
  X(cuStreamWaitEvent, cuStreamWaitEvent, Required, (CUstream stream, CUevent event, unsigned flags)) \
  X(cuStreamIsCapturing, cuStreamIsCapturing, Optional, (CUstream stream, int* status)) \
  X(cuEventCreate, cuEventCreate, Required, (CUevent* event, unsigned flags)) \
  X(cuEventDestroy, cuEventDestroy_v2, Required, (CUevent event)) \
  X(cuEventRecord, cuEventRecord, Required, (CUevent event, CUstream stream)) \
  X(cuEventQuery, cuEventQuery, Required, (CUevent event)) \
  X(cuEventSynchronize, cuEventSynchronize, Required, (CUevent event)) \
  X(cuEventElapsedTime, cuEventElapsedTime, Required, (float* milliseconds, CUevent start, CUevent end)) \
  X(cuModuleLoadData, cuModuleLoadData, Required, (CUmodule* module, const void* image)) \
  X(cuModuleUnload, cuModuleUnload, Required, (CUmodule module)) \
  X(cuModuleGetFunction, cuModuleGetFunction, Required, (CUfunction* function, CUmodule module, const char* name)) \
  X(cuLaunchKernel, cuLaunchKernel, Required, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters, void** extra))

#define CUDALLOC_RUNTIME_FUNCTIONS(X) \
  X(cudaMalloc, (void** address, size_t bytes)) \
  X(cudaFree, (void* address)) \
  X(cudaSetDevice, (int device)) \
  X(cudaGetLastError, ()) \
  X(cudaRuntimeGetVersion, (int* version))
// clang-format on

namespace cudalloc {

// The table. A null entry means that the driver does not have the function.
struct Functions {
#define X(name, exported, need, params) CUresult(*name) params = nullptr;
  CUDALLOC_DRIVER_FUNCTIONS(X)
#undef X
#define X(name, params) cudaError_t(*name) params = nullptr;
  CUDALLOC_RUNTIME_FUNCTIONS(X)
#undef X
};

}  // namespace cudalloc

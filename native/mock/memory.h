// Device memory behind addresses: what may be touched by whom, and the giving back of what a device leaves
// behind.
#pragma once

#include "state.h"

namespace cudalloc::mock {

/** A cudaMalloc. CUDA_ERROR_OUT_OF_MEMORY when the device has not so much left; exactly `bytes` are counted.
 */
CUresult allocate(State& state, Device& device, uint64_t bytes, CUdeviceptr* address);

/** A cudaFree: the whole allocation at `address`. CUDA_ERROR_INVALID_VALUE for any other address. */
CUresult free_allocation(State& state, CUdeviceptr address);

/** Gives the memory of an existing allocation back. */
CUresult release_allocation(State& state, CUdeviceptr address);

/** Unmaps and forgets all handles of the device, and all reservations made while it was current. */
void release_virtual_memory(State& state, Device& device);

/** Whether a device may touch all the bytes. Linear in mappings covered. */
bool accessible(State& state, const Device& device, CUdeviceptr address, uint64_t bytes, bool write);

/** Whether any byte lies in address space that belongs to the mock's devices. */
bool overlaps_device_space(const State& state, uint64_t address, uint64_t bytes);

}  // namespace cudalloc::mock

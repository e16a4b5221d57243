// The CPU mock: the table of CUDA functions filled with stand-ins over real memory, and the controls that
// only a stand-in can have. The one header of this folder that others include. Must not know of Node or of
// the code above the table.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "../cuda/functions.h"

namespace cudalloc::mock {

inline constexpr int kMaxDevices = 64;
/** In the place of a device: every call, also those that belong to no device. */
inline constexpr int kAnyDevice = -1;
inline constexpr uint64_t kDefaultCapacity = uint64_t{16} << 30;
/** Unit of physical memory and of address ranges, bytes. */
inline constexpr uint64_t kGranularity = uint64_t{2} << 20;

/** The whole table, process-wide. Every function may be called from any thread. */
const Functions& functions();

/**
 * Opens a mock device (counted). Its capacity is fixed by the first opening and kept until the last
 * `release_device`.
 * @param index ordinal; -1: the lowest one that nobody has open.
 * @param capacity bytes; 0: what it already has, else the default.
 * @param conflict set to whether it was refused because the device is open with another capacity.
 * @return the ordinal, or -1 when refused: such a conflict, no such device, or none left.
 */
int acquire_device(int index, uint64_t capacity, bool* conflict);

/** Undoes one `acquire_device`. After the last one the device is as new: everything left on it is reclaimed.
 */
void release_device(int device);

/**
 * The `n`th call from now (1: the next) that belongs to the device fails with `error` and has no effect;
 * once. A call belongs to the device of the calling thread's current context; without one, to the device it
 * is about.
 * @param device ordinal or `kAnyDevice`.
 * @param function a CUDA function's name, or `*`: any call but those that only look after the thread's
 * context and the texts of errors (`cuCtxPushCurrent`, `cuCtxPopCurrent`, `cuGetErrorName`,
 * `cuGetErrorString`, `cudaGetLastError`).
 * @param n 0: every call from now on, until `clear_failures`.
 * @param error a CUresult, or a cudaError_t where the function is one of the runtime's. Not CUDA_SUCCESS.
 * @return false, and nothing done, for an unknown function or device or for CUDA_SUCCESS.
 */
bool fail_nth(int device, const std::string& function, uint64_t n, CUresult error);

/** Forgets the failures that have not happened yet. */
void clear_failures(int device);

/** Whether events recorded from now on stay pending until completed. */
void hold_events(int device, bool hold);

/** Completes pending events of one stream (null: the default stream), or of all streams. Holding goes on. */
void complete_events(int device, CUstream stream, bool all);

/**
 * Another process takes so many bytes (negative: gives back), at most what is free (or what it had taken).
 * @return the change made, bytes.
 */
int64_t take_by_others(int device, int64_t bytes);

/**
 * Every call on the device fails with `error` from now on, until the last `release_device`.
 * @param error CUDA_SUCCESS: CUDA_ERROR_LAUNCH_FAILED.
 */
void lose_device(int device, CUresult error);

/**
 * Begins or ends the capture of a stream (null: the default stream) into a graph. What is enqueued on a
 * capturing stream is accepted and not executed. @return false when the stream is unknown.
 */
bool set_capturing(int device, CUstream stream, bool capturing);

/**
 * Calls received, by function name; failed ones under `<name>_failed` only (CUDA_ERROR_NOT_READY is no
 * failure). Names that were never called are left out. `unmapUnderPendingWork`: unmappings and frees made
 * while events of the device were pending.
 * @param device ordinal, or `kAnyDevice` for the calls that belong to no device.
 */
std::map<std::string, uint64_t> counters(int device);

void reset_counters(int device);

/** The error's number from its CUDA name (`CUDA_ERROR_OUT_OF_MEMORY`, `cudaErrorMemoryAllocation`); -1 when
 * unknown. */
int error_by_name(const std::string& name);

/** What the machine looks like. */
struct Configuration {
  int device_count = kMaxDevices;
  uint64_t default_capacity = kDefaultCapacity;
  bool virtual_memory = true;        // the device supports virtual memory management
  bool sharing = true;               // memory can be exported to other processes
  bool peer_access = true;           // devices can reach each other's memory
  uint64_t largest_reservation = 0;  // address reservations above this are refused; 0: no limit
  int driver_version = 12040;
  int runtime_version = 12040;
};

/** Replaces the configuration; cuInit is then needed anew. @return false, and nothing done, while a device is
 * in use. */
bool configure(const Configuration& configuration);

/** Whether the driver has shut down: every call then returns CUDA_ERROR_DEINITIALIZED
 * (`cudaErrorCudartUnloading`). */
void set_shut_down(bool shut_down);

/**
 * The process may have so many memory mappings (0: as the kernel says, vm.max_map_count). Short of it by some
 * head room, calls that would make more return CUDA_ERROR_OPERATING_SYSTEM, whose text names the limit. For
 * tests.
 */
void set_mapping_limit(uint64_t limit);

}  // namespace cudalloc::mock

// The mock as driver and runtime libraries with the real exported names, for tests of the loader: what they
// share, and the controls that a test finds by dlsym ("cudalloc_standin_controls"). Must not know what the
// functions do.
//
// Environment, read when the library is loaded (absent: as a current driver with one device of 16 GiB):
//   CUDALLOC_STANDIN_DEVICES              number of devices
//   CUDALLOC_STANDIN_CAPACITY             bytes of each
//   CUDALLOC_STANDIN_VIRTUAL_MEMORY=0     the devices do not support virtual memory management
//   CUDALLOC_STANDIN_SHARING=0            their memory cannot be exported to other processes
//   CUDALLOC_STANDIN_PEER_ACCESS=0        they cannot reach each other's memory
//   CUDALLOC_STANDIN_LARGEST_RESERVATION  bytes; larger address reservations are refused
//   CUDALLOC_STANDIN_DRIVER_VERSION, CUDALLOC_STANDIN_RUNTIME_VERSION  for example 12040
//   CUDALLOC_STANDIN_FAIL                 failures to inject: function:n:error, joined by commas; n 0: every
//   call;
//                                         error: CUDA's name or a number
// When the process ends, the library shuts the driver down before other libraries' destructors run, as the
// driver does.
#pragma once

#include <cstdint>

#include "cuda/functions.h"

namespace cudalloc::standin {

/** The controls of mock/mock.h, on the library's own copy of the mock. */
struct Controls {
  bool (*fail_nth)(int device, const char* function, uint64_t n, CUresult error);
  void (*clear_failures)(int device);
  void (*hold_events)(int device, bool hold);
  void (*complete_events)(int device, CUstream stream, bool all);
  int64_t (*take_by_others)(int device, int64_t bytes);
  void (*lose_device)(int device, CUresult error);
  bool (*set_capturing)(int device, CUstream stream, bool capturing);
  /** @param name as in the mock's counters. */
  uint64_t (*counter)(int device, const char* name);
  void (*reset_counters)(int device);
  void (*set_shut_down)(bool shut_down);
};

/** The mock's table, configured from the environment on first use. */
const Functions& functions();

/** A function that the library exports: the name that cuGetProcAddress knows it by, and where it is. */
struct Export {
  const char* name;
  void* address;
};

/** All that this library exports of the driver, ended by a null name. Generated with the exports. */
extern const Export kExports[];

}  // namespace cudalloc::standin

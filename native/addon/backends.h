// The two backends by name: the CUDA driver and the CPU mock. The only place that knows both.
#pragma once

#include <memory>
#include <string>

#include "../cuda/device.h"

namespace cudalloc {

// Throws Config for an unknown backend, as do all below.
int device_count(const std::string& backend);

// Throws NoDevice with everything that is missing, Config for a capacity that does not fit, and driver
// errors.
std::unique_ptr<Device> open_device(const std::string& backend, int index, uint64_t capacity);

}  // namespace cudalloc

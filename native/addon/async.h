// Work of a device on the thread pool, as a promise.
#pragma once

#include <functional>

#include "arguments.h"

namespace cudalloc {

// Runs announced work (Device::begin_...) on a thread of the pool. `kept` stays alive until the promise
// settles. The promise resolves to undefined or rejects with the work's exception.
Napi::Value run_async(Napi::Env env, Device& device, std::function<void()> work, Napi::Value kept);

}  // namespace cudalloc

// Requests from one JavaScript thread to the others that have the same device open: give back what you do not
// use.
#pragma once

#include <napi.h>

#include <chrono>

#include "../cuda/device.h"

namespace cudalloc {

// Calls `listener(bytes)` on this thread when another one asks; it returns the bytes that it gave back. One
// for each device, instead of the one before; null ends it. Ends with the device and with the environment.
void listen_to_trim_requests(Napi::Env env, const Device& device, Napi::Value listener);
void forget_trim_listener(const Device& device);

// Asks all other threads, waits until each has answered or the time is up, and returns the bytes given back
// by then. A thread that is itself waiting here is passed over: it could not answer.
uint64_t request_trim(Napi::Env env, const Device& device, uint64_t bytes,
                      std::chrono::milliseconds patience);

}  // namespace cudalloc

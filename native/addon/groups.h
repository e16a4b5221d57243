// The groups of the border, one file each, in the order of binding.d.ts.
#pragma once

#include <napi.h>

namespace cudalloc {

void add_device(Napi::Object exports);
void add_memory(Napi::Object exports);
void add_virtual_memory(Napi::Object exports);
void add_offers(Napi::Object exports);
void add_sharing(Napi::Object exports);
void add_stream(Napi::Object exports);
void add_kernel(Napi::Object exports);
void add_mock_controls(Napi::Object exports);

}  // namespace cudalloc

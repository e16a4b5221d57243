// Who may touch which mapping. Must not know how mappings are made.
#pragma once

#include "state.h"

namespace cudalloc::mock {

using MappingIterator = std::map<CUdeviceptr, Mapping>::iterator;

/** Whether access to a mapping can be given so. */
CUresult check_access(State& state, const Mapping& mapping, const CUmemAccessDesc& desc);

/** Sets the access to neighbouring mappings; all or nothing. */
CUresult set_access(MappingIterator first, MappingIterator last, const CUmemAccessDesc* desc, size_t count);

}  // namespace cudalloc::mock

// Access of devices to mappings, and what the CPU may do accordingly: the protection of the addresses.
#include "mapping_access.h"

#include <tuple>
#include <utility>
#include <vector>

namespace cudalloc::mock {
namespace {

constexpr int kAccessRead = 1;  // CU_MEM_ACCESS_FLAGS_PROT_READ

Protection protection_of(const Mapping& mapping) {
  if (mapping.writers != 0) return Protection::kReadWrite;
  return mapping.readers != 0 ? Protection::kRead : Protection::kNone;
}

/** Sets the CPU's protection of the mappings to fit their access, one call for each run of equal ones. */
CUresult apply_protection(MappingIterator first, MappingIterator last) {
  while (first != last) {
    const CUdeviceptr begin = first->first;
    const Protection protection = protection_of(first->second);
    CUdeviceptr end = begin;
    for (; first != last && protection_of(first->second) == protection; ++first)
      end = first->first + first->second.bytes;
    const CUresult result = protect(begin, end - begin, protection);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult check_access(State& state, const Mapping& mapping, const CUmemAccessDesc& desc) {
  const bool known = desc.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || desc.flags == kAccessRead ||
                     desc.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (!known || desc.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (device_at(state, desc.location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const bool own = state.physicals.at(mapping.handle).device == desc.location.id;
  return own || state.configuration.peer_access ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult set_access(MappingIterator first, MappingIterator last, const CUmemAccessDesc* desc, size_t count) {
  std::vector<std::pair<uint64_t, uint64_t>> before;
  for (auto it = first; it != last; ++it) {
    before.emplace_back(it->second.readers, it->second.writers);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bit = uint64_t{1} << desc[i].location.id;
      it->second.readers = desc[i].flags != 0 ? it->second.readers | bit : it->second.readers & ~bit;
      const bool write = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      it->second.writers = write ? it->second.writers | bit : it->second.writers & ~bit;
    }
  }
  const CUresult result = apply_protection(first, last);
  if (result == CUDA_SUCCESS) return result;
  size_t i = 0;
  for (auto it = first; it != last; ++it, ++i) std::tie(it->second.readers, it->second.writers) = before[i];
  apply_protection(first, last);  // gives back what the first attempt took, so there is room for it
  return result;
}

}  // namespace cudalloc::mock

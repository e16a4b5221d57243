// cudalloc_fill_u32(pointer, value, count): sets `count` 32-bit words. CPU twin: fill_twin.cc.
#include <cstdint>

extern "C" __global__ void cudalloc_fill_u32(uint32_t* target, uint32_t value, unsigned long long count) {
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  const unsigned long long first = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (unsigned long long i = first; i < count; i += stride) target[i] = value;
}

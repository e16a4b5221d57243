// Rules of modules and kernels, with one small kernel that computes something.
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "fixture.h"
#include "kernels/registry.h"

namespace cudalloc::test {
namespace {

/** The kernel of kernels/fill.cu by hand, in a version of PTX that every driver takes. */
std::string fill_ptx() {
  return R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry cudalloc_fill_u32(.param .u64 target, .param .u32 value, .param .u64 count)
{
  .reg .pred %p;
  .reg .b32 %r<7>;
  .reg .b64 %rd<7>;
  ld.param.u64 %rd0, [target];
  cvta.to.global.u64 %rd0, %rd0;
  ld.param.u32 %r0, [value];
  ld.param.u64 %rd1, [count];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %rd2, %r1, %r2;
  cvt.u64.u32 %rd3, %r3;
  add.u64 %rd2, %rd2, %rd3;
  mul.wide.u32 %rd4, %r4, %r2;
again:
  setp.ge.u64 %p, %rd2, %rd1;
  @%p bra done;
  shl.b64 %rd5, %rd2, 2;
  add.u64 %rd5, %rd0, %rd5;
  st.global.u32 [%rd5], %r0;
  add.u64 %rd2, %rd2, %rd4;
  bra again;
done:
  ret;
}
)";
}

}  // namespace

TEST_CASE("a kernel is found by its name and run") {
  OnDevice device;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  const std::string ptx = fill_ptx();
  REQUIRE(cuda().cuModuleLoadData(&module, ptx.c_str()) == CUDA_SUCCESS);
  CHECK(cuda().cuModuleGetFunction(&fill, module, "cudalloc_no_such_kernel") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuda().cuModuleGetFunction(&fill, module, "cudalloc_fill") == CUDA_ERROR_NOT_FOUND);
  REQUIRE(cuda().cuModuleGetFunction(&fill, module, "cudalloc_fill_u32") == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  REQUIRE(cuda().cuMemAlloc(&address, 4096) == CUDA_SUCCESS);
  REQUIRE(cuda().cuMemsetD8Async(address, 0, 4096, nullptr) == CUDA_SUCCESS);
  CUdeviceptr target = address + 16;
  uint32_t value = 0xC0FFEE;
  uint64_t count = 1000;
  void* parameters[] = {&target, &value, &count};
  CHECK(cuda().cuLaunchKernel(fill, 0, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuLaunchKernel(fill, 1, 1, 1, 2048, 1, 1, 0, nullptr, parameters, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuda().cuLaunchKernel(fill, 4, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr) == CUDA_SUCCESS);
  std::vector<uint8_t> bytes(4096);
  REQUIRE(read(address, bytes) == CUDA_SUCCESS);
  for (uint32_t i = 0; i < 1024; ++i) {
    uint32_t word;
    std::memcpy(&word, bytes.data() + 4 * i, 4);
    const uint32_t expected = i >= 4 && i < 1004 ? value : 0;
    if (word != expected) FAIL_CHECK("word " << i << " is " << word);
  }
  CHECK(cuda().cuModuleUnload(module) == CUDA_SUCCESS);
  if (is_standin()) {
    CHECK(cuda().cuModuleUnload(module) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuda().cuLaunchKernel(fill, 4, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr) ==
          CUDA_ERROR_INVALID_HANDLE);
  }
  cuda().cuMemFree(address);
}

TEST_CASE("parameters can come in one buffer") {
  OnDevice device;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  const std::string ptx = fill_ptx();
  REQUIRE(cuda().cuModuleLoadData(&module, ptx.c_str()) == CUDA_SUCCESS);
  REQUIRE(cuda().cuModuleGetFunction(&fill, module, "cudalloc_fill_u32") == CUDA_SUCCESS);
  struct {
    CUdeviceptr target;
    uint32_t value;
    uint32_t padding;
    uint64_t count;
  } buffer{0, 5, 0, 2};
  REQUIRE(cuda().cuMemAlloc(&buffer.target, 8) == CUDA_SUCCESS);
  size_t bytes = sizeof buffer;
  void* extra[] = {reinterpret_cast<void*>(1), &buffer, reinterpret_cast<void*>(2), &bytes, nullptr};
  CHECK(cuda().cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra) == CUDA_SUCCESS);
  std::vector<uint8_t> back(8);
  CHECK(read(buffer.target, back) == CUDA_SUCCESS);
  CHECK(back == std::vector<uint8_t>{5, 0, 0, 0, 5, 0, 0, 0});
  CHECK(cuda().cuModuleUnload(module) == CUDA_SUCCESS);
  cuda().cuMemFree(buffer.target);
}

#ifdef CUDALLOC_FILL_PTX
TEST_CASE("the kernel as compiled here has the parameters of its twin") {
  OnDevice device;
  std::ifstream file(CUDALLOC_FILL_PTX);
  REQUIRE(file.good());
  const std::string ptx(std::istreambuf_iterator<char>(file), {});
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  const CUresult loaded = cuda().cuModuleLoadData(&module, ptx.c_str());
  constexpr CUresult kUnsupportedPtxVersion = 222;
  if (!is_standin() && loaded == kUnsupportedPtxVersion) return;  // the toolkit is newer than the driver
  REQUIRE(loaded == CUDA_SUCCESS);
  CHECK(cuda().cuModuleGetFunction(&fill, module, "cudalloc_fill_u32") == CUDA_SUCCESS);
  CHECK(cuda().cuModuleUnload(module) == CUDA_SUCCESS);
  std::vector<size_t> declared;
  const std::string parameters = ptx.substr(ptx.find("cudalloc_fill_u32("));
  const std::string list = parameters.substr(0, parameters.find(')'));
  const std::string type = ".param .u";
  for (size_t at = list.find(type); at != std::string::npos; at = list.find(type, at + 1)) {
    declared.push_back(std::stoul(list.substr(at + type.size(), 2)) / 8);
  }
  CHECK(declared == find_kernel_twin("cudalloc_fill_u32")->parameter_bytes);
}
#endif

TEST_CASE("what is no image is refused") {
  OnDevice device;
  CUmodule module = nullptr;
  CHECK(cuda().cuModuleLoadData(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  for (const char* garbage : {"", "hello",
                              "\x7f"
                              "ELG",
                              "int main() { return 0; }"}) {
    const CUresult result = cuda().cuModuleLoadData(&module, garbage);
    CAPTURE(garbage);
    CHECK(result != CUDA_SUCCESS);
    if (is_standin()) CHECK(result == CUDA_ERROR_INVALID_IMAGE);
  }
}

}  // namespace cudalloc::test

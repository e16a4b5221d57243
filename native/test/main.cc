// Runs tests over one table: --table=mock (in this process) or --table=driver (whatever the loader finds: a
// stand-in library or a GPU's driver). Exit status 77 when there is no device to run on.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/loader.h"
#include "fixture.h"
#include "mock/mock.h"

namespace cudalloc::test {
namespace {

constexpr int kSkipped = 77;
const Functions* table = nullptr;
bool standin = false;

int choose(const char* name) {
  if (std::strcmp(name, "mock") == 0) {
    mock::Configuration configuration;
    configuration.device_count = 2;
    configuration.default_capacity = kCapacity;
    if (!mock::configure(configuration)) return 1;
    table = &mock::functions();
    standin = true;
    return 0;
  }
  if (std::strcmp(name, "driver") != 0) return 2;
  const Driver& found = driver();
  if (found.device_count == 0) {
    std::printf("skipped: %s\n", found.device_reason.c_str());
    return kSkipped;
  }
  table = &found.functions;
  standin = std::getenv("CUDALLOC_STANDIN_CAPACITY") != nullptr;
  return 0;
}

}  // namespace

const Functions& cuda() { return *table; }
bool is_standin() { return standin; }

int device_count() {
  int count = 0;
  cuda().cuDeviceGetCount(&count);
  return count;
}

}  // namespace cudalloc::test

int main(int argc, char** argv) {
  const char* name = "mock";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--table=", 8) == 0) name = argv[i] + 8;
  }
  if (const int status = cudalloc::test::choose(name)) return status;
  doctest::Context context(argc, argv);
  return context.run();
}

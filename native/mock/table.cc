#include "fn.h"
#include "mock.h"

namespace cudalloc::mock {

const Functions& functions() {
  static const Functions table = [] {
    Functions filled;
#define X(name, exported, need, params) filled.name = fn::name;
    CUDALLOC_DRIVER_FUNCTIONS(X)
#undef X
#define X(name, params) filled.name = fn::name;
    CUDALLOC_RUNTIME_FUNCTIONS(X)
#undef X
    return filled;
  }();
  return table;
}

}  // namespace cudalloc::mock

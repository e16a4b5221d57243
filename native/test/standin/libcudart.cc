// The stand-in runtime: its functions come from the stand-in driver that the process has loaded, so both
// share their devices.
#include "standin.h"

extern "C" const cudalloc::Functions* cudalloc_standin_functions();

namespace cudalloc::standin {

const Functions& functions() { return *cudalloc_standin_functions(); }

}  // namespace cudalloc::standin

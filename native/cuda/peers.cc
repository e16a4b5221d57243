// Access of one device to another one's memory: what cudaMalloc gave, and what is or will be mapped.
#include <algorithm>

#include "device.h"

namespace cudalloc {

bool Device::can_access_peer(const Device& peer) {
  if (peer.backend() != backend()) return false;
  if (peer.ordinal() == ordinal()) return true;
  int can = 0;
  check(Fn::cuDeviceCanAccessPeer, CUDALLOC_CALL(cuDeviceCanAccessPeer, &can, device_, peer.device_),
        [&] { return on_device() + " to " + peer.on_device(); });
  return can != 0;
}

void Device::enable_peer_access(Device& peer) {
  if (!can_access_peer(peer)) {
    throw Error(ErrorCode::Unsupported, "The driver offers no peer access from " + on_device() + " of " +
                                            backend() + " to " + peer.on_device() + " of " + peer.backend() +
                                            ".");
  }
  if (peer.ordinal() == ordinal()) return;
  SharedDevice& shared = *peer.shared_;
  // Held over the calls, so that no mapping made meanwhile is missed.
  std::lock_guard<std::mutex> lock(shared.mutex);
  auto& accessors = shared.accessors;
  if (std::find(accessors.begin(), accessors.end(), ordinal()) != accessors.end()) return;
  ContextScope scope(*this);
  refuse_in_capture("enabling peer access");
  const CUresult result = cuda_.cuCtxEnablePeerAccess(peer.context_, 0);
  const bool already = result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  counts_.add(Fn::cuCtxEnablePeerAccess, result != CUDA_SUCCESS && !already);
  if (!already) {
    check(Fn::cuCtxEnablePeerAccess, result, [&] { return on_device() + " to " + peer.on_device(); });
  }

  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  for (auto it = shared.mappings.begin(); it != shared.mappings.end(); ++it) {
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const CUresult set = CUDALLOC_CALL(cuMemSetAccess, it->first, it->second.bytes, &access, 1);
    if (set == CUDA_SUCCESS) continue;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    while (it != shared.mappings.begin()) {
      --it;
      CUDALLOC_CALL(cuMemSetAccess, it->first, it->second.bytes, &access, 1);
    }
    fail(Fn::cuMemSetAccess, set, on_device() + " to memory of " + peer.on_device());
  }
  accessors.push_back(ordinal());
}

}  // namespace cudalloc

// Pages that other processes may map, and pages of other processes.
#include "device.h"

namespace cudalloc {

void Device::require_sharing() const {
  if (!properties_.sharing.works) {
    throw Error(ErrorCode::Unsupported,
                "Memory of " + on_device() + " cannot be shared: " + properties_.sharing.reason);
  }
}

DescriptorAddress Device::mem_export(int32_t id) {
  require_sharing();
  std::lock_guard<std::mutex> lock(shared_->mutex);
  auto it = shared_->pages.find(id);
  if (it == shared_->pages.end() || it->second.released) fail_unknown("page", id);
  Page& page = it->second;
  if (page.sharing != Sharing::kShareable) {
    throw Error(ErrorCode::InvalidAddress, "Page " + std::to_string(id) + " was not made to be shared.");
  }
  if (!page.exported) {
    ContextScope scope(*this);
    int number = -1;
    check(Fn::cuMemExportToShareableHandle,
          CUDALLOC_CALL(cuMemExportToShareableHandle, &number, page.handle,
                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          [&] { return "a page of " + std::to_string(page.bytes) + " bytes on " + on_device(); });
    page.exported = std::make_unique<ExportedDescriptor>(Descriptor(number));
  }
  return page.exported->address();
}

int32_t Device::mem_import(uint64_t bytes, const DescriptorAddress& source) {
  require_sharing();
  return mem_import(bytes, fetch_descriptor(source).number());
}

int32_t Device::mem_import(uint64_t bytes, int descriptor) {
  require_sharing();
  ContextScope scope(*this);
  std::lock_guard<std::mutex> lock(shared_->mutex);
  const int32_t id = DeviceTable::instance().next_id();
  CUmemGenericAllocationHandle handle = 0;
  // The descriptor itself, in the place of a pointer to a handle.
  void* const shareable = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
  check(Fn::cuMemImportFromShareableHandle,
        CUDALLOC_CALL(cuMemImportFromShareableHandle, &handle, shareable,
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        [&] {
          return std::to_string(bytes) + " bytes behind descriptor " + std::to_string(descriptor) + " on " +
                 on_device();
        });
  shared_->pages.emplace(id, Page{handle, bytes, this, Sharing::kImported});
  return id;
}

}  // namespace cudalloc

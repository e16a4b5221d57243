// What a device is and can do.
#include "properties.h"

#include "errors.h"

namespace cudalloc {
namespace {

void check(const Functions& cuda, Fn fn, CUresult result, int ordinal) {
  if (result != CUDA_SUCCESS) throw driver_error(cuda, fn, result, "device " + std::to_string(ordinal));
}

std::string format_uuid(const CUuuid& uuid) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const unsigned char byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

// The functions that virtual memory needs and the driver lacks, joined.
std::string missing_virtual_memory(const Functions& cuda) {
  std::string missing;
  auto need = [&](const void* function, const char* name) {
    if (!function) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
#define NEED(name) need(reinterpret_cast<const void*>(cuda.name), #name)
  NEED(cuMemAddressReserve);
  NEED(cuMemAddressFree);
  NEED(cuMemGetAllocationGranularity);
  NEED(cuMemCreate);
  NEED(cuMemRelease);
  NEED(cuMemMap);
  NEED(cuMemUnmap);
  NEED(cuMemSetAccess);
#undef NEED
  return missing;
}

void find_virtual_memory(const Functions& cuda, CUdevice device, int ordinal, DeviceProperties& properties) {
  properties.virtual_memory.works = false;
  const std::string missing = missing_virtual_memory(cuda);
  if (!missing.empty()) {
    properties.virtual_memory.reason = "The driver is too old for virtual memory: it has no " + missing + ".";
    return;
  }
  int supported = 0;
  const CUresult result =
      cuda.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
  // An older driver does not know the question.
  if (result != CUDA_ERROR_INVALID_VALUE) check(cuda, Fn::cuDeviceGetAttribute, result, ordinal);
  if (!supported) {
    properties.virtual_memory.reason = "The device does not support virtual memory management.";
    return;
  }
  const CUmemAllocationProp page = page_properties(device, false);
  size_t granularity = 0;
  check(cuda, Fn::cuMemGetAllocationGranularity,
        cuda.cuMemGetAllocationGranularity(&granularity, &page, CU_MEM_ALLOC_GRANULARITY_MINIMUM), ordinal);
  properties.granularity = granularity;
  properties.virtual_memory.works = true;
}

void find_sharing(const Functions& cuda, CUdevice device, int ordinal, DeviceProperties& properties) {
  Feature& sharing = properties.sharing;
  sharing.works = false;
  if (!properties.virtual_memory.works) {
    sharing.reason = properties.virtual_memory.reason;
    return;
  }
  if (!cuda.cuMemExportToShareableHandle || !cuda.cuMemImportFromShareableHandle) {
    sharing.reason = std::string("The driver cannot share memory between processes: it has no ") +
                     (cuda.cuMemExportToShareableHandle ? "cuMemImportFromShareableHandle."
                                                        : "cuMemExportToShareableHandle.");
    return;
  }
  int supported = 0;
  const CUresult result = cuda.cuDeviceGetAttribute(
      &supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
  // An older driver does not know the question.
  if (result != CUDA_ERROR_INVALID_VALUE) check(cuda, Fn::cuDeviceGetAttribute, result, ordinal);
  if (!supported) {
    sharing.reason =
        "The device's memory cannot be shared between processes by file descriptor "
        "(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED is 0).";
    return;
  }
  sharing.works = true;
}

}  // namespace

CUmemAllocationProp page_properties(CUdevice device, bool shareable) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  if (shareable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

DeviceProperties device_properties(const Functions& cuda, int ordinal, const std::string& runtime_reason) {
  DeviceProperties properties;
  CUdevice device = 0;
  check(cuda, Fn::cuDeviceGet, cuda.cuDeviceGet(&device, ordinal), ordinal);
  char name[256] = "";
  check(cuda, Fn::cuDeviceGetName, cuda.cuDeviceGetName(name, sizeof name, device), ordinal);
  name[sizeof name - 1] = '\0';
  properties.name = name;
  CUuuid uuid{};
  if (cuda.cuDeviceGetUuid && cuda.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS)
    properties.uuid = format_uuid(uuid);
  size_t total = 0;
  check(cuda, Fn::cuDeviceTotalMem, cuda.cuDeviceTotalMem(&total, device), ordinal);
  properties.total_memory = total;
  auto attribute = [&](int which, int& value) {
    check(cuda, Fn::cuDeviceGetAttribute, cuda.cuDeviceGetAttribute(&value, which, device), ordinal);
  };
  attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, properties.major);
  attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, properties.minor);
  attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, properties.multiprocessors);
  find_virtual_memory(cuda, device, ordinal, properties);
  find_sharing(cuda, device, ordinal, properties);
  if (!cuda.cudaMalloc) properties.cuda_malloc = {false, runtime_reason};
  return properties;
}

}  // namespace cudalloc

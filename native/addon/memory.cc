// Group "memory" of the border: device memory, copies, fills, pinned host memory, peers.
#include "arguments.h"
#include "async.h"
#include "groups.h"

namespace cudalloc {
namespace {

Napi::Value malloc(const Arguments& arguments) {
  Device& device = arguments.device(0);
  return Napi::Number::New(arguments.env(),
                           static_cast<double>(device.malloc(arguments.positive_bytes(1, "bytes"))));
}

Napi::Value free(const Arguments& arguments) {
  arguments.device(0).free(arguments.address(1, "address"));
  return arguments.env().Undefined();
}

Napi::Value memcpy_htod(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t target = arguments.address(1, "address");
  const View<uint8_t> source = arguments.bytes_view(2, "source");
  device.memcpy_htod(target, source.data, source.length, arguments.id(3, "stream"));
  return arguments.env().Undefined();
}

Napi::Value memcpy_dtoh(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const View<uint8_t> target = arguments.bytes_view(1, "target");
  const uint64_t source = arguments.address(2, "address");
  device.memcpy_dtoh(target.data, source, target.length, arguments.id(3, "stream"));
  return arguments.env().Undefined();
}

Napi::Value memcpy_htod_async(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t target = arguments.address(1, "address");
  const View<uint8_t> source = arguments.bytes_view(2, "source");
  auto work = device.begin_htod(target, source.data, source.length, arguments.id(3, "stream"));
  return run_async(arguments.env(), device, std::move(work), arguments[2]);
}

Napi::Value memcpy_dtoh_async(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const View<uint8_t> target = arguments.bytes_view(1, "target");
  const uint64_t source = arguments.address(2, "address");
  auto work = device.begin_dtoh(target.data, source, target.length, arguments.id(3, "stream"));
  return run_async(arguments.env(), device, std::move(work), arguments[1]);
}

Napi::Value memcpy_dtod(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t target = arguments.address(1, "target");
  const uint64_t source = arguments.address(2, "source");
  device.memcpy_dtod(target, source, arguments.bytes(3, "bytes"), arguments.id(4, "stream"));
  return arguments.env().Undefined();
}

Napi::Value memcpy_peer(const Arguments& arguments) {
  Device& device = arguments.device(0);
  Device& target_device = arguments.device(1);
  const uint64_t target = arguments.address(2, "target");
  const uint64_t source = arguments.address(3, "source");
  device.memcpy_peer(target_device, target, source, arguments.bytes(4, "bytes"), arguments.id(5, "stream"));
  return arguments.env().Undefined();
}

Napi::Value memset(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const uint64_t address = arguments.address(1, "address");
  const uint8_t byte = static_cast<uint8_t>(arguments.integer(2, "byte", 0, 255));
  device.memset(address, byte, arguments.bytes(3, "bytes"), arguments.id(4, "stream"));
  return arguments.env().Undefined();
}

// Called when the buffer is collected, detached or its environment ends; the record knows whether anything is
// left to do.
void finalize_pinned(napi_env, void*, void* hint) {
  std::unique_ptr<std::shared_ptr<PinnedMemory>> memory(static_cast<std::shared_ptr<PinnedMemory>*>(hint));
  if (Device* device = (*memory)->device) device->host_abandon(*memory);
}

// V8 counts the buffer's bytes as external memory by itself.
Napi::Value host_alloc(const Arguments& arguments) {
  Device& device = arguments.device(0);
  std::shared_ptr<PinnedMemory> memory = device.host_alloc(arguments.positive_bytes(1, "bytes"));
  auto hint = std::make_unique<std::shared_ptr<PinnedMemory>>(memory);
  napi_value buffer = nullptr;
  const napi_status status = napi_create_external_arraybuffer(arguments.env(), memory->data, memory->bytes,
                                                              finalize_pinned, hint.get(), &buffer);
  if (status == napi_ok) {
    hint.release();
    return Napi::Value(arguments.env(), buffer);
  }
  device.host_abandon(memory);
  if (status == napi_no_external_buffers_allowed) {
    throw Error(ErrorCode::Unsupported,
                "This JavaScript runtime allows no buffers over memory of its own, so pinned host "
                "memory cannot be shown to JavaScript.");
  }
  // A buffer that is too long is given to the finalizer at once or later, which then deletes the hint.
  hint.release();
  napi_value exception = nullptr;
  napi_get_and_clear_last_exception(arguments.env(), &exception);
  throw Error(ErrorCode::Unsupported,
              "This JavaScript runtime makes no buffer of " + std::to_string(memory->bytes) + " bytes.");
}

Napi::Value host_free(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const Napi::Value value = arguments[1];
  if (!value.IsArrayBuffer()) throw Napi::TypeError::New(arguments.env(), "buffer must be an ArrayBuffer.");
  Napi::ArrayBuffer buffer = value.As<Napi::ArrayBuffer>();
  if (buffer.IsDetached()) throw Error(ErrorCode::UseAfterFree, "The pinned buffer was freed already.");
  const std::shared_ptr<PinnedMemory> memory = device.find_pinned(buffer.Data());
  if (!memory) {
    throw Error(ErrorCode::InvalidAddress, "The buffer is not pinned host memory of this device and thread.");
  }
  device.host_free(memory);
  buffer.Detach();
  return arguments.env().Undefined();
}

Napi::Value can_access_peer(const Arguments& arguments) {
  Device& device = arguments.device(0);
  return Napi::Boolean::New(arguments.env(), device.can_access_peer(arguments.device(1)));
}

Napi::Value enable_peer_access(const Arguments& arguments) {
  Device& device = arguments.device(0);
  device.enable_peer_access(arguments.device(1));
  return arguments.env().Undefined();
}

}  // namespace

void add_memory(Napi::Object exports) {
  add<malloc>(exports, "malloc");
  add<free>(exports, "free");
  add<memcpy_htod>(exports, "memcpyHtoD");
  add<memcpy_dtoh>(exports, "memcpyDtoH");
  add<memcpy_htod_async>(exports, "memcpyHtoDAsync");
  add<memcpy_dtoh_async>(exports, "memcpyDtoHAsync");
  add<memcpy_dtod>(exports, "memcpyDtoD");
  add<memcpy_peer>(exports, "memcpyPeer");
  add<memset>(exports, "memset");
  add<host_alloc>(exports, "hostAlloc");
  add<host_free>(exports, "hostFree");
  add<can_access_peer>(exports, "canAccessPeer");
  add<enable_peer_access>(exports, "enablePeerAccess");
}

}  // namespace cudalloc

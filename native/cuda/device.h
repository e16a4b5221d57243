// One device as one environment has it open: every call into the driver goes through here, in the device's
// primary context, is counted, and its failure becomes an exception. Keeps what was made through it, so that
// closing gives all back. Must not know JavaScript, nor whether a driver or a mock is behind the table.
//
// One thread uses it, but for the work that `begin_...` returns. A call that throws has changed nothing.
// Bytes and addresses are plain numbers. A call costs one driver call and, where it could break a capture,
// one question for each stream known here; "synchronising" ones wait for the device, "linear" ones make a
// driver call for each page.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "calls.h"
#include "device_table.h"
#include "errors.h"
#include "properties.h"

namespace cudalloc {

// Pinned host memory. `device` is null once it has been given back, so that whoever still holds the record
// knows.
struct PinnedMemory {
  void* data;
  uint64_t bytes;
  Device* device;
};

class Device {
 public:
  struct Options {
    const Functions* functions;
    // "cuda" or "mock"; devices of one name and ordinal are the same device.
    std::string backend;
    int ordinal;
    // Limit on the bytes that this process takes of the device; 0 for none.
    uint64_t capacity;
    // Why `functions` has no cudaMalloc, if so.
    std::string runtime_reason;
    // Called after everything was given back.
    std::function<void()> on_closed;
  };

  // Retains the primary context. Throws Config (another limit is in force, or one beyond the device) and
  // driver errors.
  explicit Device(Options options);
  // Closes as at the end of the process: silently.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Waits for the work, then gives everything back. Throws Capturing before anything is done; otherwise the
  // device is closed afterwards, and the first failure that is not the device's loss or the driver's shutdown
  // is thrown.
  void close();

  const std::string& backend() const { return options_.backend; }
  int ordinal() const { return options_.ordinal; }
  const DeviceProperties& properties() const { return properties_; }
  const CallCounts& counts() const { return counts_; }

  // Synchronising.
  void synchronize();
  // Of the whole device, or of the capacity.
  void mem_get_info(uint64_t* free, uint64_t* total);

  // memory.cc
  uint64_t malloc(uint64_t bytes);
  // Synchronising. Throws InvalidAddress for anything but an address of `malloc`.
  void free(uint64_t address);
  // Pinned, for all devices. Synchronising, as is freeing it.
  std::shared_ptr<PinnedMemory> host_alloc(uint64_t bytes);
  // Idempotent.
  void host_free(const std::shared_ptr<PinnedMemory>& memory);
  // For finalizers: as host_free, but never throws; what cannot be freed now is freed later.
  void host_abandon(const std::shared_ptr<PinnedMemory>& memory);
  // Null when it is no live pinned memory of this device.
  std::shared_ptr<PinnedMemory> find_pinned(const void* data) const;

  // copies.cc. The copies from and to the host return when they are done.
  void memcpy_htod(uint64_t target, const void* source, uint64_t bytes, int32_t stream);
  void memcpy_dtoh(void* target, uint64_t source, uint64_t bytes, int32_t stream);
  void memcpy_dtod(uint64_t target, uint64_t source, uint64_t bytes, int32_t stream);
  void memcpy_peer(Device& target_device, uint64_t target, uint64_t source, uint64_t bytes, int32_t stream);
  void memset(uint64_t address, uint8_t byte, uint64_t bytes, int32_t stream);

  // The same for the thread pool: `begin_...` checks and announces (on the owner's thread), the function it
  // returns does the work (any thread, once), and whoever closes or frees waits for it. `end_async` if it is
  // never called.
  std::function<void()> begin_htod(uint64_t target, const void* source, uint64_t bytes, int32_t stream);
  std::function<void()> begin_dtoh(void* target, uint64_t source, uint64_t bytes, int32_t stream);
  std::function<void()> begin_stream_synchronize(int32_t stream);
  void end_async();

  // peers.cc
  bool can_access_peer(const Device& peer);
  void enable_peer_access(Device& peer);

  // pages.cc. Linear. A page number belongs to the process: any opening of the device may map and release it.
  // `shareable`: for mem_export. Throws Unsupported.
  void mem_create(uint64_t page_bytes, int32_t* pages, size_t count, bool shareable = false);
  // Each number becomes -1 as its page is given back; those that are -1 already are passed over. A failure
  // stops there.
  void mem_release(int32_t* pages, size_t count);

  // virtual_memory.cc. Throws InvalidAddress for a range that was not reserved here. Mapping is linear.
  uint64_t address_reserve(uint64_t bytes, uint64_t alignment);
  void address_free(uint64_t address, uint64_t bytes);
  void mem_map(uint64_t address, uint64_t page_bytes, const int32_t* pages, size_t count);
  void mem_unmap(uint64_t address, uint64_t page_bytes, size_t count);
  // Whole neighbouring mappings in one driver call.
  void mem_unmap_range(uint64_t address, uint64_t bytes);

  // offers.cc: pages that their owner does not use, for the other openings of the device in this process.
  int openings() const { return shared_->openings; }
  bool is_same_device(const Device& other) const { return shared_ == other.shared_; }
  // They may be mapped still, and work on them may be under way. Throws InvalidAddress for pages of another
  // opening or offered already.
  void mem_offer(const int32_t* pages, size_t count);
  // Takes them back; the number of a page that has been taken becomes -1. Returns how many have.
  size_t mem_claim(int32_t* pages, size_t count);
  // Pages of that size that others have offered: unmapped everywhere, this opening's from now on. Returns how
  // many. Synchronising, linear in mappings.
  size_t mem_take(uint64_t page_bytes, int32_t* pages, size_t count);
  // Gives pages that others have offered back to the driver until so many bytes are free. Returns the bytes.
  // As mem_take.
  uint64_t mem_trim(uint64_t bytes);
  // Bytes that others have offered. Linear in pages.
  uint64_t mem_offered() const;

  // sharing.cc: pages that other processes may map, too. Throws Unsupported.
  // Where other processes find a shareable page, the same every time, until the page is given back.
  DescriptorAddress mem_export(int32_t page);
  // The page of so many bytes behind another process's descriptor; nothing is counted for it here. Throws as
  // fetch_descriptor does.
  int32_t mem_import(uint64_t bytes, const DescriptorAddress& source);
  // The same for a descriptor of this process, which stays the caller's.
  int32_t mem_import(uint64_t bytes, int descriptor);

  // streams.cc
  int32_t stream_create(bool non_blocking, int priority);
  int32_t stream_wrap(uint64_t handle);
  CUstream stream_handle(int32_t stream) const;
  void stream_synchronize(int32_t stream);
  bool stream_query(int32_t stream);
  void stream_wait_event(int32_t stream, int32_t event);
  bool stream_is_capturing(int32_t stream);
  void stream_destroy(int32_t stream);
  int32_t event_create(bool timing);
  void event_record(int32_t event, int32_t stream);
  bool event_query(int32_t event);
  void event_synchronize(int32_t event);
  double event_elapsed_time(int32_t start, int32_t end);
  void event_destroy(int32_t event);

  // kernels.cc
  int32_t module_load_data(const void* image, size_t bytes);
  void module_unload(int32_t module);
  int32_t module_get_function(int32_t module, const std::string& name);
  // grid x, y, z, block x, y, z, dynamic shared bytes.
  void launch_kernel(int32_t function, const uint32_t (&dimensions)[7], int32_t stream, void** parameters);

 private:
  // Makes the device's context current for a scope.
  class ContextScope;

  struct Stream {
    CUstream handle;
    bool wrapped;
  };
  struct Function {
    CUfunction handle;
    int32_t module;
  };

  CUresult counted(Fn fn, int result);
  CUresult counted_query(Fn fn, int result);
  // Throws unless the call succeeded. `detail` makes the text about what was asked; not called otherwise.
  template <typename Detail>
  void check(Fn fn, int result, Detail detail) const {
    if (result != CUDA_SUCCESS) fail(fn, result, detail());
  }
  void check(Fn fn, int result) const {
    if (result != CUDA_SUCCESS) fail(fn, result, on_device());
  }
  [[noreturn]] void fail(Fn fn, int result, const std::string& detail) const;
  std::string on_device() const;

  void refuse_in_capture(const char* what);
  bool is_capturing(CUstream stream, bool wrapped);
  CUevent event_handle(int32_t event) const;
  [[noreturn]] static void fail_unknown(const char* kind, int64_t id);

  void begin_async();
  std::function<void()> announce(const char* what, std::function<void()> work);
  void wait_async();
  void copy_and_wait(Fn fn, uint64_t device_address, void* host, uint64_t bytes, CUstream stream);
  void drain_abandoned();

  int call_malloc(uint64_t bytes, uint64_t* address);
  int call_free(uint64_t address);

  void require_virtual_memory() const;
  void require_sharing() const;
  void check_in_reservation(uint64_t address, uint64_t bytes) const;
  std::vector<CUmemAccessDesc> access_list() const;
  int set_access(uint64_t address, uint64_t bytes);
  int release_page(int32_t id);
  void check_mappable(uint64_t address, uint64_t page_bytes, const int32_t* pages, size_t count) const;
  bool restore_maps(uint64_t address, uint64_t page_bytes, size_t count);
  void forget_mapping(uint64_t address);
  void forget_mappings(const std::vector<uint64_t>& addresses, const std::string& what);
  static void refuse_offered(int32_t id, const Page& page);
  size_t take_offered(const std::function<bool(const Page&)>& wanted,
                      const std::function<void(int32_t)>& taken);
  bool unmap_everywhere(const std::vector<uint64_t>& addresses, int* failed);

  // Makes one call of the closing, if calls can still be made, and notes its failure.
  using Release = std::function<void(Fn, const std::function<int()>&)>;

  // Gives back what was made; returns the first failure worth telling.
  std::unique_ptr<Error> release_all();
  void release_virtual_memory(const Release& release);
  void release_memory(const Release& release);
  void release_objects(const Release& release);
  void finish();

  Options options_;
  const Functions& cuda_;
  std::shared_ptr<SharedDevice> shared_;
  DeviceProperties properties_;
  CallCounts counts_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  bool closed_ = false;

  std::mutex async_mutex_;
  std::condition_variable async_done_;
  int async_count_ = 0;

  std::unordered_map<uint64_t, uint64_t> mallocs_;
  std::map<uint64_t, uint64_t> reservations_;
  std::unordered_map<const void*, std::shared_ptr<PinnedMemory>> pinned_;
  std::vector<std::shared_ptr<PinnedMemory>> abandoned_;
  std::map<int32_t, Stream> streams_;
  std::unordered_map<int32_t, CUevent> events_;
  std::unordered_map<int32_t, CUmodule> modules_;
  std::unordered_map<int32_t, Function> kernels_;
};

// Calls a function of the table and counts the call.
#define CUDALLOC_CALL(name, ...) counted(Fn::name, cuda_.name(__VA_ARGS__))

class Device::ContextScope {
 public:
  explicit ContextScope(const Device& device) : device_(device) {
    device.check(Fn::cuCtxPushCurrent, device.cuda_.cuCtxPushCurrent(device.context_));
  }
  ~ContextScope() {
    // A failure cannot be told here: the call inside has been made.
    CUcontext ignored = nullptr;
    device_.cuda_.cuCtxPopCurrent(&ignored);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Device& device_;
};

}  // namespace cudalloc

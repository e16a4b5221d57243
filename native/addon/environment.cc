// State of one JavaScript environment.
#include "environment.h"

#include "trim_requests.h"

namespace cudalloc {

void Environment::attach(Napi::Env env) {
  auto* environment = new Environment;
  // Node deletes the instance data after the cleanup hooks have run.
  env.SetInstanceData(environment);
  env.AddCleanupHook([](Environment* ending) { ending->close_all(); }, environment);
}

int32_t Environment::add(std::unique_ptr<Device> device) {
  const int32_t id = DeviceTable::instance().next_id();
  devices_.emplace(id, std::move(device));
  return id;
}

Device& Environment::device(int64_t id) {
  auto it = devices_.find(id);
  if (it != devices_.end()) return *it->second;
  const std::string name = "device " + std::to_string(id);
  if (DeviceTable::instance().was_given(id)) {
    throw Error(ErrorCode::UseAfterFree,
                "There is no " + name + " here: it is closed, or belongs to another thread.");
  }
  throw Error(ErrorCode::InvalidAddress, "There is no " + name + ".");
}

void Environment::close(int64_t id) {
  Device& closing = device(id);
  forget_trim_listener(closing);
  try {
    closing.close();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Capturing) devices_.erase(id);
    throw;
  }
  devices_.erase(id);
}

}  // namespace cudalloc

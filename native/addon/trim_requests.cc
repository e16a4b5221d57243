// Requests between JavaScript threads, through thread-safe functions. The list of listeners is guarded by one
// mutex, under which they are called and removed, so that none is called after its end.
#include "trim_requests.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace cudalloc {
namespace {

// What the threads that were asked have answered. Outlives whoever asked: an answer may be late.
struct Answers {
  std::mutex mutex;
  std::condition_variable all_here;
  int missing = 0;
  uint64_t freed = 0;

  void give(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex);
    freed += bytes;
    if (--missing == 0) all_here.notify_all();
  }
};

struct Request {
  uint64_t bytes;
  std::shared_ptr<Answers> answers;
};

struct Listener {
  napi_env env;
  napi_threadsafe_function function;
};

struct Listeners {
  std::mutex mutex;
  std::unordered_map<const Device*, Listener> by_device;
  // Environments whose thread waits for answers.
  std::unordered_map<napi_env, int> waiting;
};

Listeners& listeners() {
  // Never destroyed: other threads may still use it while the process ends.
  static Listeners* all = new Listeners;
  return *all;
}

uint64_t answer_of(napi_env env, napi_value callback, uint64_t bytes) {
  napi_value undefined = nullptr;
  napi_value argument = nullptr;
  napi_value result = nullptr;
  double freed = 0;
  napi_get_undefined(env, &undefined);
  napi_create_double(env, static_cast<double>(bytes), &argument);
  if (napi_call_function(env, undefined, callback, 1, &argument, &result) == napi_ok &&
      napi_get_value_double(env, result, &freed) == napi_ok && freed > 0) {
    return static_cast<uint64_t>(freed);
  }
  // What it threw is for nobody here: who asked learns that nothing came.
  napi_value thrown = nullptr;
  napi_get_and_clear_last_exception(env, &thrown);
  return 0;
}

// On the thread that was asked; without an environment where that is ending.
void call_listener(napi_env env, napi_value callback, void*, void* data) {
  std::unique_ptr<Request> request(static_cast<Request*>(data));
  request->answers->give(env == nullptr ? 0 : answer_of(env, callback, request->bytes));
}

// The caller holds the mutex.
void remove(std::unordered_map<const Device*, Listener>::iterator it) {
  napi_release_threadsafe_function(it->second.function, napi_tsfn_abort);
  listeners().by_device.erase(it);
}

void remove_all_of(void* data) {
  const napi_env env = static_cast<napi_env>(data);
  std::lock_guard<std::mutex> lock(listeners().mutex);
  auto& by_device = listeners().by_device;
  for (auto it = by_device.begin(); it != by_device.end();) {
    auto listener = it++;
    if (listener->second.env == env) remove(listener);
  }
}

}  // namespace

void forget_trim_listener(const Device& device) {
  std::lock_guard<std::mutex> lock(listeners().mutex);
  const auto it = listeners().by_device.find(&device);
  if (it != listeners().by_device.end()) remove(it);
}

void listen_to_trim_requests(Napi::Env env, const Device& device, Napi::Value listener) {
  forget_trim_listener(device);
  if (listener.IsNull()) return;
  if (!listener.IsFunction()) throw Napi::TypeError::New(env, "listener must be a function or null.");
  napi_threadsafe_function function = nullptr;
  if (napi_create_threadsafe_function(env, listener, nullptr, Napi::String::New(env, "cudalloc"), 0, 1,
                                      nullptr, nullptr, nullptr, call_listener, &function) != napi_ok ||
      napi_unref_threadsafe_function(env, function) != napi_ok) {
    throw Napi::Error::New(env);
  }
  // Hooks run from the last to the first: this one before that of the function, which must not be called
  // after it.
  napi_remove_env_cleanup_hook(env, remove_all_of, static_cast<napi_env>(env));
  napi_add_env_cleanup_hook(env, remove_all_of, static_cast<napi_env>(env));
  std::lock_guard<std::mutex> lock(listeners().mutex);
  listeners().by_device.emplace(&device, Listener{env, function});
}

uint64_t request_trim(Napi::Env env, const Device& device, uint64_t bytes,
                      std::chrono::milliseconds patience) {
  auto answers = std::make_shared<Answers>();
  {
    std::lock_guard<std::mutex> lock(listeners().mutex);
    for (const auto& [other, listener] : listeners().by_device) {
      if (listener.env == env || !other->is_same_device(device)) continue;
      if (listeners().waiting.count(listener.env) > 0) continue;
      auto request = std::make_unique<Request>(Request{bytes, answers});
      std::lock_guard<std::mutex> counted(answers->mutex);
      if (napi_call_threadsafe_function(listener.function, request.get(), napi_tsfn_nonblocking) != napi_ok)
        continue;
      request.release();
      ++answers->missing;
    }
    ++listeners().waiting[env];
  }
  uint64_t freed = 0;
  {
    std::unique_lock<std::mutex> lock(answers->mutex);
    answers->all_here.wait_for(lock, patience, [&] { return answers->missing == 0; });
    freed = answers->freed;
  }
  std::lock_guard<std::mutex> lock(listeners().mutex);
  if (--listeners().waiting[env] == 0) listeners().waiting.erase(env);
  return freed;
}

}  // namespace cudalloc

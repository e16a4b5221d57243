// Promises for work on the thread pool. The work touches the device, which waits for it before it closes;
// what comes after it, on the JavaScript thread, does not.
#include "async.h"

#include <memory>

namespace cudalloc {
namespace {

struct Task {
  napi_async_work handle = nullptr;
  napi_deferred deferred = nullptr;
  napi_ref kept = nullptr;
  std::function<void()> work;
  std::unique_ptr<Error> error;
  std::function<void()> abandon;
};

void execute(napi_env, void* data) {
  Task* task = static_cast<Task*>(data);
  try {
    task->work();
  } catch (const Error& error) {
    task->error = std::make_unique<Error>(error);
  }
}

void settle(napi_env env, napi_status status, Task* task) {
  Napi::HandleScope scope(env);
  if (task->error) {
    napi_reject_deferred(env, task->deferred, to_javascript(env, *task->error).Value());
  } else if (status != napi_ok) {
    napi_reject_deferred(env, task->deferred, Napi::Error::New(env, "The work was cancelled.").Value());
  } else {
    napi_resolve_deferred(env, task->deferred, Napi::Env(env).Undefined());
  }
}

void complete(napi_env env, napi_status status, void* data) {
  std::unique_ptr<Task> task(static_cast<Task*>(data));
  // Cancelled before it began: nobody else says that it is over.
  if (status == napi_cancelled) task->abandon();
  try {
    settle(env, status, task.get());
  } catch (const Napi::Error&) {
    // The environment is ending and runs no JavaScript any more: nobody waits for the promise.
  }
  napi_delete_reference(env, task->kept);
  napi_delete_async_work(env, task->handle);
}

}  // namespace

Napi::Value run_async(Napi::Env env, Device& device, std::function<void()> work, Napi::Value kept) {
  auto task = std::make_unique<Task>();
  task->work = std::move(work);
  task->abandon = [&device] { device.end_async(); };
  napi_value promise = nullptr;
  napi_value name = nullptr;
  if (napi_create_promise(env, &task->deferred, &promise) != napi_ok ||
      napi_create_reference(env, kept, 1, &task->kept) != napi_ok ||
      napi_create_string_utf8(env, "cudalloc", NAPI_AUTO_LENGTH, &name) != napi_ok ||
      napi_create_async_work(env, nullptr, name, execute, complete, task.get(), &task->handle) != napi_ok ||
      napi_queue_async_work(env, task->handle) != napi_ok) {
    const Napi::Error error = Napi::Error::New(env);
    if (task->handle) napi_delete_async_work(env, task->handle);
    if (task->kept) napi_delete_reference(env, task->kept);
    task->abandon();
    throw error;
  }
  task.release();
  return Napi::Value(env, promise);
}

}  // namespace cudalloc

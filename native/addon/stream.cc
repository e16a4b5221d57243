// Group "stream" of the border: streams and events.
#include "arguments.h"
#include "async.h"
#include "groups.h"

namespace cudalloc {
namespace {

Napi::Value stream_create(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const bool non_blocking = arguments.boolean(1, "nonBlocking");
  const int priority = static_cast<int>(arguments.integer(2, "priority", INT32_MIN, INT32_MAX));
  return Napi::Number::New(arguments.env(), device.stream_create(non_blocking, priority));
}

Napi::Value stream_wrap(const Arguments& arguments) {
  Device& device = arguments.device(0);
  return Napi::Number::New(arguments.env(), device.stream_wrap(arguments.bigint(1, "handle")));
}

Napi::Value stream_handle(const Arguments& arguments) {
  const CUstream handle = arguments.device(0).stream_handle(arguments.id(1, "stream"));
  return Napi::Number::New(arguments.env(), static_cast<double>(reinterpret_cast<uintptr_t>(handle)));
}

Napi::Value stream_synchronize(const Arguments& arguments) {
  arguments.device(0).stream_synchronize(arguments.id(1, "stream"));
  return arguments.env().Undefined();
}

Napi::Value stream_synchronize_async(const Arguments& arguments) {
  Device& device = arguments.device(0);
  auto work = device.begin_stream_synchronize(arguments.id(1, "stream"));
  return run_async(arguments.env(), device, std::move(work), Napi::Object::New(arguments.env()));
}

Napi::Value stream_query(const Arguments& arguments) {
  return Napi::Boolean::New(arguments.env(), arguments.device(0).stream_query(arguments.id(1, "stream")));
}

Napi::Value stream_wait_event(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const int32_t stream = arguments.id(1, "stream");
  device.stream_wait_event(stream, arguments.id(2, "event"));
  return arguments.env().Undefined();
}

Napi::Value stream_is_capturing(const Arguments& arguments) {
  return Napi::Boolean::New(arguments.env(),
                            arguments.device(0).stream_is_capturing(arguments.id(1, "stream")));
}

Napi::Value stream_destroy(const Arguments& arguments) {
  arguments.device(0).stream_destroy(arguments.id(1, "stream"));
  return arguments.env().Undefined();
}

Napi::Value event_create(const Arguments& arguments) {
  return Napi::Number::New(arguments.env(), arguments.device(0).event_create(arguments.boolean(1, "timing")));
}

Napi::Value event_record(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const int32_t event = arguments.id(1, "event");
  device.event_record(event, arguments.id(2, "stream"));
  return arguments.env().Undefined();
}

Napi::Value event_query(const Arguments& arguments) {
  return Napi::Boolean::New(arguments.env(), arguments.device(0).event_query(arguments.id(1, "event")));
}

Napi::Value event_synchronize(const Arguments& arguments) {
  arguments.device(0).event_synchronize(arguments.id(1, "event"));
  return arguments.env().Undefined();
}

Napi::Value event_elapsed_time(const Arguments& arguments) {
  Device& device = arguments.device(0);
  const int32_t start = arguments.id(1, "event");
  return Napi::Number::New(arguments.env(), device.event_elapsed_time(start, arguments.id(2, "event")));
}

Napi::Value event_destroy(const Arguments& arguments) {
  arguments.device(0).event_destroy(arguments.id(1, "event"));
  return arguments.env().Undefined();
}

}  // namespace

void add_stream(Napi::Object exports) {
  add<stream_create>(exports, "streamCreate");
  add<stream_wrap>(exports, "streamWrap");
  add<stream_handle>(exports, "streamHandle");
  add<stream_synchronize>(exports, "streamSynchronize");
  add<stream_synchronize_async>(exports, "streamSynchronizeAsync");
  add<stream_query>(exports, "streamQuery");
  add<stream_wait_event>(exports, "streamWaitEvent");
  add<stream_is_capturing>(exports, "streamIsCapturing");
  add<stream_destroy>(exports, "streamDestroy");
  add<event_create>(exports, "eventCreate");
  add<event_record>(exports, "eventRecord");
  add<event_query>(exports, "eventQuery");
  add<event_synchronize>(exports, "eventSynchronize");
  add<event_elapsed_time>(exports, "eventElapsedTime");
  add<event_destroy>(exports, "eventDestroy");
}

}  // namespace cudalloc

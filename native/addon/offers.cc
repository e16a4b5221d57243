// Group "offers" of the border: what the threads that have one device open leave to each other.
#include "arguments.h"
#include "groups.h"
#include "trim_requests.h"

namespace cudalloc {
namespace {

Napi::Value number(const Arguments& arguments, uint64_t value) {
  return Napi::Number::New(arguments.env(), static_cast<double>(value));
}

Napi::Value openings(const Arguments& arguments) {
  return number(arguments, static_cast<uint64_t>(arguments.device(0).openings()));
}

Napi::Value mem_offer(const Arguments& arguments) {
  const View<int32_t> handles = arguments.int32_view(1, "handles");
  arguments.device(0).mem_offer(handles.data, handles.length);
  return arguments.env().Undefined();
}

Napi::Value mem_claim(const Arguments& arguments) {
  const View<int32_t> handles = arguments.int32_view(1, "handles");
  return number(arguments, arguments.device(0).mem_claim(handles.data, handles.length));
}

Napi::Value mem_take(const Arguments& arguments) {
  const uint64_t page_bytes = arguments.positive_bytes(1, "pageBytes");
  const View<int32_t> handles = arguments.int32_view(2, "handles");
  return number(arguments, arguments.device(0).mem_take(page_bytes, handles.data, handles.length));
}

Napi::Value mem_trim(const Arguments& arguments) {
  return number(arguments, arguments.device(0).mem_trim(arguments.bytes(1, "bytes")));
}

Napi::Value mem_offered(const Arguments& arguments) {
  return number(arguments, arguments.device(0).mem_offered());
}

Napi::Value on_trim_request(const Arguments& arguments) {
  listen_to_trim_requests(arguments.env(), arguments.device(0), arguments[1]);
  return arguments.env().Undefined();
}

Napi::Value ask_for_trim(const Arguments& arguments) {
  constexpr int64_t kLongest = 60'000;
  const Device& device = arguments.device(0);
  const uint64_t bytes = arguments.bytes(1, "bytes");
  const std::chrono::milliseconds patience(arguments.integer(2, "timeoutMs", 0, kLongest));
  return number(arguments, request_trim(arguments.env(), device, bytes, patience));
}

}  // namespace

void add_offers(Napi::Object exports) {
  add<openings>(exports, "deviceOpenings");
  add<mem_offer>(exports, "memOffer");
  add<mem_claim>(exports, "memClaim");
  add<mem_take>(exports, "memTake");
  add<mem_trim>(exports, "memTrim");
  add<mem_offered>(exports, "memOffered");
  add<on_trim_request>(exports, "onTrimRequest");
  add<ask_for_trim>(exports, "requestTrim");
}

}  // namespace cudalloc

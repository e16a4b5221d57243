// Order of work: streams, and the points in them that events mark. Work is executed when it is enqueued, so
// only the points can be pending. Must not know of memory or of the CUDA functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>

namespace cudalloc::mock {

struct Stream;

/** A place in a stream's work: an event's, or that of a wait for another point. */
struct Point {
  std::weak_ptr<Stream> stream;
  bool held = false;               // completes only when told
  std::shared_ptr<Point> awaited;  // completes no earlier than this one
  bool done = false;
  std::chrono::steady_clock::time_point completed;
};

struct Stream {
  int device = 0;
  unsigned flags = 0;
  uint64_t capture = 0;  // number of the capture it belongs to; 0: none
  std::deque<std::shared_ptr<Point>> pending;
};

using StreamPointer = std::shared_ptr<Stream>;
using PointPointer = std::shared_ptr<Point>;

/** Appends a point; it is done at once unless it is held or something before it is pending. */
PointPointer append_point(const StreamPointer& stream, bool held, PointPointer awaited);

/** Completes the point, what it awaits, and everything before it on its stream. */
void complete(PointPointer point);

/** Forgets everything on the stream, without completing what that awaits; whoever awaits it need not any
 * more. */
void abandon(Stream& stream);

/** Completes everything on the stream. */
void complete_all(Stream& stream);

/** Completes the points at the front that nothing holds any more. @return whether there were any. */
bool settle(Stream& stream);

}  // namespace cudalloc::mock

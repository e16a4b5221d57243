#include "timeline.h"

#include <utility>

namespace cudalloc::mock {
namespace {

void finish(Point& point) {
  point.done = true;
  point.awaited.reset();
  point.completed = std::chrono::steady_clock::now();
}

}  // namespace

PointPointer append_point(const StreamPointer& stream, bool held, PointPointer awaited) {
  auto point = std::make_shared<Point>();
  point->stream = stream;
  point->held = held;
  point->awaited = std::move(awaited);
  stream->pending.push_back(point);
  settle(*stream);
  return point;
}

void complete(PointPointer point) {
  if (point->done) return;
  // A pending point sits in the queue of its stream, which is therefore alive: destroyed streams are kept
  // until empty.
  const StreamPointer stream = point->stream.lock();
  while (!point->done) {
    const PointPointer front = stream->pending.front();
    stream->pending.pop_front();
    if (front->awaited) complete(front->awaited);
    finish(*front);
  }
}

void abandon(Stream& stream) {
  for (const PointPointer& point : stream.pending) finish(*point);
  stream.pending.clear();
}

void complete_all(Stream& stream) {
  while (!stream.pending.empty()) complete(stream.pending.back());
}

bool settle(Stream& stream) {
  bool any = false;
  while (!stream.pending.empty()) {
    Point& front = *stream.pending.front();
    if (front.held || (front.awaited && !front.awaited->done)) break;
    finish(front);
    stream.pending.pop_front();
    any = true;
  }
  return any;
}

}  // namespace cudalloc::mock

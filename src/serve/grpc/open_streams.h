#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/byte_budget.h"
#include "base/status.h"

namespace fermata::serve {

// The streams of all connections, so that a server that stops waits for none of which nothing is
// under way, and that those of which only the head has come make room for others. Thread-safe.
class OpenStreams {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  // Of one over which messages have come, before it gives way to others.
  static constexpr std::chrono::seconds kIdleLimit{10};

  class Stream {
   public:
    virtual ~Stream() = default;
    virtual void drain() = 0;  // ends once nothing of it is under way
    virtual void look() {}     // what it tells its client may have changed
    // Ends with that, if nothing is under way of it, and lets go at once of what it holds. False:
    // it goes on.
    virtual bool give_way(const absl::Status& /*why*/) { return false; }
    // Since when nothing is under way of it.
    virtual std::optional<Moment> idle_since() { return std::nullopt; }
    // What it holds memory of: its address's.
    virtual const ByteBudget* share() const { return nullptr; }
  };

  void add(const std::shared_ptr<Stream>& stream) {
    bool draining;
    {
      const std::scoped_lock lock(mutex_);
      streams_[stream.get()] = {stream, next_};
      unused_[next_++] = stream.get();
      draining = draining_;
    }
    if (draining) stream->drain();
  }
  void remove(const Stream* stream) {
    const std::scoped_lock lock(mutex_);
    const auto known = streams_.find(stream);
    if (known == streams_.end()) return;
    unused_.erase(known->second.order);
    streams_.erase(known);
  }
  // A message of it has come.
  void used(const Stream* stream) {
    const std::scoped_lock lock(mutex_);
    const auto known = streams_.find(stream);
    if (known != streams_.end()) unused_.erase(known->second.order);
  }
  // Ends the oldest of which no message has come, else the one that has been idle for longest, at
  // least kIdleLimit; `of`: of those that hold memory of it. False: there is none.
  bool end_idle(const ByteBudget* of, Moment now = std::chrono::steady_clock::now()) {
    while (const auto oldest = take_unused(of)) {
      if (oldest->give_way(error(absl::StatusCode::kResourceExhausted,
                                 "no message has come of this stream, and others want its memory")))
        return true;
    }
    const auto longest = find_idle(of, now);
    return longest != nullptr &&
           longest->give_way(error(absl::StatusCode::kResourceExhausted,
                                   "this stream is idle, and others want its memory"));
  }
  // Those that are there and those that are still to come.
  void drain() {
    {
      const std::scoped_lock lock(mutex_);
      draining_ = true;
    }
    each(&Stream::drain);
  }
  void look() { each(&Stream::look); }

 private:
  std::shared_ptr<Stream> take_unused(const ByteBudget* of) {
    const std::scoped_lock lock(mutex_);
    for (auto each = unused_.begin(); each != unused_.end(); ++each) {
      auto stream = streams_.at(each->second).stream.lock();
      if (stream == nullptr || (of != nullptr && stream->share() != of)) continue;
      unused_.erase(each);
      return stream;
    }
    return nullptr;
  }
  // O(streams), and so not at once again where there was none.
  std::shared_ptr<Stream> find_idle(const ByteBudget* of, Moment now) {
    const std::scoped_lock lock(mutex_);
    if (now < search_from_) return nullptr;
    std::shared_ptr<Stream> longest;
    Moment first = now - kIdleLimit;
    for (const auto& [_, open] : streams_) {
      auto stream = open.stream.lock();
      if (stream == nullptr || (of != nullptr && stream->share() != of)) continue;
      const auto since = stream->idle_since();
      if (!since || *since > first) continue;
      first = *since;
      longest = std::move(stream);
    }
    if (longest == nullptr) search_from_ = now + kSearchEvery;
    return longest;
  }

  void each(void (Stream::*call)()) {
    std::vector<std::shared_ptr<Stream>> open;
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& [_, stream] : streams_) open.push_back(stream.stream.lock());
    }
    for (const auto& stream : open) {
      if (stream != nullptr) (stream.get()->*call)();
    }
  }

  std::mutex mutex_;
  bool draining_ = false;
  struct Open {
    std::weak_ptr<Stream> stream;
    uint64_t order = 0;  // of its opening
  };
  std::map<const Stream*, Open> streams_;
  std::map<uint64_t, const Stream*> unused_;
  uint64_t next_ = 0;
  static constexpr std::chrono::milliseconds kSearchEvery{10};
  Moment search_from_{};
};

}  // namespace fermata::serve

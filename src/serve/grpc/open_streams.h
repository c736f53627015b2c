#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"

namespace fermata::serve {

// The streams of all connections, so that a server that stops waits for none of which nothing is
// under way, and that those of which only the head has come make room for others. Thread-safe.
class OpenStreams {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual void drain() = 0;  // ends once nothing of it is under way
    virtual void look() {}     // what it tells its client may have changed
    // Ends with that, if no message has come of it, and lets go at once of what it holds.
    virtual void give_way(const absl::Status& /*why*/) {}
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
  // Ends the oldest of which no message has come. False: there is none.
  bool end_unused() {
    std::shared_ptr<Stream> oldest;
    {
      const std::scoped_lock lock(mutex_);
      while (oldest == nullptr && !unused_.empty()) {
        oldest = streams_.at(unused_.begin()->second).stream.lock();
        unused_.erase(unused_.begin());
      }
    }
    if (oldest != nullptr) {
      oldest->give_way(error(absl::StatusCode::kResourceExhausted,
                             "no message has come of this stream, and others want its memory"));
    }
    return oldest != nullptr;
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
};

}  // namespace fermata::serve

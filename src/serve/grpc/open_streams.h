#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace fermata::serve {

// The streams of all connections, so that a server that stops waits for none of which nothing is
// under way. Thread-safe.
class OpenStreams {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual void drain() = 0;  // ends once nothing of it is under way
  };

  void add(const std::shared_ptr<Stream>& stream) {
    bool draining;
    {
      const std::scoped_lock lock(mutex_);
      streams_[stream.get()] = stream;
      draining = draining_;
    }
    if (draining) stream->drain();
  }
  void remove(const Stream* stream) {
    const std::scoped_lock lock(mutex_);
    streams_.erase(stream);
  }
  // Those that are there and those that are still to come.
  void drain() {
    std::vector<std::shared_ptr<Stream>> open;
    {
      const std::scoped_lock lock(mutex_);
      draining_ = true;
      for (const auto& [_, stream] : streams_) open.push_back(stream.lock());
    }
    for (const auto& stream : open) {
      if (stream != nullptr) stream->drain();
    }
  }

 private:
  std::mutex mutex_;
  bool draining_ = false;
  std::map<const Stream*, std::weak_ptr<Stream>> streams_;
};

}  // namespace fermata::serve

#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cluster/wire/channel.h"
#include "engine/threads/periodic.h"

namespace fermata::cluster {

// Cuts channels that are later than they were expected. Thread-safe.
class Lookout {
 public:
  static constexpr Duration kPeriod = Duration::millis(20);

  void over(const std::shared_ptr<Channel>& channel) {
    const std::lock_guard lock(mutex_);
    channels_.push_back(channel);
    if (!timer_) timer_.emplace(kPeriod, [this] { look(); });
  }

 private:
  void look() {
    const Time now = monotonic_now();
    const std::lock_guard lock(mutex_);
    std::erase_if(channels_, [now](const std::weak_ptr<Channel>& each) {
      const std::shared_ptr<Channel> channel = each.lock();
      if (channel != nullptr) channel->cut_if_late(now);
      return channel == nullptr;
    });
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<Channel>> channels_;
  // Last: uses the above. From the first channel on: a configuration that names other hosts is read
  // before signals are blocked, and a thread of that time would be ended by them.
  std::optional<engine::Periodic> timer_;
};

}  // namespace fermata::cluster

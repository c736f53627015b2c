#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace fermata::serve {

// What gRPC holds for clients that have not taken all that was sent to them for a second, by
// connection. Beyond `limit` the connection ends that holds most. Thread-safe.
class Unread {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using End = std::function<void(uint64_t connection)>;
  static constexpr std::chrono::seconds kPatience{1};

  // `end` is called outside of all locks and may come back.
  Unread(uint64_t limit, End end) : limit_(limit), end_(std::move(end)) {}

  // A connection, something of which is not taken, holds so much now; 0: or all is taken. Ends as
  // many as look().
  void set(uint64_t connection, uint64_t bytes, Moment now) {
    {
      const std::scoped_lock lock(mutex_);
      if (bytes == 0) return forget_under_lock(connection);
      Holder& holder = holders_.try_emplace(connection, Holder{0, now}).first->second;
      const uint64_t before = std::exchange(holder.bytes, bytes);
      all_ += bytes - before;
      if (bytes <= before) return;
    }
    look(now);
  }
  void forget(uint64_t connection) {
    const std::scoped_lock lock(mutex_);
    forget_under_lock(connection);
  }
  // Ends as many as it takes. Now and then; O(connections that hold something) for each.
  void look(Moment now) {
    while (const uint64_t most = take_most(now)) end_(most);
  }
  uint64_t bytes() const {
    const std::scoped_lock lock(mutex_);
    return all_;
  }

 private:
  struct Holder {
    uint64_t bytes = 0;
    Moment since;
  };
  void forget_under_lock(uint64_t connection) {
    const auto found = holders_.find(connection);
    if (found == holders_.end()) return;
    all_ -= found->second.bytes;
    holders_.erase(found);
  }
  uint64_t take_most(Moment now) {  // 0: there is none
    const std::scoped_lock lock(mutex_);
    if (all_ <= limit_) return 0;
    uint64_t most = 0, bytes = 0, lasting = 0;
    for (const auto& [connection, holder] : holders_) {
      if (now - holder.since < kPatience) continue;
      lasting += holder.bytes;
      if (holder.bytes <= bytes) continue;
      most = connection;
      bytes = holder.bytes;
    }
    if (lasting <= limit_) return 0;
    forget_under_lock(most);
    return most;
  }

  const uint64_t limit_;
  const End end_;
  mutable std::mutex mutex_;
  uint64_t all_ = 0;
  absl::flat_hash_map<uint64_t, Holder> holders_;
};

}  // namespace fermata::serve

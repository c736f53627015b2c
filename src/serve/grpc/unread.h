#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "serve/call/client.h"

namespace fermata::serve {

// What gRPC holds for clients that have not taken all that was sent to them for a second, by
// connection. Beyond `limit` the connection ends that holds most of the address that does.
// Thread-safe.
class Unread {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using End = std::function<void(uint64_t connection)>;
  static constexpr std::chrono::seconds kPatience{1};
  static constexpr std::chrono::milliseconds kLookEvery{10};  // where none was found

  // `end` is called outside of all locks and may come back.
  Unread(uint64_t limit, End end) : limit_(limit), end_(std::move(end)) {}

  // A client, by whom something is not taken, holds so much now; 0: or all is taken. Ends as many
  // as look().
  void set(const Client& client, uint64_t bytes, Moment now) {
    {
      const std::scoped_lock lock(mutex_);
      if (bytes == 0) return forget_under_lock(client.connection);
      Holder& holder = holders_.try_emplace(client.connection).first->second;
      if (holder.bytes == 0) holder = {client.address, 0, now};
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
    std::string address;
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
    if (all_ <= limit_ || now - looked_ < kLookEvery) return 0;
    uint64_t lasting = 0;
    absl::flat_hash_map<std::string_view, uint64_t> of_addresses;
    for (const auto& [connection, holder] : holders_) {
      if (now - holder.since < kPatience) continue;
      lasting += holder.bytes;
      of_addresses[holder.address] += holder.bytes;
    }
    if (lasting <= limit_) {
      looked_ = now;
      return 0;
    }
    uint64_t most = 0;
    std::pair<uint64_t, uint64_t> bytes;  // of its address, its own
    for (const auto& [connection, holder] : holders_) {
      if (now - holder.since < kPatience) continue;
      const std::pair own(of_addresses[holder.address], holder.bytes);
      if (own <= bytes) continue;
      most = connection;
      bytes = own;
    }
    forget_under_lock(most);
    return most;
  }

  const uint64_t limit_;
  const End end_;
  mutable std::mutex mutex_;
  uint64_t all_ = 0;
  Moment looked_{};
  absl::flat_hash_map<uint64_t, Holder> holders_;
};

}  // namespace fermata::serve

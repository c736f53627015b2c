#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/byte_budget.h"
#include "serve/net/pace.h"

namespace fermata::serve {

// What gRPC holds of messages that have not come whole, by connection. Beyond `limit` the
// connection gives way that would take longest to bring what it holds, of those that take more than
// a second, else the one that holds most; never one that holds less than a quarter of an equal
// share. Thread-safe.
class Arrivals {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using End = std::function<void(uint64_t connection)>;
  // Who holds less is not counted: most messages come whole.
  static constexpr uint64_t kFrom = 16 * 1024;

  // What is counted is held of `whole` too. `end` is called outside of all locks and may come back.
  Arrivals(uint64_t limit, std::shared_ptr<ByteBudget> whole, End end)
      : limit_(limit), budget_(limit, std::move(whole)), end_(std::move(end)) {}

  // A connection that holds so much now, of which `more` has just come. O(1); where it is beyond
  // the limit, O(connections that hold something).
  void set(uint64_t connection, uint64_t bytes, uint64_t more, Moment now);
  void forget(uint64_t connection);
  uint64_t bytes() const { return budget_.used(); }

 private:
  struct Holder {
    uint64_t bytes = 0;
    Pace pace;
  };
  void count(Holder& holder, uint64_t bytes);
  uint64_t find_slowest(Moment now) const;

  const uint64_t limit_;
  ByteBudget budget_;
  const End end_;
  std::mutex mutex_;
  absl::flat_hash_map<uint64_t, Holder> holders_;
};

}  // namespace fermata::serve

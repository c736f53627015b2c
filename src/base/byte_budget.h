#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace fermata {

// A bound on bytes that are held at a time: of a part, such as a service, or of the whole that it
// belongs to. Thread-safe, lock-free.
class ByteBudget {
 public:
  // Who holds no more than this may take what is there for those.
  static constexpr uint64_t kSmall = 64 * 1024;

  // `more_for_small`: beyond the limit, for those who hold little.
  explicit ByteBudget(uint64_t limit, std::shared_ptr<ByteBudget> whole = nullptr,
                      uint64_t more_for_small = 0)
      : limit_(limit), more_for_small_(more_for_small), whole_(std::move(whole)) {}

  // False, and nothing is taken, where this or the whole would exceed its limit. `is_small`: for
  // who then holds at most kSmall.
  bool take(uint64_t bytes, bool is_small = false) {
    const uint64_t limit = is_small ? limit_ + more_for_small_ : limit_;
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit &&
        (whole_ == nullptr || whole_->take(bytes, is_small))) {
      return true;
    }
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  // Though it is beyond the limit: what is there already and has to be counted.
  void take_anyway(uint64_t bytes) {
    used_.fetch_add(bytes, std::memory_order_relaxed);
    if (whole_ != nullptr) whole_->take_anyway(bytes);
  }
  void give_back(uint64_t bytes) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    if (whole_ != nullptr) whole_->give_back(bytes);
  }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }
  // Less than a quarter is left: who takes long to let go of what it holds is in others' way.
  bool is_short() const { return used() > limit_ - limit_ / 4; }
  // What one who takes from here alone may have: the whole may be less.
  uint64_t most() const { return whole_ == nullptr ? limit_ : std::min(limit_, whole_->most()); }

 private:
  const uint64_t limit_, more_for_small_;
  const std::shared_ptr<ByteBudget> whole_;
  std::atomic<uint64_t> used_ = 0;
};

// Bytes taken from a budget until this goes. Not thread-safe.
class HeldBytes {
 public:
  HeldBytes() = default;
  // `bytes` of it are taken already.
  explicit HeldBytes(std::shared_ptr<ByteBudget> budget, uint64_t bytes = 0)
      : budget_(std::move(budget)), bytes_(bytes) {}
  HeldBytes(HeldBytes&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeldBytes() {
    if (bytes_ > 0) budget_->give_back(bytes_);
  }

  // False where the budget is exhausted: then it holds what it held. Never shrinks.
  bool grow_to(uint64_t bytes) {
    if (bytes <= bytes_ || budget_ == nullptr) return true;
    if (!budget_->take(bytes - bytes_, bytes <= ByteBudget::kSmall)) return false;
    bytes_ = bytes;
    return true;
  }
  bool grow_by(uint64_t bytes) { return grow_to(bytes_ + bytes); }
  bool empty() const { return bytes_ == 0; }
  uint64_t bytes() const { return bytes_; }
  // What it can hold at most, while nobody else holds anything.
  uint64_t most() const {
    return budget_ == nullptr ? std::numeric_limits<uint64_t>::max() : budget_->most();
  }
  // Another, empty, of the same budget.
  HeldBytes beside() const { return HeldBytes(budget_); }

 private:
  std::shared_ptr<ByteBudget> budget_;  // none: nothing is counted
  uint64_t bytes_ = 0;
};

}  // namespace fermata

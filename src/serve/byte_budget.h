#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace fermata::serve {

// A bound on the bytes of messages that are held at a time: of the whole server, or of
// one connection, which is part of the server's (`whole`). Thread-safe, lock-free.
class ByteBudget {
 public:
  explicit ByteBudget(size_t limit, std::shared_ptr<ByteBudget> whole = nullptr)
      : limit_(limit), whole_(std::move(whole)) {}

  // False, and nothing is taken, where this or the whole would exceed its limit.
  bool take(size_t bytes) {
    const size_t before = used_.fetch_add(bytes, std::memory_order_relaxed);
    if (before + bytes <= limit_ && (whole_ == nullptr || whole_->take(bytes))) return true;
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  void give_back(size_t bytes) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    if (whole_ != nullptr) whole_->give_back(bytes);
  }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const size_t limit_;
  const std::shared_ptr<ByteBudget> whole_;
  std::atomic<size_t> used_ = 0;
};

// Bytes taken from a budget until this goes. Not thread-safe.
class HeldBytes {
 public:
  HeldBytes() = default;
  explicit HeldBytes(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
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
  bool grow_to(size_t bytes) {
    if (bytes <= bytes_ || budget_ == nullptr) return true;
    if (!budget_->take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }
  bool grow_by(size_t bytes) { return grow_to(bytes_ + bytes); }
  bool empty() const { return bytes_ == 0; }
  // Another, empty, of the same budget.
  HeldBytes beside() const { return HeldBytes(budget_); }

 private:
  std::shared_ptr<ByteBudget> budget_;  // none: nothing is counted
  size_t bytes_ = 0;
};

}  // namespace fermata::serve

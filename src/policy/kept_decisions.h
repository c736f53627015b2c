#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

namespace fermata::policy {

// What the last decisions were made from, exactly as they were made: a problem is made where it is
// kept, and its memory is used again. Documents are written of them when somebody asks.
template <class Problem>
class KeptDecisions {
 public:
  static constexpr size_t kMost = 100;

  // Where to make the next problem; it has what an old one had.
  Problem& next() {
    if (next_ == kept_.size()) kept_.emplace_back();
    return kept_[next_];
  }
  // A decision is made from what next() gave last: it is the newest from now on.
  void keep() {
    next_ = (next_ + 1) % (kMost + 1);
    count_ = std::min(count_ + 1, kMost);
  }
  // Behind what is there, the newest first.
  template <class To>
  void copy_to(std::vector<To>& to) const {
    for (size_t i = 1; i <= count_; ++i) to.push_back(kept_[(next_ + kMost + 1 - i) % (kMost + 1)]);
  }
  template <class To>
  std::vector<To> newest() const {
    std::vector<To> all;
    copy_to(all);
    return all;
  }

 private:
  std::deque<Problem> kept_;
  size_t next_ = 0, count_ = 0;
};

}  // namespace fermata::policy

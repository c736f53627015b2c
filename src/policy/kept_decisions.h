#pragma once

#include <cstddef>
#include <vector>

namespace fermata::policy {

// What the last decisions were made from, exactly as they were made. Memory is used again.
template <class Problem>
class KeptDecisions {
 public:
  static constexpr size_t kMost = 100;

  void keep(const Problem& problem) {
    if (kept_.size() < kMost) {
      kept_.push_back(problem);
    } else {
      kept_[next_] = problem;
    }
    next_ = (next_ + 1) % kMost;
  }
  // Behind what is there, the newest first.
  template <class To>
  void copy_to(std::vector<To>& to) const {
    for (size_t i = 1; i <= kept_.size(); ++i) to.push_back(kept_[(next_ + kMost - i) % kMost]);
  }
  template <class To>
  std::vector<To> newest() const {
    std::vector<To> all;
    copy_to(all);
    return all;
  }

 private:
  std::vector<Problem> kept_;
  size_t next_ = 0;
};

}  // namespace fermata::policy

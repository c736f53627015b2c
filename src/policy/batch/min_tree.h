#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"

namespace fermata::policy {

// Times by dense index, and the smallest of them; a tie goes to the lowest
// index. A tournament tree: set is O(log n), the smallest is O(1). An index never set is
// Time::infinite().
class MinTree {
 public:
  MinTree() { resize(1); }

  void resize(size_t n) {
    size_t leaves = 1;
    while (leaves < n) leaves *= 2;
    if (leaves == leaves_) return;
    std::vector<Time> old(values_.begin(), values_.end());
    leaves_ = leaves;
    values_.assign(leaves, Time::infinite());
    winner_.assign(2 * leaves, 0);
    for (size_t i = 0; i < leaves; ++i) winner_[leaves + i] = static_cast<uint32_t>(i);
    for (size_t i = leaves - 1; i > 0; --i) winner_[i] = winner_[2 * i];
    for (size_t i = 0; i < old.size(); ++i) set(i, old[i]);
  }

  void set(size_t i, Time value) {
    if (values_[i] == value) return;
    values_[i] = value;
    for (size_t node = (leaves_ + i) / 2; node > 0; node /= 2) {
      const uint32_t left = winner_[2 * node], right = winner_[2 * node + 1];
      const uint32_t winner = values_[right] < values_[left] ? right : left;
      if (std::exchange(winner_[node], winner) == winner && winner != i) return;  // and so above
    }
  }

  // Calls visit(i), by ascending i, for those whose time here is before `here` or in another tree
  // of the same size before `there`. O(log n) for each.
  template <class Visit>
  void each_before(Time here, const MinTree& other, Time there, const Visit& visit) const {
    walk(1, here, other, there, visit);
  }

  Time operator[](size_t i) const { return values_[i]; }
  size_t top_index() const { return winner_[1]; }
  Time top() const { return values_[winner_[1]]; }

 private:
  Time least(size_t node) const { return values_[winner_[node]]; }
  template <class Visit>
  void walk(size_t node, Time here, const MinTree& other, Time there, const Visit& visit) const {
    if (least(node) >= here && other.least(node) >= there) return;
    if (node >= leaves_) return visit(node - leaves_);
    walk(2 * node, here, other, there, visit);
    walk(2 * node + 1, here, other, there, visit);
  }

  size_t leaves_ = 0;
  std::vector<Time> values_;
  std::vector<uint32_t> winner_;  // [leaves_ + i] is i; [node] the smaller of its two children
};

}  // namespace fermata::policy

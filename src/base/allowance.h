#pragma once

#include <algorithm>

#include "base/time.h"

namespace fermata {

// What may be had of something: so much at once, and what was taken comes back at so much a second.
// `now` never goes back.
class Allowance {
 public:
  Allowance(double at_once, double a_second, Time now = Time())
      : at_once_(at_once), a_second_(a_second), left_(at_once), as_of_(now) {}

  // Less than nothing where it is owed.
  double left(Time now) const {
    return std::min(left_ + a_second_ * (now - as_of_).seconds(), at_once_);
  }
  bool is_full(Time now) const { return left(now) >= at_once_; }
  // False: there is less, and nothing is taken.
  bool take(double wanted, Time now) {
    if (left(now) < wanted) return false;
    take_anyway(wanted, now);
    return true;
  }
  void take_anyway(double wanted, Time now) {
    left_ = left(now) - wanted;
    as_of_ = now;
  }
  void give_back(double taken) { left_ += taken; }

 private:
  double at_once_, a_second_;
  double left_;  // at `as_of_`, before what came back since
  Time as_of_;
};

}  // namespace fermata

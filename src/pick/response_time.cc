#include "pick/response_time.h"

#include <algorithm>
#include <cmath>

namespace fermata::pick {
namespace {
constexpr double kKept = 0.95;   // of what is known, with each answer: the last twenty count
constexpr double kPrior = 0.25;  // answers' worth of "one at a time"
constexpr double kSpreadAtFirst = 0.25;  // of one answer's worth
constexpr double kWildest = 4;           // an error counts as so many times what was expected
constexpr double kOfMean = 1.25;         // a standard deviation, of a normal variable's mean error
}  // namespace

double ResponseTime::spread() const {
  return kOfMean * (errors_ + kSpreadAtFirst / kOfMean) / (weight_ + 1);
}

void ResponseTime::seen(double own, double ahead, double seconds) {
  const double expected = this->expected(own, ahead);
  if (expected > 0) {
    const double error = std::min(std::abs(seconds - expected) / expected, kWildest);
    errors_ = kKept * errors_ + error;
    weight_ = kKept * weight_ + 1;
  }
  own_own_ = kKept * own_own_ + own * own;
  own_ahead_ = kKept * own_ahead_ + own * ahead;
  ahead_ahead_ = kKept * ahead_ahead_ + ahead * ahead;
  own_time_ = kKept * own_time_ + own * seconds;
  ahead_time_ = kKept * ahead_time_ + ahead * seconds;
  // With the prior, as an answer that says each_ - alone_ = 0.
  const double oo = own_own_ + kPrior, oa = own_ahead_ - kPrior, aa = ahead_ahead_ + kPrior;
  const double determinant = oo * aa - oa * oa;
  alone_ = (own_time_ * aa - ahead_time_ * oa) / determinant;
  each_ = (ahead_time_ * oo - own_time_ * oa) / determinant;
  // Neither helps: then the other one alone explains it.
  if (each_ < 0) {
    each_ = 0;
    alone_ = own_time_ / own_own_;
  } else if (alone_ < 0) {
    alone_ = 0;
    each_ = ahead_time_ / std::max(ahead_ahead_, 1e-12);
  }
}

}  // namespace fermata::pick

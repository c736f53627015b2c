#pragma once

#include <deque>

#include "base/time.h"
#include "tune/history.h"

namespace fermata::tune {

// When to ask what more workers would have brought: while a service loses requests, again and
// again, but for a small part of one processor's time. Pure; not synchronised.
class LossWatch {
 public:
  static constexpr double kTolerated = 0.01;  // of a service's requests
  static constexpr uint64_t kFew = 3;         // lost: not yet worth asking
  static constexpr Duration kAgain = Duration::seconds(10);
  static constexpr int64_t kShare = 30;              // an answer takes one part of so many, at most
  static constexpr uint64_t kMostRequests = 30'000;  // of the recording that one is about
  static constexpr Duration kLongest = Duration::seconds(60), kShortest = Duration::seconds(5);

  // By the last ten seconds. `seconds` as History has them.
  bool due(const std::deque<Period>& seconds, Time now) const;
  // How much of the recording to ask about: a minute, or less where more requests came in it.
  static Duration span(const std::deque<Period>& seconds);
  // The answer took so long.
  void answered(Time now, Duration took);

 private:
  Time again_;
};

}  // namespace fermata::tune

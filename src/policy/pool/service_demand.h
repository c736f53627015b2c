#pragma once

#include <span>

#include "estimate/rate.h"
#include "estimate/variation.h"
#include "model/latency.h"
#include "policy/types.h"

namespace fermata::policy {

// What lately came to one service with a deadline, whatever may answer it.
class ServiceDemand {
 public:
  void count(const Task& task, Time now);  // each that comes; O(1) amortised
  double rate_rps(Time now) const;         // 0: they come no more
  // What those that came lately had until their deadlines; infinite where none has come.
  Duration slo() const { return slo_; }
  // For the pool's account; one runs for `alone` at least, and for `share` of a batch as large as a
  // deadline bears.
  Outlook outlook(Duration alone, Duration share) const;

 private:
  estimate::RateMeter rate_;
  estimate::CountVariation variation_;  // within slo_
  Time seen_;
  Duration slo_ = Duration::infinite();
};

// How long one item takes of a batch that two of fit into a deadline: who comes while one runs is
// in time with the next. O(log max_batch).
Duration share_of_batch(const LatencyTable& latency, Duration slo);

// Of an offer that is made for several services. Those that nobody comes to any more do not count.
Outlook merged(std::span<const Outlook> services, Time now);

}  // namespace fermata::policy

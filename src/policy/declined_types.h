#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/time.h"
#include "policy/types.h"

namespace fermata::policy {

// Types of workers that were granted for an offer and had no use for it (unlike workers: the
// batch is worth more elsewhere), so that the others are asked before they are asked again.
class DeclinedTypes {
 public:
  void add_worker(uint32_t type) { known_ |= 1u << type; }
  // One of this type had no use for it and, left alone, would have none before `until`. From when
  // on the offer, to types(), may be granted again: at once where another type was not asked yet.
  Time decline(uint32_t type, Time now, Time until) {
    until_ = std::min(until_, until);
    const uint32_t asked = std::exchange(declined_, declined_ | 1u << type);
    if ((declined_ & known_) != known_ && asked != declined_) return now;
    const Time wait = until_;
    clear();
    return wait;
  }
  void clear() {
    declined_ = 0;
    until_ = Time::infinite();
  }
  uint32_t types(Time now) {
    if (now >= until_) clear();
    return ~declined_;
  }
  Time until() const { return until_; }  // then types() are all again; infinite: they are

 private:
  uint32_t known_ = 0, declined_ = 0;
  Time until_ = Time::infinite();
};

}  // namespace fermata::policy

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/time.h"
#include "policy/types.h"

namespace fermata::policy {

// Types of workers that were granted for an offer and had no use for it (workers of several types:
// the batch is worth more elsewhere), so that the others are asked before they are asked again; and
// from when on it is worth asking at all.
class DeclinedTypes {
 public:
  void add_worker(uint32_t type) { known_ |= 1u << type; }
  // One of this type had no use for it and, left alone, would have none before `until`: the others
  // are asked at once, or all again then where none is left.
  void decline(uint32_t type, Time now, Time until) {
    until_ = std::min(until_, until);
    const uint32_t asked = std::exchange(declined_, declined_ | 1u << type);
    if ((declined_ & known_) != known_ && asked != declined_) {
      from_ = now;
    } else {
      look_again(until_);
    }
  }
  // All types may have a use for it from then on: something has changed.
  void look_again(Time from) {
    from_ = from;
    clear();
  }
  void used() { from_ = Time(); }  // by the one that was granted
  // From when on the offer, to types(), may be granted.
  Time from() const { return from_; }
  uint32_t types(Time now) {
    if (now >= until_) clear();
    return ~declined_;
  }
  Time until() const { return until_; }  // then types() are all again; infinite: they are

 private:
  void clear() {
    declined_ = 0;
    until_ = Time::infinite();
  }

  uint32_t known_ = 0, declined_ = 0;
  Time until_ = Time::infinite(), from_;
};

}  // namespace fermata::policy

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "simulate/scenario.h"
#include "tune/load_watch.h"
#include "tune/rule_choice.h"

namespace fermata::tune {

// Of what came, what a trial replays: requests of [from, to), the first of them to warm up, and the
// last so that those before them see the same load. Those of [measured, until) count.
struct Stretch {
  Time from, measured, until, to;
};

// Watches a load, says when the rules are to be tried on it, tries them, and says what follows. Its
// owner records the load, and makes a scenario of the stretch that is to be replayed. Pure.
class RuleTuner {
 public:
  // What a trial replays at most; the newest. Its cost is that of so many requests under each row.
  static constexpr Duration kLongest = Duration::seconds(12);
  static constexpr size_t kMostRequests = 20'000;

  explicit RuleTuner(Time now, size_t active = 0)
      : choice_(rule_rows().size(), active, now), begun_(now) {}

  void came(size_t service, Time at, Duration slo);
  // Whether a trial is due. To be asked about once a second.
  bool due(Time now);
  // Of what came since the last trial, as far as the load is the same. What is recorded begins at
  // `first`.
  Stretch stretch(Time first, Duration longest_slo, Time now) const;
  // `scenario` replays the stretch. The row to move to, if any. What cannot be run changes nothing,
  // and is tried again later.
  absl::StatusOr<std::optional<size_t>> try_on(const simulate::Scenario& scenario,
                                               const Stretch& stretch, Time now);
  void put_off(Time until) { choice_.put_off(until); }

  const RuleChoice& choice() const { return choice_; }

 private:
  LoadWatch watch_;
  RuleChoice choice_;
  Time begun_;
  Time tried_until_;
};

}  // namespace fermata::tune

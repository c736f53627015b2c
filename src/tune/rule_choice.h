#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "tune/rule_trial.h"

namespace fermata::tune {

// Which row of rules a pool follows, by what trials say that each would have lost. A trial replays
// the same requests under every row. What they lost is summed up, older trials fading, and
// forgotten when the load becomes another. The worst service decides; one with few requests counts
// as if it had some more that fared as the pool's others. Another row is taken where it would have
// lost less by a margin that evidence makes smaller, and never within ten seconds after the last
// move. Pure.
class RuleChoice {
 public:
  // `active`: the row that holds at first.
  RuleChoice(size_t rows, size_t active, Time now);

  // When the next trial is due: soon after the load has changed, then ever more seldom.
  Time next_trial() const { return std::max(next_trial_, not_before_); }
  // A trial: what every row lost of the same requests. The row to move to, if any.
  std::optional<size_t> tried(const std::vector<Losses>& by_row, Time now);
  // It could not be made; or it is to be made later, for its cost, whatever the load does.
  void put_off(Time until) { not_before_ = std::max(not_before_, until); }
  // The load is another since then.
  void forget(Time since, Time now);

  size_t active() const { return active_; }
  Time active_since() const { return active_since_; }
  uint64_t moves() const { return moves_; }
  uint64_t trials() const { return trials_; }
  // What a row would have lost of the worst service's requests, a share; none: it was not tried.
  std::optional<double> loss(size_t row) const;

 private:
  double worst_of(size_t row) const;
  double margin(size_t better, Time now) const;

  std::vector<Losses> sums_;  // by row and service
  size_t active_;
  Time active_since_, known_since_, last_trial_, next_trial_, not_before_;
  std::optional<Time> moved_;
  uint64_t moves_ = 0, trials_ = 0;
};

}  // namespace fermata::tune

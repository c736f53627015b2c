#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/latency_by_type.h"

namespace fermata::policy {

// What workers' time costs in a play, alike for items of every kind: the price of the play, but at
// least what others lose without the time, up to where an answer keeps half of its worth; and
// nothing where the worker would idle. Prices are of a second of the granted worker's type; one of
// another type costs as many times as much as it does more, by the models that are played.
class WorkerTime {
 public:
  // Others lose so much without a second of a worker of the type that takes longest.
  void clear(uint32_t granted_type, size_t types, double others);
  // A model that is played, by type of worker or with one table for all. O(types).
  void add(std::span<const LatencyByType::Table> tables);

  // How many seconds of the granted worker's type one of this type does as much as.
  double seconds_of(uint32_t type) const { return models_ == 0 ? 1 : speed_[type] / models_; }
  // What others lose without a second of the granted worker's type.
  double others() const { return models_ == 0 ? others_ : others_ * over_slowest_ / models_; }

  // The least that those pay who are asked for this much and whose best answer alone earns so much
  // a second.
  static double least(double asked, double earns) { return std::min(asked, kKept * earns); }
  double paid(double price, double least) const { return free_ ? 0 : std::max(price, least); }
  // From now on the worker would idle.
  void set_free(bool free) { free_ = free; }
  bool free() const { return free_; }

  // Seconds of a worker for one item in an efficient batch, within half of its SLO.
  static double seconds_of_item(const LatencyTable& latency, Duration slo);
  // Items a second to keep up with: until an SLO has passed, those that wait and those that come in
  // the first half of it.
  static double to_keep_up_with(double rate_rps, double waiting, Duration slo) {
    return kHalf * rate_rps + waiting / slo.seconds();
  }
  // The least price, up to the highest, at which the workers keep up with all, `keeps`, and what is
  // next below it: `work(price)` seconds of workers come a second, and there are so many. Whom the
  // time is worth just as much is served below, and not above. O(halvings) of work().
  struct Sustained {
    double below = 0, keeps = 0;
  };
  template <class Work>
  static Sustained sustained(double workers, double highest, const Work& work) {
    if (work(0) <= workers) return {};
    double low = 0, high = highest;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (work(middle) <= workers ? high : low) = middle;
    }
    return {low, high};
  }
  // No deadline binds beyond this.
  static constexpr Duration kNoHurry = Duration::seconds(24 * 3600);
  static constexpr double kBusy = 0.95;  // of the workers' time: the rest is for its ups and downs

 private:
  static constexpr double kHalf = 0.5;  // of an SLO
  static constexpr int kHalvings = 24;
  static constexpr double kKept = 0.5;  // of an answer's worth, however dear time is

  uint32_t granted_ = 0;
  double others_ = 0;
  double over_slowest_ = 0;    // how much faster the granted one's type is, summed over models
  std::vector<double> speed_;  // by type, beside the granted one's: so summed
  double models_ = 0;          // that differ by type
  bool free_ = false;
};

}  // namespace fermata::policy

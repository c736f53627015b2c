#include "engine/host/pool_window.h"

#include <algorithm>

#include "base/check.h"
#include "plan/autoscale.h"

namespace fermata::engine {

PoolTotals totals_of(const EngineSnapshot& snapshot) {
  PoolTotals totals{.at = snapshot.now};
  for (const ServiceStatistics& service : snapshot.services) {
    if (service.is_operator) continue;
    const auto count = [&service](Outcome outcome) {
      return service.outcomes[static_cast<size_t>(outcome)];
    };
    totals.on_time += count(Outcome::kOnTime);
    totals.bad += count(Outcome::kLate) + count(Outcome::kRejectedQueue) + service.lacking;
    totals.refused += count(Outcome::kRejectedDeadline);
    totals.lacking += service.lacking;
  }
  for (const WorkerStatistics& worker : snapshot.workers) totals.busy += worker.busy;
  return totals;
}

AutoscaleSignal signal_between(const PoolTotals& from, const PoolTotals& to, uint32_t workers) {
  FERMATA_CHECK(from.at < to.at);
  AutoscaleSignal signal{.window = to.at - from.at};
  const auto bad = static_cast<double>(to.bad - from.bad);
  const auto all = bad + static_cast<double>(to.on_time - from.on_time);
  signal.bad_rate = all == 0 ? 0 : bad / all;
  // What is counted while this is read may stand in one of the two and not in the other.
  const double infeasible = std::max(0.0, static_cast<double>(to.refused - from.refused) -
                                              static_cast<double>(to.lacking - from.lacking));
  const double infeasible_rate = infeasible == 0 ? 0 : infeasible / (infeasible + all);
  // A batch counts when it ends, so a window may have more busy time than time.
  const double busy = (to.busy - from.busy).seconds() / (signal.window.seconds() * workers);
  signal.idle_fraction = std::clamp(1 - busy, 0.0, 1.0);
  signal.workers_to_add =
      plan::workers_to_add({workers, signal.bad_rate, signal.idle_fraction, infeasible_rate});
  return signal;
}

}  // namespace fermata::engine

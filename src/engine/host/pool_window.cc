#include "engine/host/pool_window.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/check.h"

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
  totals.types.resize(snapshot.worker_types.size());
  for (const WorkerStatistics& worker : snapshot.workers) {
    totals.busy += worker.busy;
    if (worker.type >= totals.types.size()) continue;
    totals.types[worker.type].busy += worker.busy;
    totals.types[worker.type].workers += worker.serving;
  }
  return totals;
}

uint32_t PoolTotals::workers() const {
  return absl::c_accumulate(types, 0u,
                            [](uint32_t sum, const Type& type) { return sum + type.workers; });
}

namespace {

// Of a window, by workers that were `busy` in it so long together.
plan::PoolUse use_of(const PoolTotals& from, const PoolTotals& to, uint32_t workers,
                     Duration busy) {
  plan::PoolUse use{.workers = workers};
  const auto bad = static_cast<double>(to.bad - from.bad);
  const auto all = bad + static_cast<double>(to.on_time - from.on_time);
  use.bad_rate = all == 0 ? 0 : bad / all;
  // What is counted while this is read may stand in one of the two and not in the other.
  const double infeasible = std::max(0.0, static_cast<double>(to.refused - from.refused) -
                                              static_cast<double>(to.lacking - from.lacking));
  use.infeasible_rate = infeasible == 0 ? 0 : infeasible / (infeasible + all);
  // A batch counts when it ends, so a window may have more busy time than time.
  const double time = (to.at - from.at).seconds() * workers;
  use.idle_fraction = time == 0 ? 0 : std::clamp(1 - busy.seconds() / time, 0.0, 1.0);
  return use;
}

}  // namespace

AutoscaleSignal signal_between(const PoolTotals& from, const PoolTotals& to, uint32_t workers) {
  FERMATA_CHECK(from.at < to.at);
  const plan::PoolUse use = use_of(from, to, workers, to.busy - from.busy);
  return {.window = to.at - from.at,
          .bad_rate = use.bad_rate,
          .idle_fraction = use.idle_fraction,
          .workers_to_add = plan::workers_to_add(use)};
}

std::vector<plan::PoolUse> uses_between(const PoolTotals& from, const PoolTotals& to) {
  std::vector<plan::PoolUse> uses;
  for (size_t type = 0; type < to.types.size(); ++type) {
    const Duration before = type < from.types.size() ? from.types[type].busy : Duration();
    uses.push_back(use_of(from, to, to.types[type].workers, to.types[type].busy - before));
  }
  return uses;
}

}  // namespace fermata::engine

#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "plan/variants/group_plan.h"

namespace fermata::plan {

// Utilities (and accuracies) this close are one: what differs is rounding.
constexpr double kSameUtility = 1e-12;

// The locally optimal choice (SneakPeek, equation 13), one subject (a group or a
// request) after the other: each variant on the worker where the subject would
// finish first, and of these the one of the highest value; ties go to the faster one,
// loading included, then to the first in the document.
class LocalChoice {
 public:
  void reset(const GroupTables& tables);

  // `takes(variant, worker)`: the run time without loading. `value(variant, worker, start)`:
  // what to maximise where running starts at `start`. `short_circuit`: the value of the short
  // circuit, which takes no time, where it may be taken. Advances the chosen worker. False
  // where nothing fits any worker. O(variants * workers * loaded models).
  template <class Takes, class Value>
  bool choose(const GroupService& service, std::optional<double> short_circuit, const Takes& takes,
              const Value& value, GroupChoice& choice);

  // Of everything chosen since reset().
  Duration busy() const { return busy_; }
  Time last_finish() const { return last_finish_; }

 private:
  struct Place {
    uint32_t worker = GroupChoice::kShortCircuit;
    Duration load, run;
    Time finish = Time::infinite();
  };
  template <class Takes>
  std::optional<Place> first_to_finish(uint32_t model, const Takes& takes) const;
  void take(const Place& place, uint32_t model);

  const GroupProblem* problem_ = nullptr;
  std::vector<PlannedWorker> workers_;  // at least as many as the problem has
  Duration busy_;
  Time last_finish_;
};

template <class Takes>
std::optional<LocalChoice::Place> LocalChoice::first_to_finish(uint32_t model,
                                                               const Takes& takes) const {
  std::optional<Place> best;
  for (uint32_t w = 0; w < problem_->workers.size(); ++w) {
    const PlannedWorker& worker = workers_[w];
    if (!worker.residency.fits(model)) continue;
    Place place = {.worker = w, .run = takes(w)};
    if (!worker.residency.holds(model)) place.load = problem_->models[model].load;
    place.finish = worker.free + place.load + place.run;
    if (!best || place.finish < best->finish) best = place;
  }
  return best;
}

template <class Takes, class Value>
bool LocalChoice::choose(const GroupService& service, std::optional<double> short_circuit,
                         const Takes& takes, const Value& value, GroupChoice& choice) {
  std::optional<Place> best;
  double best_value = 0;
  if (short_circuit) {
    best = Place();
    best_value = *short_circuit;
  }
  for (uint32_t v = 0; v < service.variants.size(); ++v) {
    const auto place = first_to_finish(service.variants[v].model,
                                       [&](uint32_t worker) { return takes(v, worker); });
    if (!place) continue;
    const double now = value(v, place->worker, workers_[place->worker].free + place->load);
    const bool tie = best && std::abs(now - best_value) <= kSameUtility;
    const bool faster = best && place->load + place->run < best->load + best->run;
    if (best && !(tie ? faster : now > best_value)) continue;
    best = place;
    best_value = now;
    choice.variant = v;
  }
  if (!best) return false;
  choice.worker = best->worker;
  choice.value = best_value;
  if (best->worker != GroupChoice::kShortCircuit) {
    take(*best, service.variants[choice.variant].model);
  }
  return true;
}

}  // namespace fermata::plan

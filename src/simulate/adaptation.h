#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "estimate/forecast.h"
#include "plan/autoscale.h"
#include "plan/pipeline/pipeline_adapter.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// What a server changes while it runs, in virtual time: the variants of pipelines whose stages
// share the workers, planned for the load that is forecast, and with `count: auto` the number of
// workers, by the autoscaling signal of every 10 seconds and those plans, which are the least.
class Adaptation {
 public:
  // Since the start.
  struct Counts {
    uint64_t on_time = 0, bad = 0;
    uint64_t infeasible = 0;  // that no worker could have saved, not among the bad
    Duration busy;            // of all workers
  };
  struct Change {
    Time at;
    uint32_t workers = 0;
    // By pipeline of the scenario and by stage; empty: its variants are not planned.
    std::vector<std::vector<uint32_t>> variants;
  };

  explicit Adaptation(const Scenario& scenario);
  // When step() is due; infinite: nothing ever changes.
  Time next() const;
  void asked(size_t pipeline) { ++pipelines_[pipeline].asked; }
  // What is in force from now on; none: what was.
  std::optional<Change> step(Time now, const Counts& counts);

 private:
  struct Planned {
    const SimulatedAdapter* adapter = nullptr;  // null: nothing is planned
    uint64_t asked = 0;                         // in this second
    estimate::BurstForecast forecast;
    std::optional<plan::PipelineAdapter> planner;
    double cost = 0;  // workers, of the last plan
    std::vector<uint32_t> variants;
  };

  static plan::PipelineAdapterOptions options_of(const Scenario& scenario,
                                                 const SimulatedPipeline& pipeline);
  void decide(Planned& pipeline);
  void resize(const Counts& counts);

  std::vector<Planned> pipelines_;
  std::optional<plan::PoolSize> size_;  // none: as many as there are
  Duration apply_;
  uint32_t workers_;
  uint64_t seconds_ = 0;
  Time second_ = Time::infinite();  // when the next one has passed
  Counts window_;                   // at its start
  std::deque<Change> decided_;
};

}  // namespace fermata::simulate

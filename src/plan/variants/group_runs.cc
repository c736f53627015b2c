#include "plan/variants/group_runs.h"

#include <algorithm>

namespace fermata::plan {

void GroupRuns::prepare(const GroupTables& tables) {
  tables_ = &tables;
  const GroupProblem& problem = tables.problem();
  types_ = problem.worker_types.size();
  most_variants_ = 0;
  for (const GroupService& a : problem.services) {
    most_variants_ = std::max(most_variants_, a.variants.size());
  }
  batches_.clear();
  runs_.resize(tables.groups().size() * most_variants_ * types_);
  short_circuit_.assign(tables.groups().size(), 0);
  for (uint32_t g = 0; g < tables.groups().size(); ++g) {
    const RequestGroup& group = tables.groups()[g];
    const auto& variants = problem.services[group.service].variants;
    for (uint32_t v = 0; v < variants.size(); ++v) {
      const auto& latency = variants[v].latency;
      for (uint32_t t = 0; t < types_; ++t) {
        runs_[index(g, v, t)] = t > 0 && latency.size() == 1 ? runs_[index(g, v, 0)]
                                                             : prepare_run(group, v, *latency[t]);
      }
    }
    if (!group.short_circuit) continue;
    for (const uint32_t r : tables.requests_of(group)) {
      short_circuit_[g] += tables.short_circuit_utility(r);
    }
  }
}

GroupRuns::Run GroupRuns::prepare_run(const RequestGroup& group, uint32_t variant,
                                      const LatencyTable& latency) {
  Run run = {.first = static_cast<uint32_t>(batches_.size())};
  for (uint32_t done = 0; done < group.count;) {
    const uint32_t count = std::min(latency.max_batch(), group.count - done);
    Batch batch = prepare_batch(group.first + done, count, variant);
    batch.length = latency(count);
    run.length += batch.length;
    done += count;
    batches_.push_back(batch);
  }
  run.count = static_cast<uint32_t>(batches_.size()) - run.first;
  return run;
}

GroupRuns::Batch GroupRuns::prepare_batch(uint32_t first, uint32_t count, uint32_t variant) const {
  Batch batch = {.first = first, .count = count};
  batch.on_time_until = batch.worthless_after = Time::infinite();
  batch.on_time = 0;
  for (const uint32_t r : tables_->order().subspan(first, count)) {
    const GroupRequest& request = tables_->problem().requests[r];
    const Penalty& penalty = tables_->service(r).penalty;
    batch.on_time += tables_->accuracy(r, variant) * (1 - penalty.on_time());
    if (!penalty.depends_on_time()) continue;
    batch.on_time_until = std::min(batch.on_time_until, request.deadline);
    const Time useless = penalty.shape == PenaltyShape::kStep
                             ? request.deadline
                             : request.deadline + (request.deadline - request.arrival);
    batch.worthless_after =
        r == tables_->order()[first] ? useless : std::max(batch.worthless_after, useless);
  }
  return batch;
}

double GroupRuns::utility(uint32_t group, uint32_t variant, uint32_t type, Time start) const {
  const Run& run = runs_[index(group, variant, type)];
  double utility = 0;
  for (const Batch& batch : std::span(batches_).subspan(run.first, run.count)) {
    start = start + batch.length;
    if (start <= batch.on_time_until) {
      utility += batch.on_time;
    } else if (start <= batch.worthless_after) {
      for (const uint32_t r : tables_->order().subspan(batch.first, batch.count)) {
        utility += tables_->utility(r, variant, start);
      }
    }
  }
  return utility;
}

}  // namespace fermata::plan

#include "plan/variants/group_plan.h"

#include <algorithm>

namespace fermata::plan {

void GroupPlan::clear() {
  runs.clear();
  order.clear();
  short_circuited.clear();
}

void PlannedWorker::reset(const GroupProblem& problem, uint32_t worker) {
  free = std::max(problem.now, problem.workers[worker].free_at);
  residency.reset(problem.workers[worker], problem.models);
}

void GroupTimeline::fill(const GroupTables& tables, const GroupPlan& plan, GroupSchedule& out) {
  const GroupProblem& problem = tables.problem();
  out.requests.assign(plan.order.begin(), plan.order.end());
  out.short_circuited.assign(plan.short_circuited.begin(), plan.short_circuited.end());
  std::sort(out.short_circuited.begin(), out.short_circuited.end());
  out.expected_accuracy.resize(problem.requests.size());
  utility_.resize(problem.requests.size());
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const GroupRun& next = plan.runs[i];
    if (i == 0 || plan.runs[i - 1].worker != next.worker) worker_.reset(problem, next.worker);
    run(tables, next, out);
  }
  for (const uint32_t r : plan.short_circuited) {
    utility_[r] = tables.short_circuit_utility(r);
    out.expected_accuracy[r] = tables.service(r).short_circuit->accuracy;
  }
  for (const double u : utility_) out.utility += u;
  if (!utility_.empty()) out.utility /= static_cast<double>(utility_.size());
}

void GroupTimeline::run(const GroupTables& tables, const GroupRun& run, GroupSchedule& out) {
  const GroupProblem& problem = tables.problem();
  const GroupVariant& variant = problem.services[run.service].variants[run.variant];
  const LatencyTable& latency = tables.latency(variant, run.worker);
  bool load = worker_.residency.use(variant.model);
  for (uint32_t done = 0; done < run.count;) {
    GroupBatch batch = {run.worker, run.service, run.variant, run.first + done};
    batch.count = std::min(latency.max_batch(), run.count - done);
    batch.load = std::exchange(load, false);
    batch.start = worker_.free;
    if (batch.load) worker_.free = worker_.free + problem.models[variant.model].load;
    worker_.free = worker_.free + latency(batch.count);
    batch.finish = worker_.free;
    for (const uint32_t r : out.requests_of(batch)) {
      utility_[r] = tables.utility(r, run.variant, batch.finish);
      out.expected_accuracy[r] = tables.accuracy(r, run.variant);
    }
    done += batch.count;
    out.batches.push_back(batch);
  }
}

}  // namespace fermata::plan

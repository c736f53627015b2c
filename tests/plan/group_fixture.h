#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "by_hand.h"
#include "plan/variants/group_planner.h"
#include "plan/variants/group_problem.h"

namespace fermata::plan {

// Small problems written by hand, times in milliseconds and memory in MiB.
struct GroupHand {
  GroupProblem problem;

  GroupHand() { problem.now = at_ms(0); }
  GroupWorker& worker(double free_at_ms = 0) {
    problem.workers.push_back({.name = "w" + std::to_string(problem.workers.size())});
    problem.workers.back().free_at = at_ms(free_at_ms);
    return problem.workers.back();
  }
  uint32_t model(double load_ms = 0, int64_t memory_mb = 0) {
    problem.models.push_back({"m" + std::to_string(problem.models.size()),
                              Duration::from_millis(load_ms), memory_mb << 20});
    return static_cast<uint32_t>(problem.models.size()) - 1;
  }
  GroupService& service(Penalty penalty = {PenaltyShape::kStep}) {
    problem.services.push_back(
        {.name = "a" + std::to_string(problem.services.size()), .penalty = penalty});
    return problem.services.back();
  }
  // Of the last service; one class, so that recall means little.
  GroupVariant& variant(double accuracy, double alpha_ms, double beta_ms, uint32_t max_batch = 64,
                        double load_ms = 0, int64_t memory_mb = 0) {
    auto& variants = problem.services.back().variants;
    variants.push_back({.model = model(load_ms, memory_mb),
                        .accuracy = accuracy,
                        .latency = {linear(alpha_ms, beta_ms, max_batch)}});
    return variants.back();
  }
  // Of the last service, arrived at 0.
  uint32_t request(double deadline_ms, std::vector<double> evidence = {}, double arrival_ms = 0) {
    const auto index = static_cast<uint32_t>(problem.requests.size());
    GroupRequest r = {"r" + std::to_string(index),
                      static_cast<uint32_t>(problem.services.size()) - 1, at_ms(arrival_ms),
                      at_ms(deadline_ms)};
    if (!evidence.empty()) {
      r.evidence = static_cast<uint32_t>(problem.evidence.size());
      problem.evidence.insert(problem.evidence.end(), evidence.begin(), evidence.end());
    }
    problem.requests.push_back(r);
    return index;
  }
  const GroupSchedule& plan(GroupPolicy policy) {
    problem.policy = policy;
    return planner.plan(problem);
  }
  GroupPlanner planner;
};

// "w0/v1[r0 r2] 3-14" for each batch, which is easy to compare and to read.
inline std::string text(const GroupProblem& problem, const GroupSchedule& schedule) {
  std::string out;
  const auto ms = [](Time t) { return fmt::format("{}", (t - Time()).millis()); };
  for (const GroupBatch& b : schedule.batches) {
    std::string requests;
    for (const uint32_t r : schedule.requests_of(b)) {
      requests += (requests.empty() ? "" : " ") + problem.requests[r].id;
    }
    out +=
        fmt::format("{}{}/v{}[{}] {}-{}", out.empty() ? "" : ", ", problem.workers[b.worker].name,
                    b.variant, requests, ms(b.start), ms(b.finish));
  }
  for (const uint32_t r : schedule.short_circuited) {
    out += (out.empty() ? "" : ", ") + ("short " + problem.requests[r].id);
  }
  return out;
}

// A problem of anything that the planner looks at.
GroupProblem random_group_problem(Random& random);

// Recomputes a schedule from its batches alone: every request once, batches within
// limits and without overlap, loads and evictions, times and utility.
void check_group_schedule(const GroupProblem& problem, const GroupSchedule& schedule);

}  // namespace fermata::plan

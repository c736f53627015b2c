// How long one decision of `fermata plan group` takes: every policy, by requests in the window
// and by services; and one event of a service of several variants, by how many of its requests
// wait already. Prints one JSON object; bench/group.py draws it.
//   bench_group [WINDOWS]
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/document.h"
#include "base/random.h"
#include "plan/variants/group_planner.h"
#include "policy/scheduler.h"

namespace {

using namespace fermata;
using namespace fermata::plan;
using namespace fermata::policy;

// The kinds of services of the paper's table 1: classes, and accuracy, time alone and time
// of each further item for every variant, from small and fast to large.
struct KindOfService {
  size_t classes;
  std::vector<std::array<double, 3>> variants;
};
const std::vector<KindOfService> kKinds = {
    {2, {{0.78, 4, 1}, {0.85, 9, 2}, {0.90, 16, 4}, {0.93, 28, 7}, {0.95, 40, 10}}},
    {6, {{0.84, 5, 1}, {0.94, 14, 3}}},
    {7, {{0.88, 6, 1}, {0.96, 18, 4}}},
};

GroupVariant variant_of(const std::array<double, 3>& profile, size_t classes, uint32_t model,
                        Random& random) {
  GroupVariant v = {.model = model, .accuracy = profile[0]};
  for (size_t c = 0; c < classes; ++c) {
    v.recall.push_back(std::min(1.0, profile[0] + 0.2 * (random.uniform() - 0.5)));
  }
  v.latency = {*LatencyTable::make(LinearLatency{profile[2], profile[1] - profile[2]}, 16)};
  return v;
}

GroupProblem system_of(size_t services, Random& random) {
  GroupProblem p;
  p.workers.push_back({.name = "gpu0", .memory_bytes = int64_t{2000} << 20});
  for (size_t i = 0; i < services; ++i) {
    const KindOfService& kind = kKinds[i % kKinds.size()];
    GroupService a = {.name = "a" + std::to_string(i)};
    a.prior.assign(kind.classes, 0.5);
    for (const auto& profile : kind.variants) {
      const auto model = static_cast<uint32_t>(p.models.size());
      a.variants.push_back(variant_of(profile, kind.classes, model, random));
      p.models.push_back(
          {"m" + std::to_string(model), Duration::from_millis(3 * profile[1]), int64_t{200} << 20});
    }
    a.short_circuit = {"knn", 0.6};
    p.services.push_back(std::move(a));
  }
  return p;
}

// A window of 100 ms, deadlines 200 ms after arrival, evidence of five neighbours.
void draw_window(GroupProblem& p, size_t requests, Random& random) {
  p.requests.clear();
  p.evidence.clear();
  for (size_t i = 0; i < requests; ++i) {
    GroupRequest r = {"r" + std::to_string(i), static_cast<uint32_t>(i % p.services.size())};
    r.arrival = p.now - Duration::from_millis(100 * random.uniform());
    r.deadline = r.arrival + Duration::millis(200);
    r.evidence = static_cast<uint32_t>(p.evidence.size());
    const size_t classes = p.services[r.service].prior.size(), truth = random.below(classes);
    p.evidence.resize(p.evidence.size() + classes);
    for (int k = 0; k < 5; ++k) {
      p.evidence[*r.evidence + (random.uniform() < 0.8 ? truth : random.below(classes))] += 1;
    }
    p.requests.push_back(std::move(r));
  }
}

Json measure(GroupPolicy policy, size_t services, size_t requests, int windows) {
  Random random(services * 1000 + requests);
  GroupProblem p = system_of(services, random);
  p.now = Time() + Duration::seconds(1);
  p.policy = policy;
  GroupPlanner planner;
  std::vector<double> micros;
  double utility = 0, exact = 0;
  for (int i = 0; i < windows; ++i) {
    draw_window(p, requests, random);
    const Time start = monotonic_now();
    const GroupSchedule& schedule = planner.plan(p);
    micros.push_back((monotonic_now() - start).micros());
    utility += schedule.utility / windows;
    exact += schedule.exact ? 1.0 / windows : 0;
  }
  std::sort(micros.begin(), micros.end());
  return {{"policy", group_policy_names()[static_cast<size_t>(policy)]},
          {"applications", services},
          {"requests", requests},
          {"p50_us", micros[micros.size() / 2]},
          {"p99_us", micros[micros.size() * 99 / 100]},
          {"max_us", micros.back()},
          {"exact", exact},
          {"utility", utility}};
}

// A task that comes, is known and goes again, one such event, while so many wait.
Json measure_events(uint64_t waiting, int rounds) {
  const auto scheduler = *make_scheduler("fermata");
  const KeyId key = scheduler->add_key({.name = "m",
                                        .latency = *LatencyTable::make(LinearLatency{1, 4}, 16),
                                        .variant = VariantId(0)});
  const KeyId service =
      scheduler->add_service(VariantsInfo{"a", {{key, 0.9, {0.9, 0.5}}}, {}, {0.5, 0.5}, {}});
  Decisions out;
  Random random(waiting);
  Time now = Time() + Duration::seconds(1);
  uint64_t jobs = 0;
  const auto task = [&] {
    const Duration slo = Duration::from_seconds(1000 + 100 * random.uniform());
    return Task{JobId(++jobs), service, now, now + slo, 1};
  };
  for (uint64_t i = 0; i < waiting; ++i) scheduler->nominate(task(), now, out);
  std::vector<double> micros;
  for (int i = 0; i < rounds; ++i) {
    now = now + Duration::millis(1);
    const Task one = task();
    const Time start = monotonic_now();
    scheduler->nominate(one, now, out);
    scheduler->learned(one, Evidence{3, 2}, now, out);
    scheduler->withdraw(one, now, out);
    micros.push_back((monotonic_now() - start).micros() / 3);
  }
  std::sort(micros.begin(), micros.end());
  return {{"waiting", waiting}, {"p50_us", micros[micros.size() / 2]}};
}

}  // namespace

int main(int argc, char** argv) {
  const int windows = argc > 1 ? std::atoi(argv[1]) : 500;
  if (windows < 1) return 2;
  Json by_requests = Json::array(), by_services = Json::array();
  for (size_t policy = 0; policy < published_group_policy_names().size(); ++policy) {
    for (size_t n = 12; n <= 768; n *= 2) {
      by_requests.push_back(measure(static_cast<GroupPolicy>(policy), 3, n, windows));
    }
    for (size_t a = 1; a <= 12; ++a) {
      by_services.push_back(measure(static_cast<GroupPolicy>(policy), a, 24, windows));
    }
  }
  Json by_waiting = Json::array();
  for (uint64_t n = 100; n <= 100'000; n *= 10) by_waiting.push_back(measure_events(n, windows));
  std::cout << write_json({{"windows", windows},
                           {"by_requests", by_requests},
                           {"by_applications", by_services},
                           {"by_waiting", by_waiting}});
}

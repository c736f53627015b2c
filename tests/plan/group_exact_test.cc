#include <cmath>
#include <functional>
#include <list>
#include <nlohmann/json.hpp>
#include <numeric>

#include "plan/group_fixture.h"
#include "plan/variants/group_document.h"

namespace fermata::plan {
namespace {

// Everything below is written from the contract and knows nothing of the planner: all
// orders of the groups, all variants, workers and short circuits.
struct NaiveGroups {
  struct Group {
    uint32_t service;
    int label;  // -1: none
    std::vector<uint32_t> requests;
    bool short_circuit = true;
  };
  const GroupProblem& p;
  bool split, aware, circuit;
  std::vector<Group> groups;
  std::vector<std::vector<double>> accuracy;

  explicit NaiveGroups(const GroupProblem& problem) : p(problem) {
    const bool sneakpeek = p.policy == GroupPolicy::kSneakPeek;
    aware = p.data_aware.value_or(sneakpeek);
    split = sneakpeek && aware;
    circuit = p.short_circuit.value_or(sneakpeek);
    for (uint32_t r = 0; r < p.requests.size(); ++r) add(r);
    for (Group& g : groups) {
      std::stable_sort(g.requests.begin(), g.requests.end(),
                       [this](uint32_t a, uint32_t b) { return priority(a) > priority(b); });
    }
  }

  void add(uint32_t r) {
    const GroupRequest& q = p.requests[r];
    const GroupService& a = p.services[q.service];
    std::vector<double> theta;
    for (size_t c = 0; q.evidence && c < a.prior.size(); ++c) {
      theta.push_back(a.prior[c] + p.evidence[*q.evidence + c]);
    }
    const double total = std::accumulate(theta.begin(), theta.end(), 0.0);
    int label = -1;
    for (size_t c = 0; c < theta.size(); ++c) {
      if (split && theta[c] / total > 0.5) label = static_cast<int>(c);
    }
    accuracy.emplace_back();
    for (const GroupVariant& v : a.variants) {
      double expected = aware && q.evidence ? 0 : v.accuracy;
      for (size_t c = 0; aware && c < theta.size(); ++c) expected += theta[c] / total * v.recall[c];
      accuracy.back().push_back(expected);
    }
    auto g = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return other.service == q.service && other.label == label;
    });
    if (g == groups.end()) g = groups.insert(g, {q.service, label, {}});
    g->requests.push_back(r);
    g->short_circuit = g->short_circuit && circuit && q.evidence && a.short_circuit;
  }

  double priority(uint32_t r) const {
    double mean = 0, square = 0;
    for (const double a : accuracy[r]) mean += a / double(accuracy[r].size());
    for (const double a : accuracy[r]) square += (a - mean) * (a - mean);
    return (1 + square / double(accuracy[r].size())) *
           std::exp(-(p.requests[r].deadline - p.now).seconds());
  }

  struct Worker {
    Time free;
    std::list<uint32_t> loaded;
  };
  // Of one order; option: 0 the short circuit, else worker and variant.
  double utility(const std::vector<size_t>& order, const std::vector<size_t>& option) const {
    std::vector<Worker> workers;
    for (const GroupWorker& w : p.workers) {
      workers.push_back({std::max(p.now, w.free_at), {w.loaded.begin(), w.loaded.end()}});
    }
    double sum = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const double u = serve(groups[order[i]], option[i], workers);
      if (u < 0) return -1;
      sum += u;
    }
    return sum / double(p.requests.size());
  }

  double serve(const Group& g, size_t option, std::vector<Worker>& workers) const {
    const GroupService& a = p.services[g.service];
    if (option == 0) {
      if (!g.short_circuit) return -1;
      double sum = 0;
      for (const uint32_t r : g.requests) sum += a.short_circuit->accuracy * (1 - lost(r, p.now));
      return sum;
    }
    const size_t k = (option - 1) / a.variants.size(), i = (option - 1) % a.variants.size();
    const GroupVariant& v = a.variants[i];
    const auto& latency = *v.latency[v.latency.size() == 1 ? 0 : p.workers[k].type];
    if (!load(workers[k], p.workers[k], v.model)) return -1;
    double sum = 0;
    for (size_t first = 0; first < g.requests.size(); first += latency.max_batch()) {
      const size_t count = std::min<size_t>(latency.max_batch(), g.requests.size() - first);
      workers[k].free = workers[k].free + latency(static_cast<uint32_t>(count));
      for (size_t n = 0; n < count; ++n) {
        const uint32_t r = g.requests[first + n];
        sum += accuracy[r][i] * (1 - lost(r, workers[k].free));
      }
    }
    return sum;
  }

  bool load(Worker& worker, const GroupWorker& w, uint32_t model) const {
    const bool held =
        std::find(worker.loaded.begin(), worker.loaded.end(), model) != worker.loaded.end();
    worker.loaded.remove(model);
    if (!held) {
      if (p.models[model].memory_bytes > w.memory_bytes) return false;
      const auto used = [&] {
        int64_t sum = p.models[model].memory_bytes;
        for (const uint32_t m : worker.loaded) sum += p.models[m].memory_bytes;
        return sum;
      };
      while (used() > w.memory_bytes) worker.loaded.pop_front();
      worker.free = worker.free + p.models[model].load;
    }
    worker.loaded.push_back(model);
    return true;
  }

  double lost(uint32_t r, Time finish) const {
    const GroupRequest& q = p.requests[r];
    const Penalty& penalty = p.services[q.service].penalty;
    const double late = (finish - q.deadline).millis(), d = (q.deadline - q.arrival).millis();
    if (penalty.shape == PenaltyShape::kNone) return 0;
    if (penalty.shape == PenaltyShape::kConstant) return penalty.constant;
    if (late <= 0) return 0;
    if (penalty.shape == PenaltyShape::kStep || late >= d) return 1;
    if (penalty.shape == PenaltyShape::kLinear) return late / d;
    return 1 / (1 + std::pow((late / d) / (1 - late / d), -3));
  }

  // Each group's options are short circuit + workers * variants.
  double plans() const {
    double count = 1;
    for (size_t g = 0; g < groups.size(); ++g) count *= double(g + 1) * double(options(g));
    return count;
  }
  size_t options(size_t g) const {
    return 1 + p.workers.size() * p.services[groups[g].service].variants.size();
  }
  double best() const {
    std::vector<size_t> order(groups.size()), option(groups.size());
    std::iota(order.begin(), order.end(), 0);
    double best = -1;
    const std::function<void(size_t)> choose = [&](size_t i) {
      if (i == order.size()) {
        best = std::max(best, utility(order, option));
        return;
      }
      for (option[i] = 0; option[i] < options(order[i]); ++option[i]) choose(i + 1);
    };
    do choose(0);
    while (std::next_permutation(order.begin(), order.end()));
    return best;
  }
};

TEST(GroupExact, IsTheBestOfAllPlans) {
  Random random(7);
  GroupPlanner planner;
  int compared = 0, several = 0, short_circuited = 0, infeasible = 0, greedy_worse = 0;
  while (compared < 1500) {
    GroupProblem problem = random_group_problem(random);
    problem.policy = random.below(2) == 0 ? GroupPolicy::kSneakPeek : GroupPolicy::kGrouped;
    if (random.below(4) == 0) problem.data_aware = random.below(2) == 0;
    if (random.below(4) == 0) problem.short_circuit = random.below(2) == 0;
    const NaiveGroups naive(problem);
    if (naive.groups.size() > 5 || naive.plans() > 10000) continue;
    ++compared;
    const GroupSchedule schedule = planner.plan(problem);
    const double best = naive.best();
    ASSERT_EQ(schedule.feasible, best >= 0) << write_json(to_document(problem));
    if (!schedule.feasible) {
      ++infeasible;
      continue;
    }
    EXPECT_TRUE(schedule.exact);
    check_group_schedule(problem, schedule);
    ASSERT_NEAR(schedule.utility, best, 1e-11) << write_json(to_document(problem));
    several += naive.groups.size() > 2;
    short_circuited += !schedule.short_circuited.empty();
    problem.tau = 0;
    const GroupSchedule& greedy = planner.plan(problem);
    EXPECT_FALSE(greedy.exact);
    check_group_schedule(problem, greedy);
    EXPECT_LE(greedy.utility, best + 1e-11);
    greedy_worse += greedy.utility < best - 1e-9;
  }
  // The cases that are hard to get right have been met.
  EXPECT_GT(several, 100);
  EXPECT_GT(short_circuited, 50);
  EXPECT_GT(infeasible, 5);
  EXPECT_GT(greedy_worse, 50);
}

}  // namespace
}  // namespace fermata::plan

#include "policy/stream/stream_pool.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "plan/streams/stream_planner.h"
#include "plan/streams/stream_tables.h"

namespace fermata::policy {
namespace {

constexpr uint32_t kMostParts = 4;  // of a worker, unless there are more services

std::pair<uint32_t, double> worth(const plan::StreamPlan& plan) {
  return {plan.served, plan.objective};
}

// Of the services with a client that some variant could serve alone, whether each serves one.
bool serves_all(const plan::StreamProblem& problem, const plan::StreamPlan& plan) {
  const plan::StreamTables tables(problem);
  std::map<std::string, bool> served;
  for (uint32_t c = 0; c < problem.clients.size(); ++c) {
    if (tables.servable(c)) served.try_emplace(problem.clients[c].service, false);
  }
  for (const plan::StreamPlan::Worker& worker : plan.workers) {
    served[problem.variants[worker.variant].service] = true;
  }
  return std::all_of(served.begin(), served.end(), [](const auto& s) { return s.second; });
}

}  // namespace

Duration StreamPool::longest_beside(const Services& services, const Service& own,
                                    uint32_t others) const {
  std::vector<Duration> longest;
  for (const Service* other : services) {
    if (other == &own) continue;
    const auto known = longest_.find(other->name);
    const Duration one = (*other->problem.variants.front().latency)(1);
    longest.push_back(known == longest_.end() ? one : known->second);
  }
  std::sort(longest.begin(), longest.end(), std::greater<>());
  longest.resize(std::min<size_t>(longest.size(), others));
  return std::accumulate(longest.begin(), longest.end(), Duration());
}

plan::StreamProblem StreamPool::join(const Services& services, uint32_t parts) const {
  plan::StreamProblem joined;
  joined.workers = workers_ * parts;
  joined.worker_share = 1.0 / parts;
  joined.period_ms = services.front()->problem.period_ms;
  joined.solver = services.front()->problem.solver;
  std::vector<uint32_t> runs(workers_);
  for (const Service* service : services) {
    const plan::StreamProblem& own = service->problem;
    joined.period_ms = std::min(joined.period_ms, own.period_ms);
    if (own.solver != joined.solver) joined.solver = plan::StreamSolver::kBest;
    const auto first = static_cast<uint32_t>(joined.variants.size());
    for (uint32_t w = 0; w < workers_ && w < own.current.size(); ++w) {
      if (owners_[w] == service->name) runs[w] = first + own.current[w];
    }
    const double wait_ms = longest_beside(services, *service, parts - 1).millis();
    for (plan::StreamVariant v : own.variants) {
      v.name = service->name + "/" + v.name;
      v.service = service->name;
      v.delay_ms += wait_ms;
      joined.variants.push_back(std::move(v));
    }
    for (plan::StreamClient c : own.clients) {
      c.id = service->name + "/" + c.id;
      c.service = service->name;
      joined.clients.push_back(std::move(c));
    }
  }
  for (uint32_t w = 0; w < joined.workers; ++w) joined.current.push_back(runs[w % workers_]);
  return joined;
}

std::vector<plan::StreamPlan> StreamPool::divide(const Services& services,
                                                 const plan::StreamPlan& plan) const {
  std::vector<plan::StreamPlan> plans;
  uint32_t variant = 0, client = 0;
  for (const Service* service : services) {
    const plan::StreamProblem& own = service->problem;
    const auto last_variant = variant + static_cast<uint32_t>(own.variants.size());
    const auto last_client = client + static_cast<uint32_t>(own.clients.size());
    plan::StreamPlan& part = plans.emplace_back();
    part.exact = plan.exact;
    double rates = 0;
    for (const plan::StreamClient& c : own.clients) rates += c.rate_rps;
    for (const uint32_t c : plan.unmapped) {
      if (c >= client && c < last_client) part.unmapped.push_back(c - client);
    }
    for (plan::StreamPlan::Worker worker : plan.workers) {
      if (worker.variant < variant || worker.variant >= last_variant) continue;
      worker.worker %= workers_;
      worker.variant -= variant;
      for (uint32_t& c : worker.clients) {
        c -= client;
        part.objective += own.clients[c].rate_rps * own.variants[worker.variant].accuracy;
      }
      part.served += static_cast<uint32_t>(worker.clients.size());
      part.workers.push_back(std::move(worker));
    }
    if (rates > 0) part.mean_accuracy = part.objective / rates;
    variant = last_variant;
    client = last_client;
  }
  return plans;
}

StreamPool::Planned StreamPool::plan_together(const Services& services) const {
  const auto count = static_cast<uint32_t>(services.size());
  const uint32_t least = (count + workers_ - 1) / workers_;
  Planned best;
  plan::StreamPlan plan;
  for (uint32_t parts = least; parts == least || parts <= kMostParts; parts *= 2) {
    plan::StreamProblem problem = join(services, parts);
    plan::StreamPlan next = plan::plan_streams(problem);
    const bool enough = serves_all(problem, next);
    if (parts == least || worth(next) > worth(plan)) {
      best.problem = std::move(problem);
      plan = std::move(next);
    }
    if (enough) break;
  }
  best.plans = divide(services, plan);
  return best;
}

void StreamPool::remember(const Services& services, const std::vector<plan::StreamPlan>& plans) {
  for (size_t s = 0; s < services.size(); ++s) {
    const std::string& name = services[s]->name;
    longest_.erase(name);
    for (const plan::StreamPlan::Worker& worker : plans[s].workers) {
      owners_[worker.worker] = name;
      Duration& longest = longest_[name];
      const LatencyTable& latency = *services[s]->problem.variants[worker.variant].latency;
      longest = std::max(longest, latency(worker.batch));
    }
  }
}

StreamPool::Planned StreamPool::plan(const std::vector<Service>& services) {
  Services active;
  for (const Service& service : services) {
    if (!service.problem.clients.empty()) active.push_back(&service);
  }
  if (!active.empty()) workers_ = active.front()->problem.workers;
  FERMATA_CHECK(workers_ >= 1 && workers_ <= owners_.size());
  Planned planned;
  if (active.size() == 1) {
    planned.problem = active.front()->problem;
    planned.plans = {plan::plan_streams(planned.problem)};
  } else if (!active.empty()) {
    planned = plan_together(active);
  }
  remember(active, planned.plans);
  std::vector<plan::StreamPlan> all(services.size());
  for (size_t a = 0; a < active.size(); ++a) {
    all[static_cast<size_t>(active[a] - services.data())] = std::move(planned.plans[a]);
  }
  planned.plans = std::move(all);
  return planned;
}

}  // namespace fermata::policy

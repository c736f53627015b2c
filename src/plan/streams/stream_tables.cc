#include "plan/streams/stream_tables.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "plan/document_parts.h"

namespace fermata::plan {
namespace {

// Sums of the same rates in another order or in steps differ by less, relative. Solvers take loads
// that are within a capacity; who looks at their groups again leaves room for this.
constexpr double kSumRounding = 1e-8;

}  // namespace

double StreamTables::throughput_of(const StreamVariant& variant, uint32_t batch) const {
  return problem_.worker_share * 1000.0 * batch / millis((*variant.latency)(batch));
}

StreamTables::StreamTables(const StreamProblem& problem)
    : problem_(problem), order_(problem.variants.size()) {
  std::iota(order_.begin(), order_.end(), 0);
  const auto key = [&](uint32_t v) {
    const StreamVariant& variant = problem.variants[v];
    return std::tuple(-variant.accuracy, (*variant.latency)(1), v);
  };
  std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  for (const StreamClient& client : problem.clients) rates_.push_back(client.rate_rps);
  for (const uint32_t v : order_) {
    const StreamVariant& variant = problem.variants[v];
    std::vector<double> most(variant.latency->max_batch() + 1);
    for (uint32_t b = 1; b < most.size(); ++b) {
      most[b] = std::max(most[b - 1], throughput_of(variant, b));
    }
    highest_.push_back(most.back());
    for (const StreamClient& client : problem.clients) {
      const uint32_t batch = limit(variant, client);
      batches_.push_back(most[batch] >= client.rate_rps ? batch : 0);
      capacities_.push_back(most[batches_.back()]);
    }
  }
  for (uint32_t c = 0; c < clients(); ++c) {
    for (uint32_t r = 0; r < ranks(); ++r) by_client_.push_back(capacity(r)[c]);
  }
  find_roomy_ranks();
}

bool StreamTables::carries_all_of(uint32_t rank, uint32_t other) const {
  const absl::Span<const double> mine = capacity(rank), others = capacity(other);
  return highest_[rank] >= highest_[other] &&
         std::equal(mine.begin(), mine.end(), others.begin(), std::greater_equal<>());
}

void StreamTables::find_roomy_ranks() {
  for (uint32_t r = ranks(); r-- > 0;) {
    if (std::none_of(roomy_.begin(), roomy_.end(),
                     [&](uint32_t other) { return carries_all_of(other, r); })) {
      roomy_.push_back(r);
    }
  }
}

// L, the time that the network leaves of the objective (section 3.3), is for those ahead as well.
double StreamTables::longest_ms(const StreamVariant& variant, const StreamClient& client) const {
  const double budget_ms = client.slo_ms - client.network_ms(variant.request_kb) - variant.delay_ms;
  return budget_ms / (1 + client.batches_ahead.value_or(problem_.batches_ahead));
}

uint32_t StreamTables::limit(const StreamVariant& variant, const StreamClient& client) const {
  if (variant.service != client.service) return 0;
  const bool sustained = variant.request_kb * 8 * client.rate_rps / 1000 < client.bandwidth_mbps;
  if (!sustained || variant.accuracy < client.min_accuracy) return 0;
  const double most_ms = std::min(longest_ms(variant, client), kLongestMs);
  if (most_ms <= 0) return 0;
  return variant.latency->largest_within(
      Duration::nanos(static_cast<int64_t>(most_ms * 1e6 + 1e-6)));
}

uint32_t StreamTables::rank_of(uint32_t variant) const {
  return static_cast<uint32_t>(std::find(order_.begin(), order_.end(), variant) - order_.begin());
}

double StreamTables::accuracy(uint32_t rank) const {
  return problem_.variants[order_[rank]].accuracy;
}

double StreamTables::longest_ms(uint32_t rank, uint32_t client) const {
  return longest_ms(problem_.variants[order_[rank]], problem_.clients[client]);
}

double StreamTables::throughput(uint32_t rank, uint32_t batch) const {
  return throughput_of(problem_.variants[order_[rank]], batch);
}

uint32_t StreamTables::smallest_batch(uint32_t rank, double load) const {
  const uint32_t most = problem_.variants[order_[rank]].latency->max_batch();
  for (uint32_t b = 1; b <= most; ++b) {
    if (load <= throughput(rank, b) * (1 + 2 * kSumRounding)) return b;
  }
  return 0;
}

bool StreamTables::servable(uint32_t client) const {
  for (uint32_t r = 0; r < ranks(); ++r) {
    if (capacity(r)[client] > 0) return true;
  }
  return false;
}

uint32_t best_rank(const StreamTables& tables, absl::Span<const uint32_t> clients) {
  double load = 0;
  for (const uint32_t c : clients) load += tables.rate(c);
  uint32_t rank = 0;
  for (; rank < tables.ranks(); ++rank) {
    const absl::Span<const double> capacity = tables.capacity(rank);
    if (std::all_of(clients.begin(), clients.end(),
                    [&](uint32_t c) { return load <= capacity[c] * (1 + kSumRounding); })) {
      break;
    }
  }
  return rank;
}

StreamPlan make_stream_plan(const StreamProblem& problem, const StreamTables& tables,
                            const StreamGroups& groups,
                            const std::vector<uint32_t>& rank_of_group) {
  StreamPlan plan;
  double rates = 0;
  std::vector<StreamPlan::Worker> workers(rank_of_group.size());
  for (uint32_t c = 0; c < groups.size(); ++c) {
    rates += tables.rate(c);
    if (groups[c] == kNoGroup) {
      plan.unmapped.push_back(c);
    } else {
      workers[groups[c]].clients.push_back(c);
    }
  }
  for (uint32_t g = 0; g < workers.size(); ++g) {
    StreamPlan::Worker& worker = workers[g];
    if (worker.clients.empty()) continue;
    double load = 0;
    for (const uint32_t c : worker.clients) load += tables.rate(c);
    worker.variant = tables.variant(rank_of_group[g]);
    worker.batch = tables.smallest_batch(rank_of_group[g], load);
    FERMATA_CHECK(worker.batch > 0);
    plan.served += static_cast<uint32_t>(worker.clients.size());
    plan.objective += load * tables.accuracy(rank_of_group[g]);
    plan.workers.push_back(std::move(worker));
  }
  if (rates > 0) plan.mean_accuracy = plan.objective / rates;

  // Service by service the largest of the new to the largest of the old. Workers that get nothing
  // are those with the smallest.
  const auto size = [&](uint32_t v) {
    const StreamVariant& variant = problem.variants[v];
    return std::tuple(std::string_view(variant.service), variant.input_size, variant.accuracy, v);
  };
  std::vector<uint32_t> places(problem.workers);
  std::iota(places.begin(), places.end(), 0);
  if (!problem.current.empty()) {
    std::stable_sort(places.begin(), places.end(), [&](uint32_t a, uint32_t b) {
      return size(problem.current[a]) > size(problem.current[b]);
    });
  }
  std::stable_sort(plan.workers.begin(), plan.workers.end(),
                   [&](const auto& a, const auto& b) { return size(a.variant) > size(b.variant); });
  for (size_t i = 0; i < plan.workers.size(); ++i) plan.workers[i].worker = places[i];
  std::sort(plan.workers.begin(), plan.workers.end(),
            [](const auto& a, const auto& b) { return a.worker < b.worker; });
  return plan;
}

}  // namespace fermata::plan

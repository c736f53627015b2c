#include "policy/rivals/nexus_placement.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fermata::policy {
namespace {

constexpr int kBisections = 30;  // of the scale: nine decimal digits

struct Session {
  uint32_t key;
  double rate;
};

// A worker and the models that take turns on it.
struct Bin {
  std::vector<Session> sessions;
  double duty_s = 0;
};

class Packing {
 public:
  Packing(const std::vector<Demand>& demands, double scale) : demands_(demands) {
    std::vector<double> rest(demands.size());
    for (uint32_t k = 0; k < demands.size(); ++k) {
      rest[k] = place_whole(k, demands[k].rate_rps * scale);
    }
    std::vector<uint32_t> order(demands.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return alone(a, rest[a]).occupancy > alone(b, rest[b]).occupancy;
    });
    for (const uint32_t k : order) {
      if (rest[k] > 0) place_rest(k, rest[k]);
    }
  }

  size_t workers() const { return bins_.size(); }
  std::vector<Placed> placed() const {
    std::vector<Placed> all;
    for (uint32_t w = 0; w < bins_.size(); ++w) {
      for (const Session& s : bins_[w].sessions) all.push_back({s.key, w, s.rate});
    }
    return all;
  }

 private:
  struct Cycle {
    double duty_s = 0, occupancy = 0;
  };

  double run_s(uint32_t key, double items) const {
    return (*demands_[key].latency)(static_cast<uint32_t>(std::max(1.0, items))).seconds();
  }

  // Gives the key as many workers of its own as it can fill; the rate that is left.
  double place_whole(uint32_t key, double rate) {
    const Demand& d = demands_[key];
    const uint32_t b = std::max(1u, d.latency->largest_within(d.slo / 2));
    const double fill = b / run_s(key, b);
    for (; rate >= fill; rate -= fill) bins_.push_back({{{key, fill}}, run_s(key, b)});
    return rate;
  }

  // The longest cycle of a model that has a worker to itself.
  Cycle alone(uint32_t key, double rate) const {
    if (rate <= 0) return {};
    const double slo = demands_[key].slo.seconds();
    const uint32_t most = demands_[key].latency->max_batch();
    uint32_t b = 1;
    while (b < most && run_s(key, b + 1) + (b + 1) / rate <= slo) ++b;
    const double duty = std::min(b / rate, std::max(slo - run_s(key, b), run_s(key, b)));
    return {duty, run_s(key, b) / duty};
  }

  // How full the bin would be with the key in it; above 1: it does not fit.
  double occupancy_with(const Bin& bin, double duty_s, const Session& added) const {
    double busy = run_s(added.key, std::ceil(duty_s * added.rate));
    for (const Session& s : bin.sessions) busy += run_s(s.key, std::ceil(duty_s * s.rate));
    return busy / duty_s;
  }

  void place_rest(uint32_t key, double rate) {
    const Session added{key, rate};
    const Cycle cycle = alone(key, rate);
    Bin* best = nullptr;
    double fullest = 0;
    for (Bin& bin : bins_) {
      const double full = occupancy_with(bin, std::min(bin.duty_s, cycle.duty_s), added);
      if (full > 1 || full <= fullest) continue;
      fullest = full;
      best = &bin;
    }
    if (best == nullptr) best = &bins_.emplace_back(Bin{{}, cycle.duty_s});
    best->sessions.push_back(added);
    best->duty_s = std::min(best->duty_s, cycle.duty_s);
  }

  const std::vector<Demand>& demands_;
  std::vector<Bin> bins_;
};

// A scale at which even the cheapest batches need more than all workers.
double too_much(const std::vector<Demand>& demands, uint32_t workers) {
  double load = 0;
  for (const Demand& d : demands) {
    const uint32_t b = d.latency->max_batch();
    load += d.rate_rps * (*d.latency)(b).seconds() / b;
  }
  return load > 0 ? 2 * workers / load : 0;
}

}  // namespace

std::vector<Placed> place_by_rate(const std::vector<Demand>& demands, uint32_t workers) {
  std::vector<Placed> best;
  double low = 0, high = too_much(demands, workers);
  for (int i = 0; high > 0 && i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    const Packing packing(demands, middle);
    if (packing.workers() > workers) {
      high = middle;
      continue;
    }
    low = middle;
    best = packing.placed();
  }
  std::vector<bool> has(demands.size());
  for (const Placed& p : best) has[p.key] = true;
  for (uint32_t k = 0; k < demands.size(); ++k) {
    if (!has[k]) best.push_back({k, workers - 1, 1.0});
  }
  return best;
}

}  // namespace fermata::policy

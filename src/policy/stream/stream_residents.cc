#include "policy/stream/stream_residents.h"

#include <algorithm>

#include "base/random.h"

namespace fermata::policy {
namespace {

constexpr double kKept = 0.98;  // of what was counted, at every change from the same DNN
constexpr double kPrior = 1.5;  // changes that nearness alone is worth
constexpr double kNear = 0.6;   // of the one a size nearer

uint32_t apart(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

bool contains(const std::vector<uint32_t>& all, uint32_t one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

StreamResidents::StreamResidents(uint32_t workers, uint32_t variants, uint32_t room)
    : variants_(variants),
      room_(std::max(room, 1U)),
      workers_(workers),
      changes_(size_t{variants} * variants) {}

bool StreamResidents::holds(const Worker& worker, uint32_t variant) {
  return contains(worker.held, variant);
}

double StreamResidents::score(const Worker& worker, uint32_t variant) const {
  const double* from = &changes_[size_t{worker.wanted} * variants_];
  return from[variant] + kPrior * portable_pow(kNear, apart(worker.wanted, variant));
}

// The one that runs stays until the wanted one is there.
std::optional<uint32_t> StreamResidents::least_needed(const Worker& worker) const {
  std::optional<uint32_t> least;
  for (const uint32_t v : worker.held) {
    if (v == worker.active || v == worker.wanted) continue;
    if (!least || score(worker, v) < score(worker, *least)) least = v;
  }
  return least;
}

void StreamResidents::let_go(uint32_t w, uint32_t variant) {
  std::erase(workers_[w].held, variant);
  orders_.push_back({w, variant, false});
}

bool StreamResidents::worth_loading(const Worker& worker, uint32_t variant) const {
  if (worker.held.size() < room_) return true;
  const std::optional<uint32_t> least = least_needed(worker);
  return least && score(worker, *least) < score(worker, variant);
}

void StreamResidents::begin_next(uint32_t w) {
  Worker& worker = workers_[w];
  if (worker.loading) return;
  std::optional<uint32_t> next;
  if (!holds(worker, worker.wanted) && !contains(worker.broken, worker.wanted)) {
    next = worker.wanted;
  } else {
    for (uint32_t v = 0; v < variants_; ++v) {
      if (holds(worker, v) || contains(worker.broken, v)) continue;
      if (!next || score(worker, v) > score(worker, *next)) next = v;
    }
    if (!next || !worth_loading(worker, *next)) return;
  }
  if (worker.held.size() >= room_) {
    if (const auto least = least_needed(worker)) let_go(w, *least);
  }
  worker.loading = next;
  orders_.push_back({w, *next, true});
}

std::optional<bool> StreamResidents::want(uint32_t w, uint32_t variant) {
  Worker& worker = workers_[w];
  if (worker.started && variant == worker.wanted) return std::nullopt;
  if (worker.started) {
    double* from = &changes_[size_t{worker.wanted} * variants_];
    for (uint32_t v = 0; v < variants_; ++v) from[v] *= kKept;
    from[variant] += 1;
  }
  const bool first = !std::exchange(worker.started, true);
  worker.wanted = variant;
  std::erase(worker.broken, variant);
  const bool there = holds(worker, variant);
  if (there) worker.active = variant;
  begin_next(w);
  return first ? std::nullopt : std::optional(there);
}

void StreamResidents::loaded(uint32_t w, uint32_t variant, bool ok) {
  Worker& worker = workers_[w];
  if (worker.loading != variant) return;
  worker.loading.reset();
  if (ok) {
    worker.held.push_back(variant);
    if (variant == worker.wanted || !worker.active) worker.active = variant;
    while (worker.held.size() > room_) {  // the old one has stayed until now
      const std::optional<uint32_t> least = least_needed(worker);
      if (!least) break;
      let_go(w, *least);
    }
  } else {
    worker.broken.push_back(variant);
  }
  begin_next(w);
}

void StreamResidents::replaced(uint32_t variant) {
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    Worker& worker = workers_[w];
    std::erase(worker.held, variant);
    std::erase(worker.broken, variant);
    if (worker.active == variant) worker.active.reset();
    if (!worker.active && !worker.held.empty()) worker.active = worker.held.front();
    if (worker.started) begin_next(w);
  }
}

bool StreamResidents::awaited(uint32_t variant) const {
  bool wanted = false;
  for (const Worker& worker : workers_) {
    if (holds(worker, variant)) return false;
    wanted |= worker.started && worker.wanted == variant;
  }
  return wanted;
}

uint32_t StreamResidents::serving(uint32_t variant) const {
  std::optional<uint32_t> before, nearest;
  for (const Worker& worker : workers_) {
    if (holds(worker, variant)) return variant;
    if (worker.started && worker.wanted == variant && worker.active) before = worker.active;
    for (const uint32_t v : worker.held) {
      if (!nearest || apart(v, variant) < apart(*nearest, variant)) nearest = v;
    }
  }
  return before ? *before : nearest.value_or(variant);
}

}  // namespace fermata::policy

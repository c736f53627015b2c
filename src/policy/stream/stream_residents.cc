#include "policy/stream/stream_residents.h"

#include <algorithm>
#include <cmath>

namespace fermata::policy {
namespace {

constexpr double kKept = 0.98;  // of what was counted, at every change from the same DNN
constexpr double kPrior = 1.5;  // changes that nearness alone is worth
constexpr double kNear = 0.6;   // of the one a size nearer

double apart(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

}  // namespace

StreamResidents::StreamResidents(uint32_t workers, uint32_t variants, uint32_t room, Duration load)
    : variants_(variants),
      room_(std::max(room, 1U)),
      load_(load),
      workers_(workers),
      changes_(size_t{variants} * variants) {}

bool StreamResidents::holds(const Worker& worker, uint32_t variant) {
  return std::find(worker.held.begin(), worker.held.end(), variant) != worker.held.end();
}

double StreamResidents::score(const Worker& worker, uint32_t variant) const {
  const double* from = &changes_[size_t{worker.wanted} * variants_];
  return from[variant] + kPrior * std::pow(kNear, apart(worker.wanted, variant));
}

void StreamResidents::take(Worker& worker, uint32_t variant) {
  // The old one stays until the new one is there, so it goes before what is likely to be needed.
  while (worker.held.size() >= room_) {
    const auto least =
        std::min_element(worker.held.begin(), worker.held.end(), [&](uint32_t a, uint32_t b) {
          const auto kept = [&](uint32_t v) { return v == worker.wanted ? 1e9 : score(worker, v); };
          return kept(a) < kept(b);
        });
    worker.held.erase(least);
  }
  worker.held.push_back(variant);
  if (variant == worker.wanted || !holds(worker, worker.active)) worker.active = variant;
}

void StreamResidents::begin_next(Worker& worker, Time at) {
  if (!holds(worker, worker.wanted)) {
    worker.load = {worker.wanted, at + load_};
    return;
  }
  std::optional<uint32_t> best;
  for (uint32_t v = 0; v < variants_; ++v) {
    if (holds(worker, v) || (best && score(worker, v) <= score(worker, *best))) continue;
    best = v;
  }
  if (!best) return;
  const bool worth = worker.held.size() < room_ ||
                     std::any_of(worker.held.begin(), worker.held.end(), [&](uint32_t v) {
                       return v != worker.wanted && score(worker, v) < score(worker, *best);
                     });
  if (worth) worker.load = {*best, at + load_};
}

void StreamResidents::advance(Worker& worker, Time now) {
  while (worker.load && worker.load->end <= now) {
    const Load done = *worker.load;
    worker.load.reset();
    take(worker, done.variant);
    begin_next(worker, done.end);
  }
}

std::optional<bool> StreamResidents::want(uint32_t w, uint32_t variant, Time now) {
  Worker& worker = workers_[w];
  if (!worker.started) {
    worker = {true, variant, variant, {variant}, {}};
    begin_next(worker, now);
    return std::nullopt;
  }
  advance(worker, now);
  if (variant == worker.wanted) return std::nullopt;
  double* from = &changes_[size_t{worker.wanted} * variants_];
  for (uint32_t v = 0; v < variants_; ++v) from[v] *= kKept;
  from[variant] += 1;
  worker.wanted = variant;
  const bool there = holds(worker, variant);
  if (there) worker.active = variant;
  const bool loading_it = worker.load && worker.load->variant == variant;
  if (!worker.load || (!there && !loading_it)) {  // what was being loaded is given up
    worker.load.reset();
    begin_next(worker, now);
    advance(worker, now);
  }
  return there;
}

uint32_t StreamResidents::active(uint32_t w, Time now) {
  advance(workers_[w], now);
  return workers_[w].active;
}

bool StreamResidents::holds(uint32_t w, uint32_t variant, Time now) {
  advance(workers_[w], now);
  return holds(workers_[w], variant);
}

}  // namespace fermata::policy

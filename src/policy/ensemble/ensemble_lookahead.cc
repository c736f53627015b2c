#include "policy/ensemble/ensemble_lookahead.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "policy/batch/instants.h"

namespace fermata::policy {
namespace {

constexpr size_t kMostPlannedQueries = 64;   // waiting queries that one decision looks at
constexpr size_t kMostExpectedQueries = 32;  // arrivals of one ensemble that it expects
constexpr size_t kStarts = 6;  // heads of a batch that are compared for what they earn
// Prices are the dearest one halved this often, and nothing.
constexpr size_t kPricesTried = 10;
constexpr uint32_t kAllEvery = 16;  // decisions
// Equal utility is not worth any time.
constexpr double kLeastPrice = 1e-6;
constexpr double kLeastWorth = 0.05;  // of any answer, where all are served
constexpr uint32_t kNone = 32;
constexpr double kBeforeAll = 1e9;  // seconds of urgency

double price_at(size_t step, double dearest) {
  return step == 0 ? kLeastPrice
                   : std::ldexp(dearest, static_cast<int>(step) - int{kPricesTried} + 1);
}

}  // namespace

void EnsembleLookahead::add_models(const EnsembleQueries& queries, uint32_t ensemble) {
  std::vector<uint32_t>& own = of_ensemble_[ensemble];
  if (!own.empty()) return;
  for (const KeyId key : queries.ensemble(ensemble).info.models) {
    const auto known = absl::c_find_if(models_, [key](const Model& m) { return m.key == key; });
    own.push_back(static_cast<uint32_t>(known - models_.begin()));
    if (known != models_.end()) continue;
    Model& model = models_.emplace_back();
    model.key = key;
    for (uint32_t w = 0; w < others_.size(); ++w) {
      model.latency.push_back(&queries.pool().latency(key, WorkerId(w)));
    }
  }
}

void EnsembleLookahead::read(const EnsembleQueries& queries) {
  items_.clear();
  models_.clear();
  of_ensemble_.assign(queries.ensembles(), {});
  for (EnsembleQueries::Query* query : queries.by_deadline()) {
    if (items_.size() == kMostPlannedQueries) break;
    const EnsembleQueries::Ensemble& ensemble = queries.ensemble(query->ensemble);
    const plan::Subset open = ensemble.all() & ~(query->had() | query->failed);
    // Late, it gets its first answer where all are served, and nothing more.
    const bool late = query->task.deadline <= start_;
    if (open == 0 || (late && (query->had() != 0 || !ensemble.info.serve_all))) continue;
    add_models(queries, query->ensemble);
    Item& item = items_.emplace_back();
    item.query = query;
    item.utility = query->utility->data();
    item.arrival = query->task.arrival;
    item.deadline = query->task.deadline;
    item.slo = item.deadline - item.arrival;
    item.ensemble = query->ensemble;
    item.open = open;
    item.had = query->had();
    item.serve_all = ensemble.info.serve_all;
  }
  for (uint32_t e = 0; e < queries.ensembles(); ++e) {
    if (!of_ensemble_[e].empty()) read_expected(queries, e);
  }
  price_models();
}

void EnsembleLookahead::read_expected(const EnsembleQueries& queries, uint32_t at) {
  const EnsembleQueries::Ensemble& ensemble = queries.ensemble(at);
  if (ensemble.slo.is_infinite()) return;
  const double within = ensemble.company.value();
  // Arrivals that come together: once their time has passed without another, that was all.
  const Duration spread = ensemble.slo.scaled(ensemble.company.spread());
  if (ensemble.company.last() + spread < start_) return;
  for (size_t i = 1; i <= std::min(static_cast<size_t>(within), kMostExpectedQueries); ++i) {
    Item& item = items_.emplace_back();
    item.utility = ensemble.expected.data();
    // Not at this very instant: what is there now goes first.
    item.arrival = start_ + kTick + spread.scaled(static_cast<double>(i) / within);
    item.slo = ensemble.slo;
    item.deadline = item.arrival + item.slo;
    item.ensemble = at;
    item.open = ensemble.all();
    item.serve_all = ensemble.info.serve_all;
  }
}

// What waits shares the batches of the models that it names.
void EnsembleLookahead::price_models() {
  double cheapest = 0;
  for (Model& model : models_) {
    const LatencyTable& latency = *model.latency[worker_.index()];
    const auto real = absl::c_count_if(items_, [](const Item& i) { return i.query != nullptr; });
    const auto batch = std::clamp<uint32_t>(static_cast<uint32_t>(real), 1, latency.max_batch());
    model.cost = latency(batch).seconds() / batch;
    model.alone = latency(1);
    cheapest = cheapest == 0 ? model.cost : std::min(cheapest, model.cost);
  }
  dearest_ = cheapest > 0 ? 1 / cheapest : 1;
}

const EnsembleLookahead::Plan& EnsembleLookahead::follow(const EnsembleQueries& queries,
                                                         WorkerId worker, Time start) {
  worker_ = worker;
  start_ = start;
  others_.clear();
  serving_ = queries.pool().serving();
  for (const WorkerView& other : queries.pool().workers()) {
    others_.push_back(other.away ? Time::infinite() : other.free_at);
  }
  read(queries);
  best_ = {};
  most_ = -1;
  if (items_.empty()) return best_;
  const size_t last = price_;
  const size_t style = style_;
  if (decisions_++ % kAllEvery == 0) {
    for (size_t p = 0; p < kPricesTried; ++p) {
      for (size_t s = 0; s < std::size(kStyles); ++s) consider(p, s);
    }
    return best_;
  }
  consider(last, style);
  for (size_t s = 0; s < std::size(kStyles); ++s) {
    if (s != style) consider(last, s);
  }
  if (last > 0) consider(last - 1, style);
  if (last + 1 < kPricesTried) consider(last + 1, style);
  return best_;
}

void EnsembleLookahead::consider(size_t price, size_t style) {
  const double value = play(price_at(price, dearest_), kStyles[style]);
  if (value <= most_) return;
  most_ = value;
  price_ = price;
  style_ = style;
  keep();
}

void EnsembleLookahead::keep() {
  std::swap(best_, played_);
  best_.planned.clear();
  for (const Item& item : items_) {
    if (item.query != nullptr) best_.planned.emplace_back(item.query, item.has);
  }
}

void EnsembleLookahead::name_subsets(double price) {
  for (Model& model : models_) model.waiting.clear();
  for (uint32_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    const std::vector<uint32_t>& own = of_ensemble_[item.ensemble];
    item.has = item.had;
    plan::Subset wanted = is_late(item) ? 0 : best_subset(item, price);
    // Where all are served somebody has to answer, however little it is worth.
    if (wanted == 0 && item.serve_all && item.had == 0) wanted = cheapest(item);
    for (uint32_t k = 0; k < own.size(); ++k) {
      if (wanted >> k & 1) models_[own[k]].waiting.emplace_back(i, k);
    }
  }
  // Expected queries come behind the real ones of all ensembles.
  for (Model& model : models_) {
    absl::c_stable_sort(model.waiting, [this](const auto& a, const auto& b) {
      return items_[a.first].deadline < items_[b.first].deadline;
    });
  }
}

plan::Subset EnsembleLookahead::best_subset(const Item& item, double price) const {
  const std::vector<uint32_t>& own = of_ensemble_[item.ensemble];
  plan::Subset wanted = 0;
  double best = 0;
  // Of all workers, until its deadline.
  const Duration room = (item.deadline - std::max(item.arrival, start_)) * serving_;
  for (plan::Subset s = item.open; s != 0; s = (s - 1) & item.open) {
    double net = item.utility[item.had | s] - item.utility[item.had];
    if (net <= best) continue;
    Duration alone;
    for (size_t k = 0; k < own.size(); ++k) {
      if ((s >> k & 1) == 0) continue;
      net -= price * models_[own[k]].cost;
      alone += models_[own[k]].alone;
    }
    if (net <= best || (playing_.fitting && alone > room && !item.serve_all)) continue;
    best = net;
    wanted = s;
  }
  return wanted;
}

plan::Subset EnsembleLookahead::cheapest(const Item& item) const {
  const std::vector<uint32_t>& own = of_ensemble_[item.ensemble];
  uint32_t best = kNone;
  for (uint32_t k = 0; k < own.size(); ++k) {
    if ((item.open >> k & 1) == 0) continue;
    if (best == kNone || models_[own[k]].cost < models_[own[best]].cost) best = k;
  }
  return best == kNone ? 0 : plan::Subset{1} << best;
}

double EnsembleLookahead::worth(const Item& item, plan::Subset more, Time finish) const {
  double gain = item.utility[item.has | more] - item.utility[item.has];
  if (item.serve_all && item.has == 0) gain = std::max(gain, kLeastWorth);
  if (finish <= item.deadline) return gain;
  // With an answer it ends at its deadline.
  if (!item.serve_all || item.has != 0) return 0;
  const double slo = item.slo.seconds();
  return gain * slo / (slo + (finish - item.deadline).seconds());
}

// The batch of a model whose first task is the `from`th that could still be on time: as many
// more as leave that one on time. Into move_.
bool EnsembleLookahead::move_of(uint32_t at, uint32_t worker, Time now, size_t from) {
  Model& model = models_[at];
  const LatencyTable& latency = *model.latency[worker];
  move_.model = at;
  move_.places.clear();
  Time limit = Time::infinite();
  double earned = 0;
  for (uint32_t p = 0; p < model.waiting.size(); ++p) {
    const Item& item = items_[model.waiting[p].first];
    if (item.arrival > now) continue;
    const auto count = static_cast<uint32_t>(move_.places.size());
    if (count == latency.max_batch()) break;
    const Time finish = now + latency(count + 1);
    if (finish > item.deadline && (!item.serve_all || item.has != 0)) continue;
    if (count == 0 && !is_late(item) && from-- > 0) continue;
    if (finish > limit) break;
    if (count == 0 && finish <= item.deadline) limit = item.deadline;
    move_.places.push_back(p);
  }
  if (move_.places.empty()) return false;
  move_.run = latency(static_cast<uint32_t>(move_.places.size()));
  const Item& head = items_[model.waiting[move_.places[0]].first];
  if (!playing_.by_earnings || is_late(head)) {
    move_.rank = (head.deadline - now - move_.run).seconds() - (is_late(head) ? kBeforeAll : 0);
    return true;
  }
  for (const uint32_t p : move_.places) {
    const auto& [i, bit] = model.waiting[p];
    earned += worth(items_[i], plan::Subset{1} << bit, now + move_.run);
  }
  move_.rank = -earned / move_.run.seconds();
  return true;
}

bool EnsembleLookahead::best_move(uint32_t worker, Time now) {
  bool found = false;
  for (uint32_t m = 0; m < models_.size(); ++m) {
    const size_t starts = playing_.by_earnings ? kStarts : 1;
    for (size_t from = 0; from < starts; ++from) {
      if (!move_of(m, worker, now, from)) break;
      if (found && move_.rank >= best_move_.rank) continue;
      std::swap(best_move_, move_);
      found = true;
    }
  }
  return found;
}

void EnsembleLookahead::run(uint32_t worker, Time now) {
  const Move& move = best_move_;
  Model& model = models_[move.model];
  const Time finish = now + move.run;
  const bool first = worker == worker_.index() && now == start_ && !started_;
  if (first) {
    started_ = true;
    played_.model = model.key;
    played_.run = move.run;
  }
  for (const uint32_t p : move.places) {
    const auto& [i, bit] = model.waiting[p];
    Item& item = items_[i];
    value_ += worth(item, plan::Subset{1} << bit, finish);
    item.has |= plan::Subset{1} << bit;
    if (first && item.query != nullptr) played_.queries.push_back(item.query);
  }
  size_t at = 0, place = 0;
  std::erase_if(model.waiting, [&](const auto&) {
    const bool taken = place < move.places.size() && move.places[place] == at;
    place += taken ? 1 : 0;
    ++at;
    return taken;
  });
  free_at_[worker] = finish;
}

double EnsembleLookahead::play(double price, Style style) {
  playing_ = style;
  name_subsets(price);
  free_at_.assign(others_.begin(), others_.end());
  for (Time& t : free_at_) t = std::max(t, start_ + Duration::nanos(1));
  free_at_[worker_.index()] = start_;
  played_.model = KeyId::none();
  played_.queries.clear();
  started_ = false;
  value_ = 0;
  while (true) {
    const auto first = absl::c_min_element(free_at_);
    const auto worker = static_cast<uint32_t>(first - free_at_.begin());
    const Time now = *first;
    if (now.is_infinite()) break;
    if (best_move(worker, now)) {
      run(worker, now);
      continue;
    }
    Time next = Time::infinite();
    for (const Model& model : models_) {
      for (const auto& waiting : model.waiting) {
        const Time arrival = items_[waiting.first].arrival;
        if (arrival > now) next = std::min(next, arrival);
      }
    }
    *first = next;
  }
  return value_;
}

}  // namespace fermata::policy

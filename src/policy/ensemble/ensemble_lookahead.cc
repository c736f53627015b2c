#include "policy/ensemble/ensemble_lookahead.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/algorithm/container.h"
#include "policy/batch/instants.h"

namespace fermata::policy {
namespace {

constexpr size_t kMostExpectedQueries = 32;  // arrivals of one ensemble that it expects
constexpr size_t kBeside = 2;                // prices on either side of the last one
constexpr size_t kStarts = 6;  // heads of a batch that are compared for what they earn
// Equal utility is not worth any time.
constexpr double kLeastPrice = 1e-6;
constexpr double kLeastWorth = 0.05;  // of any answer, where all are served
constexpr uint32_t kNone = 32;
constexpr double kBeforeAll = 1e9;      // seconds of urgency
constexpr double kShorterFirst = 1e-3;  // decides between equal deadlines

// Prices are the dearest one, halved in two steps ever again, and nothing.
double price_at(size_t step, double dearest) {
  if (step == 0) return kLeastPrice;
  return dearest * std::exp2((static_cast<double>(step) + 1 - EnsembleLookahead::kPricesTried) / 2);
}

}  // namespace

void EnsembleLookahead::read() {
  items_.clear();
  models_.resize(problem_->models.size());
  for (size_t m = 0; m < models_.size(); ++m) models_[m].latency = &problem_->models[m].latency;
  for (const plan::PoolProblem::Query& query : problem_->queries) {
    Item& item = items_.emplace_back();
    item.utility = problem_->utility(query).data();
    item.arrival = query.arrival;
    item.deadline = query.deadline;
    item.slo = item.deadline - item.arrival;
    item.ensemble = query.ensemble;
    item.open = query.open;
    item.had = query.had;
    item.serve_all = problem_->ensembles[query.ensemble].serve_all;
  }
  for (uint32_t e = 0; e < problem_->ensembles.size(); ++e) read_expected(e);
  by_deadline_.resize(items_.size());
  absl::c_iota(by_deadline_, 0);
  // Expected queries come behind the real ones of all ensembles.
  absl::c_stable_sort(by_deadline_, [this](uint32_t a, uint32_t b) {
    return items_[a].deadline < items_[b].deadline;
  });
  price_models();
  price_items();
}

void EnsembleLookahead::read_expected(uint32_t at) {
  const plan::PoolProblem::Ensemble& ensemble = problem_->ensembles[at];
  if (ensemble.slo.is_infinite()) return;
  // Arrivals that come together: once their time has passed without another, that was all.
  if (ensemble.last + ensemble.spread < start_) return;
  const size_t expected = std::min(static_cast<size_t>(ensemble.company), kMostExpectedQueries);
  for (size_t i = 1; i <= expected; ++i) {
    Item& item = items_.emplace_back();
    item.utility = ensemble.utility->back().data();
    // Not at this very instant: what is there now goes first.
    item.arrival =
        start_ + kTick + ensemble.spread.scaled(static_cast<double>(i) / ensemble.company);
    item.slo = ensemble.slo;
    item.deadline = item.arrival + item.slo;
    item.ensemble = at;
    item.open = (plan::Subset{1} << ensemble.models.size()) - 1;
    item.real = false;
    item.serve_all = ensemble.serve_all;
  }
}

const plan::PoolPlan& EnsembleLookahead::plan(const plan::PoolProblem& problem) {
  problem_ = &problem;
  start_ = problem.start;
  read();
  best_ = {};
  price_ = std::min<size_t>(problem.last_price, kPricesTried - 1);
  style_ = std::min<size_t>(problem.last_style, kStylesTried - 1);
  if (items_.empty()) return best_;
  best_.value = -std::numeric_limits<double>::infinity();
  const size_t last = price_, style = style_;
  if (problem.try_all) {
    for (size_t p = 0; p < kPricesTried; ++p) {
      for (size_t s = 0; s < kStylesTried; ++s) consider(p, s);
    }
    return best_;
  }
  consider(last, style);
  for (size_t s = 0; s < kStylesTried; ++s) {
    if (s != style) consider(last, s);
  }
  for (size_t beside = 1; beside <= kBeside; ++beside) {
    if (last >= beside) consider(last - beside, style);
    if (last + beside < kPricesTried) consider(last + beside, style);
  }
  return best_;
}

void EnsembleLookahead::consider(size_t price, size_t style) {
  const double dear = price_at(price, dearest_);
  if (play(dear, kStyles[style]) <= best_.value) return;
  price_ = price;
  style_ = style;
  std::swap(best_, played_);
  best_.planned.clear();
  for (uint32_t i = 0; i < problem_->queries.size(); ++i) {
    const Item& item = items_[i];
    const Duration finish = item.has == item.had ? Duration() : item.finish - start_;
    const plan::Subset wanted = is_late(item) ? 0 : best_subset_of_alike(item, item.had, dear);
    best_.planned.push_back({i, item.has, item.had | wanted, finish});
  }
}

void EnsembleLookahead::forget_named() {
  for (Model& model : models_) {
    model.waiting.clear();
    model.gone = 0;
  }
  named_.clear();
}

void EnsembleLookahead::name_subsets(double price) {
  forget_named();
  arrivals_.clear();
  arrived_ = 0;
  for (const uint32_t i : by_deadline_) {
    Item& item = items_[i];
    item.has = item.named = item.had;
    item.finish = start_;
    plan::Subset wanted = 0;
    if (!is_late(item)) {
      wanted = is_bound(item) ? best_subset(item, item.had, price, room(item))
                              : best_subset_of_alike(item, item.had, price);
    }
    // Where all are served somebody has to answer, however little it is worth.
    if (wanted == 0 && item.serve_all && item.had == 0) wanted = cheapest(item);
    name(i, wanted);
    if (wanted != 0 && item.arrival > start_) arrivals_.push_back(item.arrival);
  }
  absl::c_sort(arrivals_);
}

void EnsembleLookahead::name(uint32_t i, plan::Subset subset) {
  const std::vector<uint32_t>& own = models_of(items_[i]);
  for (uint32_t k = 0; k < own.size(); ++k) {
    if (subset >> k & 1) models_[own[k]].waiting.emplace_back(i, k);
  }
  items_[i].named |= subset;
}

// Once the workers would idle: what time is too dear for, beside what was named. Whether it has
// been named only now.
bool EnsembleLookahead::name_for_nothing(Time now) {
  if (time_.others() == 0 || time_.free() || !next_arrival(now).is_infinite()) return false;
  time_.set_free(true);
  forget_named();
  for (const uint32_t i : by_deadline_) {
    const Item& item = items_[i];
    if (item.arrival > now) continue;
    const plan::Subset waits = item.named & ~item.has;
    name(i, is_late(item) ? waits : waits | best_subset_of_alike(item, item.named, kLeastPrice));
  }
  return true;
}

// Until its deadline, of all workers.
Duration EnsembleLookahead::room(const Item& item) const {
  if (item.deadline.is_infinite()) return Duration::infinite();
  const auto workers = static_cast<int64_t>(problem_->workers.size());
  return (item.deadline - std::max(item.arrival, start_)) * workers;
}

// In this way to play.
bool EnsembleLookahead::is_bound(const Item& item) const {
  return playing_.fitting && !item.serve_all && alone_[item.ensemble][item.open] > room(item);
}

// Those whom their deadlines do not bind name the same where they differ in these alone.
plan::Subset EnsembleLookahead::best_subset_of_alike(const Item& item, plan::Subset had,
                                                     double price) {
  const auto alike = absl::c_find_if(named_, [&](const NamedSubset& named) {
    return named.utility == item.utility && named.open == item.open && named.had == had;
  });
  if (alike != named_.end()) return alike->subset;
  named_.push_back(
      {item.utility, item.open, had, best_subset(item, had, price, Duration::infinite())});
  return named_.back().subset;
}

plan::Subset EnsembleLookahead::best_subset(const Item& item, plan::Subset had, double price,
                                            Duration most) const {
  const std::vector<uint32_t>& own = models_of(item);
  const std::vector<Duration>& alone = alone_[item.ensemble];
  const plan::Subset open = item.open & ~had;
  price = std::max(kLeastPrice, time_.paid(price, item.least_price));
  plan::Subset wanted = 0;
  double best = 0;
  for (plan::Subset s = open; s != 0; s = (s - 1) & open) {
    double net = item.utility[had | s] - item.utility[had];
    if (net <= best || alone[s] > most) continue;
    for (plan::Subset rest = s; rest != 0; rest &= rest - 1) {
      net -= price * models_[own[std::countr_zero(rest)]].cost;
    }
    if (net <= best) continue;
    best = net;
    wanted = s;
  }
  return wanted;
}

plan::Subset EnsembleLookahead::cheapest(const Item& item) const {
  const std::vector<uint32_t>& own = models_of(item);
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
  const LatencyTable& latency = this->latency(model, worker);
  move_.model = at;
  move_.places.clear();
  Time limit = Time::infinite();
  double earned = 0;
  while (model.gone < model.waiting.size() &&
         is_gone(items_[model.waiting[model.gone].first], model, now)) {
    ++model.gone;
  }
  for (uint32_t p = model.gone; p < model.waiting.size(); ++p) {
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
    // Of a query's models the shorter first: what it has by then may be enough when others have
    // come.
    move_.rank = (head.deadline - now).seconds() + kShorterFirst * move_.run.seconds() -
                 (is_late(head) ? kBeforeAll : 0);
    return true;
  }
  for (const uint32_t p : move_.places) {
    const auto& [i, bit] = model.waiting[p];
    earned += worth(items_[i], plan::Subset{1} << bit, now + move_.run);
  }
  move_.rank = -earned / move_.run.seconds();
  return true;
}

// Whether no worker can answer it on time from now on.
bool EnsembleLookahead::is_gone(const Item& item, const Model& model, Time now) const {
  return now + model.fastest > item.deadline && (!item.serve_all || item.has != 0);
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

Time EnsembleLookahead::run(uint32_t worker, Time now) {
  const Move& move = best_move_;
  Model& model = models_[move.model];
  const Time finish = now + move.run;
  const double seconds = move.run.seconds() / static_cast<double>(move.places.size()) *
                         time_.seconds_of(problem_->workers[worker].type);
  const bool first = worker == problem_->worker && now == start_ && !started_;
  if (first) {
    started_ = true;
    played_.model = move.model;
    played_.run = move.run;
  }
  for (const uint32_t p : move.places) {
    const auto& [i, bit] = model.waiting[p];
    Item& item = items_[i];
    const double net = worth(item, plan::Subset{1} << bit, finish) - item.charged_price * seconds;
    played_.value += time_.free() ? std::max(0.0, net) : net;
    item.has |= plan::Subset{1} << bit;
    item.finish = std::max(item.finish, finish);
    if (first && item.real) played_.queries.push_back(i);
  }
  size_t at = 0, place = 0;
  std::erase_if(model.waiting, [&](const auto&) {
    const bool taken = place < move.places.size() && move.places[place] == at;
    place += taken ? 1 : 0;
    ++at;
    return taken;
  });
  return finish;
}

// Nobody is in a batch before it has come.
Time EnsembleLookahead::next_arrival(Time after) {
  while (arrived_ < arrivals_.size() && arrivals_[arrived_] <= after) ++arrived_;
  return arrived_ < arrivals_.size() ? arrivals_[arrived_] : Time::infinite();
}

double EnsembleLookahead::play(double price, Style style) {
  playing_ = style;
  name_subsets(price);
  play_.clear(problem_->worker_types.size());
  for (uint32_t w = 0; w < problem_->workers.size(); ++w) {
    const auto& worker = problem_->workers[w];
    const Time free_at = std::max(worker.free_at, start_ + Duration::nanos(1));
    play_.add(worker.type, w, w == problem_->worker ? start_ : free_at);
  }
  played_.model.reset();
  played_.queries.clear();
  played_.value = 0;
  started_ = false;
  play_.run(
      [this](uint32_t worker, Time now) {
        const bool found =
            best_move(worker, now) || (name_for_nothing(now) && best_move(worker, now));
        return found ? std::optional(run(worker, now)) : std::nullopt;
      },
      [this](Time now) { return next_arrival(now); });
  if (time_.free()) named_.clear();
  time_.set_free(false);
  return played_.value;
}

}  // namespace fermata::policy

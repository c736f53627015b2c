#include "policy/ensemble/ensemble_lookahead.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/algorithm/container.h"
#include "base/random.h"
#include "policy/batch/instants.h"

namespace fermata::policy {
namespace {

constexpr size_t kMostExpectedQueries = 32;  // arrivals of one ensemble that it expects
constexpr size_t kBeside = 2;                // prices on either side of the last one
constexpr size_t kWaysBeside = EnsembleLookahead::kStylesTried - 1 + 2 * kBeside;
constexpr size_t kMostTurns = 150;  // of workers in plays, after which no more are begun
// Equal utility is not worth any time.
constexpr double kLeastPrice = 1e-6;
constexpr double kRootOfHalf = 0.70710678118654752440;
constexpr uint32_t kNone = 32;

// Prices are the dearest one, halved in two steps ever again, and nothing.
double price_at(size_t step, double dearest) {
  if (step == 0) return kLeastPrice;
  const size_t halvings = EnsembleLookahead::kPricesTried - 1 - step;
  return dearest * portable_pow(0.5, halvings / 2) * (halvings % 2 != 0 ? kRootOfHalf : 1);
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
  any_serve_all_ = absl::c_any_of(problem_->ensembles, [](const auto& e) { return e.serve_all; });
  by_deadline_.resize(items_.size());
  absl::c_iota(by_deadline_, 0);
  // Expected queries come behind the real ones of all ensembles.
  absl::c_stable_sort(by_deadline_, [this](uint32_t a, uint32_t b) {
    return items_[a].deadline < items_[b].deadline;
  });
  price_models();
  price_items();
  find_alike();
}

void EnsembleLookahead::find_alike() {
  alike_.clear();
  for (uint32_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    const auto alike = absl::c_find_if(alike_, [&](const Alike& each) {
      const Item& first = items_[each.first];
      return first.utility == item.utility && first.open == item.open && first.had == item.had;
    });
    item.alike = static_cast<uint32_t>(alike - alike_.begin());
    if (alike == alike_.end()) alike_.push_back({.first = i});
  }
}

void EnsembleLookahead::read_expected(uint32_t at) {
  const plan::PoolProblem::Ensemble& ensemble = problem_->ensembles[at];
  if (ensemble.slo.is_infinite()) return;
  // Arrivals that come together: once their time has passed without another, that was all.
  if (ensemble.last + ensemble.spread < start_) return;
  const size_t expected = std::min(static_cast<size_t>(ensemble.co_arrivals), kMostExpectedQueries);
  for (size_t i = 1; i <= expected; ++i) {
    Item& item = items_.emplace_back();
    item.utility = ensemble.utility->back().data();
    // Not at this very instant: what is there now goes first.
    item.arrival =
        start_ + kTick + ensemble.spread.scaled(static_cast<double>(i) / ensemble.co_arrivals);
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
  for (auto& names : played_names_) names.clear();
  price_ = std::min<size_t>(problem.last_price, kPricesTried - 1);
  style_ = std::min<size_t>(problem.last_style, kStylesTried - 1);
  next_ = problem.last_tried;
  turns_ = 0;
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
  for (size_t tried = 0, played = 0; tried < kWaysBeside; ++tried) {
    if (played > 0 && turns_ >= kMostTurns) break;
    next_ = (next_ + 1) % kWaysBeside;
    played += consider_beside(last, style, next_) ? 1 : 0;
  }
  return best_;
}

// The other styles, and the prices on either side. Whether that was played.
bool EnsembleLookahead::consider_beside(size_t price, size_t style, size_t way) {
  if (way < kStylesTried - 1) return consider(price, (style + 1 + way) % kStylesTried);
  const size_t prices = way - (kStylesTried - 1);  // kBeside below, then as many above
  if (prices < kBeside) return price > prices && consider(price - 1 - prices, style);
  const size_t above = price + 1 + prices - kBeside;
  return above < kPricesTried && consider(above, style);
}

bool EnsembleLookahead::consider(size_t price, size_t style) {
  if (!name_subsets(price_at(price, dearest_), kStyles[style])) return false;
  if (play(kStyles[style]) <= best_.value) return true;
  price_ = price;
  style_ = style;
  std::swap(best_, played_);
  best_.planned.clear();
  for (uint32_t i = 0; i < problem_->queries.size(); ++i) {
    const Item& item = items_[i];
    const Duration finish = item.has == item.had ? Duration() : item.finish - start_;
    const plan::Subset wanted = is_late(item) ? 0 : alike_[item.alike].wanted;
    best_.planned.push_back({i, item.has, item.had | wanted, finish});
  }
  return true;
}

bool EnsembleLookahead::name_subsets(double price, Style style) {
  for (Alike& alike : alike_) {
    const Item& first = items_[alike.first];
    alike.wanted = best_subset(first, first.had, price, Duration::infinite());
  }
  named_.clear();
  for (const uint32_t i : by_deadline_) {
    const Item& item = items_[i];
    plan::Subset wanted = is_late(item) ? 0 : alike_[item.alike].wanted;
    if (wanted != 0 && is_bound(item, style)) {
      wanted = best_subset(item, item.had, price, room(item));
    }
    // Where all are served somebody has to answer, however little it is worth.
    if (wanted == 0 && item.serve_all && item.had == 0) wanted = cheapest(item);
    named_.push_back(wanted);
  }
  std::vector<plan::Subset>& played = played_names_[style.by_earnings ? 1 : 0];
  for (auto at = played.begin(); at != played.end(); at += static_cast<ptrdiff_t>(named_.size())) {
    if (std::equal(named_.begin(), named_.end(), at)) return false;
  }
  played.insert(played.end(), named_.begin(), named_.end());
  return true;
}

void EnsembleLookahead::clear_waiting() {
  for (Model& model : models_) {
    model.waiting.clear();
    model.gone = 0;
  }
}

void EnsembleLookahead::wait_for(uint32_t i, plan::Subset subset) {
  const Item& item = items_[i];
  const std::vector<uint32_t>& own = models_of(item);
  for (plan::Subset rest = subset; rest != 0; rest &= rest - 1) {
    models_[own[std::countr_zero(rest)]].waiting.push_back(
        {item.arrival, item.deadline, Time(), i, rest & -rest, item.serve_all});
  }
}

// Who waits for what, from now on.
void EnsembleLookahead::set_waiting() {
  for (Model& model : models_) {
    Time next = Time::infinite();
    for (auto wait = model.waiting.rbegin(); wait != model.waiting.rend(); ++wait) {
      wait->next = next = std::min(next, wait->arrival);
    }
  }
}

// Once the workers would idle: what time is too dear for, beside what was named. Whether it has
// been named only now.
bool EnsembleLookahead::name_for_nothing(Time now) {
  if (!may_name_more(now)) return false;
  time_.set_free(true);
  clear_waiting();
  for (const uint32_t i : by_deadline_) {
    Item& item = items_[i];
    if (item.arrival > now) continue;
    const plan::Subset waits = item.named & ~item.has;
    if (!is_late(item)) {
      item.named |= best_subset(item, item.named, kLeastPrice, Duration::infinite());
    }
    wait_for(i, waits | (item.named & ~item.has));
  }
  set_waiting();
  return true;
}

// Until its deadline, of all workers.
Duration EnsembleLookahead::room(const Item& item) const {
  const Duration left = item.deadline - std::max(item.arrival, start_);
  if (item.deadline.is_infinite() || left > WorkerTime::kNoHurry) return Duration::infinite();
  return left * static_cast<int64_t>(problem_->workers.size());
}

// In this way to play.
bool EnsembleLookahead::is_bound(const Item& item, Style style) const {
  return style.fitting && !item.serve_all && alone_[item.ensemble][item.open] > room(item);
}

plan::Subset EnsembleLookahead::best_subset(const Item& item, plan::Subset had, double price,
                                            Duration most) const {
  const std::vector<Duration>& alone = alone_[item.ensemble];
  const std::vector<double>& cost = cost_[item.ensemble];
  const plan::Subset open = item.open & ~had;
  price = std::max(kLeastPrice, time_.paid(price, item.least_price));
  plan::Subset wanted = 0;
  double best = 0;
  for (plan::Subset s = open; s != 0; s = (s - 1) & open) {
    const double net = item.utility[had | s] - item.utility[had] - price * cost[s];
    if (net <= best || alone[s] > most) continue;
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

}  // namespace fermata::policy

#include <algorithm>

#include "absl/algorithm/container.h"
#include "policy/variants/variants_lookahead.h"

namespace fermata::policy {
namespace {

constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

}  // namespace

void VariantsLookahead::clear(plan::GroupSchedule& schedule) {
  schedule.utility = 0;
  schedule.batches.clear();
  schedule.requests.clear();
  schedule.short_circuited.clear();
  schedule.expected_accuracy.clear();
}

double VariantsLookahead::play(double price, Order order) {
  const plan::GroupProblem& problem = *problem_;
  waiting_ = by_deadline_;
  free_at_.clear();
  residency_.resize(problem.workers.size());
  for (size_t w = 0; w < problem.workers.size(); ++w) {
    free_at_.push_back(std::max(problem.now, problem.workers[w].free_at));
    residency_[w].reset(problem.workers[w], problem.models);
  }
  clear(played_);
  played_.feasible = true;
  played_.expected_accuracy.assign(problem.requests.size(), 0);
  value_ = real_value_ = 0;
  // What a worker has loaded makes it different from any other.
  play_.clear(problem.workers.size());
  for (uint32_t w = 0; w < free_at_.size(); ++w) play_.add(w, w, free_at_[w]);
  play_.run(
      [&](uint32_t worker, Time now) {
        const std::optional<Time> end = turn(worker, now, price, order);
        free_at_[worker] = end.value_or(next_arrival_);
        return end;
      },
      [this](Time) { return next_arrival_; });
  leave_the_rest();
  return value_;
}

std::optional<Time> VariantsLookahead::turn(uint32_t worker, Time now, double price, Order order) {
  Move move;
  if (best_move(worker, now, price, order, move)) return run(move, worker, now, price);
  if (best_move(worker, now, sustained_price_, order, move, /*of_timeless=*/true)) {
    return run(move, worker, now, sustained_price_);
  }
  next_arrival_ = next_arrival(now);
  if (!next_arrival_.is_infinite()) return std::nullopt;
  time_.set_free(true);
  const bool found = best_move(worker, now, 0, order, move);
  const std::optional<Time> end = found ? std::optional(run(move, worker, now, 0)) : std::nullopt;
  time_.set_free(false);
  return end;  // none: nothing that it could do is worth anything
}

VariantsLookahead::RunTimes VariantsLookahead::run_times(const plan::GroupVariant& variant,
                                                         uint32_t worker) const {
  const bool loaded = residency_[worker].holds(variant.model);
  return {&variant.on(problem_->workers[worker].type),
          loaded ? Duration() : problem_->models[variant.model].load};
}

double VariantsLookahead::utility(const Item& item, uint32_t variant, Time finish) const {
  const double accuracy = accuracies_[item.accuracies + variant];
  const plan::Penalty& penalty = problem_->services[item.service].penalty;
  if (finish <= item.deadline) return accuracy * (1 - penalty.on_time());
  return accuracy * (1 - penalty(item.deadline - item.arrival, finish - item.arrival));
}

// The most of 1..`most` items that end by the deadline; 0 where one alone is late.
uint32_t VariantsLookahead::most_by(Time deadline, const RunTimes& run, Time now, uint32_t most) {
  if (now + run(most) <= deadline) return most;
  uint32_t fits = 0, late = most;
  while (late - fits > 1) {
    const uint32_t middle = (fits + late) / 2;
    (now + run(middle) <= deadline ? fits : late) = middle;
  }
  return fits;
}

// When a worker of another type could have answered one request of the service; never where
// workers are alike.
Time VariantsLookahead::soonest_elsewhere(uint32_t service, uint32_t worker, Time now) const {
  Time soonest = Time::infinite();
  if (problem_->worker_types.size() == 1) return soonest;
  const uint32_t own = problem_->workers[worker].type;
  for (uint32_t w = 0; w < problem_->workers.size(); ++w) {
    if (problem_->workers[w].type == own || free_at_[w].is_infinite()) continue;
    for (const plan::GroupVariant& variant : problem_->services[service].variants) {
      if (!residency_[w].fits(variant.model)) continue;
      soonest = std::min(soonest, std::max(now, free_at_[w]) + run_times(variant, w)(1));
    }
  }
  return soonest;
}

// Fills named_: for each of available_ the variant that earns it most, with its share of a
// batch of all, or of as many as leave it on time; kNobody where none earns anything, and where
// it would be late here though another type of worker has time for it.
void VariantsLookahead::name_variants(uint32_t service, uint32_t worker, Time now, double price) {
  const plan::GroupService& app = problem_->services[service];
  price = price_on(worker, service, price);
  named_service_ = service;
  available_.clear();
  for (const uint32_t q : waiting_[service]) {
    if (items_[q].arrival > now) continue;
    available_.push_back(q);
    if (available_.size() == kMostPlanned + kMostExpected) break;
  }
  named_.assign(available_.size(), {kNobody, 0});
  const auto all = static_cast<uint32_t>(available_.size());
  if (all == 0) return;
  const Time elsewhere = soonest_elsewhere(service, worker, now);
  for (uint32_t v = 0; v < app.variants.size(); ++v) {
    if (!residency_[worker].fits(app.variants[v].model)) continue;
    const RunTimes run = run_times(app.variants[v], worker);
    const uint32_t most = std::min(all, run.latency->max_batch());
    uint32_t fits = 0;  // never fewer for who comes later, since deadlines only grow
    uint32_t items = 0;
    Time finish;
    double pays = 0;
    for (size_t i = 0; i < available_.size(); ++i) {
      const Item& item = items_[available_[i]];
      while (fits < most && now + run(fits + 1) <= item.deadline) ++fits;
      if (fits == 0 && elsewhere <= item.deadline) continue;
      if (const uint32_t together = fits > 0 ? fits : most; together != items) {
        items = together;
        finish = now + run(items);
        pays = price * run(items).seconds() / items;
      }
      const double net = utility(item, v, finish) - item.fallback - pays;
      if (net > named_[i].net) named_[i] = {v, net};
    }
  }
}

// What the first `items` that named a variant earn together.
double VariantsLookahead::earned(uint32_t variant, uint32_t items, Time finish) const {
  double sum = 0;
  for (size_t i = 0; i < available_.size() && items > 0; ++i) {
    if (named_[i].variant != variant) continue;
    const Item& item = items_[available_[i]];
    sum += utility(item, variant, finish) - item.fallback;
    --items;
  }
  return sum;
}

bool VariantsLookahead::best_move(uint32_t worker, Time now, double price, Order order, Move& best,
                                  bool of_timeless) {
  bool found = false;
  for (uint32_t a = 0; a < problem_->services.size(); ++a) {
    if (waiting_[a].empty()) continue;
    if (of_timeless && problem_->services[a].penalty.depends_on_time()) continue;
    name_variants(a, worker, now, price);
    if (available_.empty()) continue;
    for (uint32_t v = 0; v < problem_->services[a].variants.size(); ++v) {
      Move move;
      if (!batch_of(a, v, worker, now, price, move)) continue;
      const Time first = items_[move.head].deadline;
      move.rank = order == Order::kUrgency ? static_cast<double>((first - move.run).nanos())
                                           : -move.earned / move.run.seconds();
      if (found && move.rank >= best.rank) continue;
      best = move;
      found = true;
    }
  }
  return found;
}

// Everyone who named the variant, or only as many as leave the first of them on time who can
// be, whichever earns more a second.
bool VariantsLookahead::batch_of(uint32_t service, uint32_t variant, uint32_t worker, Time now,
                                 double price, Move& move) const {
  const auto named_it = [variant](const Named& named) { return named.variant == variant; };
  if (absl::c_none_of(named_, named_it)) return false;
  const RunTimes run_time = run_times(problem_->services[service].variants[variant], worker);
  uint32_t items = 0;
  Time deadline = Time::infinite();
  for (size_t i = 0; i < available_.size(); ++i) {
    if (named_[i].variant != variant) continue;
    if (items++ == 0) move.head = available_[i];
    const Time own = items_[available_[i]].deadline;
    if (own < deadline && now + run_time(1) <= own) deadline = own;
  }
  price = price_on(worker, service, price);
  move.service = service;
  move.variant = variant;
  const auto consider = [&](uint32_t count) {
    const Duration run = run_time(count);
    const double earns = earned(variant, count, now + run) - price * run.seconds();
    if (move.items > 0 && earns * move.run.seconds() <= move.earned * run.seconds()) return;
    move.items = count;
    move.run = run;
    move.earned = earns;
  };
  items = std::min(items, run_time.latency->max_batch());
  consider(items);
  if (const uint32_t fits = most_by(deadline, run_time, now, items); fits < items) consider(fits);
  return move.earned > 0;
}

// Right after best_move, which has named the variants of the last service.
Time VariantsLookahead::run(const Move& move, uint32_t worker, Time now, double price) {
  const plan::GroupVariant& variant = problem_->services[move.service].variants[move.variant];
  const RunTimes run_time = run_times(variant, worker);
  if (named_service_ != move.service) {
    name_variants(move.service, worker, now, price);
  }
  taken_.clear();
  Time limit = Time::infinite();  // of who would be on time as it is
  for (size_t i = 0; i < available_.size() && taken_.size() < move.items; ++i) {
    if (named_[i].variant != move.variant) continue;
    const Time deadline = items_[available_[i]].deadline;
    if (deadline >= now + move.run) limit = std::min(limit, deadline);
    taken_.push_back(available_[i]);
    available_[i] = kNobody;
  }
  const double pays = price_on(worker, move.service, price);
  join(move, run_time, now, limit, pays);
  const auto items = static_cast<uint32_t>(taken_.size());
  const Time finish = now + run_time(items);
  const bool load = residency_[worker].use(variant.model);
  const auto first = static_cast<uint32_t>(played_.requests.size());
  for (const uint32_t q : taken_) {
    const Item& item = items_[q];
    const double worth = utility(item, move.variant, finish);
    value_ += worth;
    if (!item.real) continue;
    real_value_ += worth;
    played_.requests.push_back(q);
    played_.expected_accuracy[q] = accuracies_[item.accuracies + move.variant];
  }
  const auto count = static_cast<uint32_t>(played_.requests.size()) - first;
  if (count > 0) {
    played_.batches.push_back(
        {worker, move.service, move.variant, first, count, load, now, finish, pays});
  }
  value_ -= std::max(sustained_price_, least_price(move.service)) * (finish - now).seconds() *
            time_.seconds_of(problem_->workers[worker].type);
  forget_taken(move.service);
  return finish;
}

// Others of the service, in the order of their deadlines, whom the batch serves for less
// than their own choice would cost, and who make nobody in it late.
void VariantsLookahead::join(const Move& move, const RunTimes& run_time, Time now, Time limit,
                             double price) {
  const uint32_t most = run_time.latency->max_batch();
  Duration run = run_time(static_cast<uint32_t>(taken_.size()));
  for (size_t i = 0; i < available_.size() && taken_.size() < most; ++i) {
    if (available_[i] == kNobody) continue;
    const Item& item = items_[available_[i]];
    const Duration longer = run_time(static_cast<uint32_t>(taken_.size()) + 1);
    if (now + longer > limit) return;
    const double net = utility(item, move.variant, now + longer) - item.fallback -
                       price * (longer - run).seconds();
    if (net <= named_[i].net) continue;
    taken_.push_back(available_[i]);
    if (item.deadline >= now + longer) limit = std::min(limit, item.deadline);
    run = longer;
  }
}

void VariantsLookahead::forget_taken(uint32_t service) {
  for (const uint32_t q : taken_) items_[q].taken = true;
  std::erase_if(waiting_[service], [this](uint32_t q) { return items_[q].taken; });
  for (const uint32_t q : taken_) items_[q].taken = false;
}

Time VariantsLookahead::next_arrival(Time after) const {
  Time next = Time::infinite();
  for (const auto& items : waiting_) {
    for (const uint32_t q : items) {
      if (items_[q].arrival > after) next = std::min(next, items_[q].arrival);
    }
  }
  return next;
}

// Who no variant earns anything any more: short-circuited, or left to `finish`.
void VariantsLookahead::leave_the_rest() {
  for (const auto& items : waiting_) {
    for (const uint32_t q : items) {
      const Item& item = items_[q];
      value_ += item.fallback;
      if (!item.real || !item.short_circuit) continue;
      real_value_ += item.fallback;
      played_.short_circuited.push_back(q);
      played_.expected_accuracy[q] = problem_->services[item.service].short_circuit->accuracy;
    }
  }
  played_.utility =
      problem_->requests.empty() ? 0 : real_value_ / static_cast<double>(problem_->requests.size());
}

}  // namespace fermata::policy

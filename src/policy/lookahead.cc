#include "policy/lookahead.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "estimate/posterior.h"

namespace fermata::policy {
namespace {

// Of the price unit. Beyond 8 only the fastest variants are ever named.
constexpr std::array kPrices = {0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0};
constexpr size_t kConsidered = 64;    // waiting requests of one application, for one move
constexpr size_t kMostExpected = 32;  // of one application
constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

}  // namespace

const GroupSchedule& LookaheadPlanner::plan(const GroupProblem& problem,
                                            std::span<const ExpectedArrivals> expected) {
  read(problem, expected);
  const double unit = price_unit();
  double most = -1;
  for (const Order order : {Order::kUrgency, Order::kEarnings}) {
    for (const double price : kPrices) {
      const double value = play(price * unit, order);
      if (value <= most) continue;
      most = value;
      std::swap(best_, played_);
    }
  }
  finish();
  return best_;
}

void LookaheadPlanner::read(const GroupProblem& problem,
                            std::span<const ExpectedArrivals> expected) {
  problem_ = &problem;
  queries_.clear();
  accuracies_.clear();
  by_deadline_.resize(problem.applications.size());
  for (auto& queries : by_deadline_) queries.clear();
  for (const GroupRequest& request : problem.requests) add_request(request);
  for (uint32_t a = 0; a < expected.size(); ++a) add_expected(a, expected[a]);
  for (auto& queries : by_deadline_) {
    std::stable_sort(queries.begin(), queries.end(), [this](uint32_t a, uint32_t b) {
      return queries_[a].deadline < queries_[b].deadline;
    });
  }
}

void LookaheadPlanner::add_request(const GroupRequest& request) {
  const GroupApplication& application = problem_->applications[request.application];
  Query query{request.arrival, request.deadline, request.application,
              static_cast<uint32_t>(accuracies_.size())};
  const bool aware = request.evidence.has_value() && problem_->data_aware.value_or(true);
  if (aware) {
    theta_.resize(application.prior.size());
    estimate::posterior_mean(
        application.prior,
        std::span(problem_->evidence).subspan(*request.evidence, application.prior.size()), theta_);
  }
  for (const GroupVariant& variant : application.variants) {
    accuracies_.push_back(aware && !variant.recall.empty()
                              ? estimate::expected_accuracy(theta_, variant.recall)
                              : variant.accuracy);
  }
  if (request.evidence && application.short_circuit && problem_->short_circuit.value_or(true)) {
    const double late =
        application.penalty(query.deadline - query.arrival, problem_->now - query.arrival);
    query.fallback = application.short_circuit->accuracy * (1 - late);
    query.short_circuit = true;
  }
  add(query);
}

// Those that come before the last of the waiting ones would have to be answered.
void LookaheadPlanner::add_expected(uint32_t a, const ExpectedArrivals& expected) {
  if (!(expected.rate_rps > 0) || expected.slo.is_infinite()) return;
  const GroupApplication& application = problem_->applications[a];
  const Duration gap = Duration::from_seconds(1 / expected.rate_rps);
  const auto accuracies = static_cast<uint32_t>(accuracies_.size());
  for (const GroupVariant& variant : application.variants) accuracies_.push_back(variant.accuracy);
  Time arrival = problem_->now + gap;
  for (size_t i = 0; i < kMostExpected && arrival < problem_->now + expected.slo; ++i) {
    Query query{arrival, arrival + expected.slo, a, accuracies};
    query.real = false;
    if (application.short_circuit && problem_->short_circuit.value_or(true)) {
      query.fallback = application.short_circuit->accuracy * (1 - application.penalty.on_time());
    }
    add(query);
    arrival = arrival + gap;
  }
}

void LookaheadPlanner::add(const Query& query) {
  by_deadline_[query.application].push_back(static_cast<uint32_t>(queries_.size()));
  queries_.push_back(query);
}

// What a second earns by which one request gets the most accurate variant rather than the
// fastest; the largest of the applications.
double LookaheadPlanner::price_unit() const {
  double unit = 0;
  for (const GroupApplication& application : problem_->applications) {
    double least = 1, most = 0, fastest = 1e9, slowest = 0;
    for (const GroupVariant& variant : application.variants) {
      const double run = (*variant.latency[0])(1).seconds();
      least = std::min(least, variant.accuracy);
      most = std::max(most, variant.accuracy);
      fastest = std::min(fastest, run);
      slowest = std::max(slowest, run);
    }
    unit = std::max(unit, slowest > fastest ? (most - least) / (slowest - fastest) : 1 / slowest);
  }
  return unit;
}

double LookaheadPlanner::play(double price, Order order) {
  const GroupProblem& problem = *problem_;
  waiting_ = by_deadline_;
  free_at_.clear();
  residency_.resize(problem.workers.size());
  for (size_t w = 0; w < problem.workers.size(); ++w) {
    free_at_.push_back(std::max(problem.now, problem.workers[w].free_at));
    residency_[w].reset(problem.workers[w], problem.models);
  }
  played_.batches.clear();
  played_.requests.clear();
  played_.short_circuited.clear();
  played_.expected_accuracy.assign(problem.requests.size(), 0);
  value_ = real_value_ = 0;
  while (true) {
    const auto worker = static_cast<uint32_t>(std::min_element(free_at_.begin(), free_at_.end()) -
                                              free_at_.begin());
    const Time now = free_at_[worker];
    Move move;
    if (best_move(worker, now, price, order, move)) {
      run(move, worker, now, price);
    } else if (const Time next = next_arrival(now); !next.is_infinite()) {
      free_at_[worker] = next;
    } else if (best_move(worker, now, 0, order, move)) {
      run(move, worker, now, 0);
    } else {
      break;
    }
  }
  leave_the_rest();
  return value_;
}

Duration LookaheadPlanner::run_time(const GroupVariant& variant, uint32_t worker,
                                    uint32_t items) const {
  const uint32_t type = variant.latency.size() > 1 ? problem_->workers[worker].type : 0;
  const Duration run = (*variant.latency[type])(items);
  const bool loaded = residency_[worker].holds(variant.model);
  return loaded ? run : run + problem_->models[variant.model].load;
}

uint32_t LookaheadPlanner::max_batch(const GroupVariant& variant, uint32_t worker) const {
  return variant.latency[variant.latency.size() > 1 ? problem_->workers[worker].type : 0]
      ->max_batch();
}

double LookaheadPlanner::utility(const Query& query, uint32_t variant, Time finish) const {
  const double accuracy = accuracies_[query.accuracies + variant];
  const Penalty& penalty = problem_->applications[query.application].penalty;
  if (finish <= query.deadline) return accuracy * (1 - penalty.on_time());
  return accuracy * (1 - penalty(query.deadline - query.arrival, finish - query.arrival));
}

// Fills named_: for each of available_ the variant that earns it most, alone with its
// share of a batch of all; kNobody where none earns anything.
void LookaheadPlanner::name_variants(uint32_t application, uint32_t worker, Time now,
                                     double price) {
  const GroupApplication& app = problem_->applications[application];
  available_.clear();
  for (const uint32_t q : waiting_[application]) {
    if (queries_[q].arrival > now) continue;
    available_.push_back(q);
    if (available_.size() == kConsidered) break;
  }
  named_.assign(available_.size(), {kNobody, 0});
  const auto all = static_cast<uint32_t>(available_.size());
  if (all == 0) return;
  for (uint32_t v = 0; v < app.variants.size(); ++v) {
    if (!residency_[worker].fits(app.variants[v].model)) continue;
    const uint32_t items = std::min(all, max_batch(app.variants[v], worker));
    const Duration run = run_time(app.variants[v], worker, items);
    const double share = price * run.seconds() / items;
    for (size_t i = 0; i < available_.size(); ++i) {
      const Query& query = queries_[available_[i]];
      const double net = utility(query, v, now + run) - query.fallback - share;
      if (net > named_[i].net) named_[i] = {v, net};
    }
  }
}

// What the first `items` that named a variant earn together.
double LookaheadPlanner::earned(uint32_t variant, uint32_t items, Time finish) const {
  double sum = 0;
  for (size_t i = 0; i < available_.size() && items > 0; ++i) {
    if (named_[i].variant != variant) continue;
    const Query& query = queries_[available_[i]];
    sum += utility(query, variant, finish) - query.fallback;
    --items;
  }
  return sum;
}

bool LookaheadPlanner::best_move(uint32_t worker, Time now, double price, Order order, Move& best) {
  bool found = false;
  for (uint32_t a = 0; a < problem_->applications.size(); ++a) {
    if (waiting_[a].empty()) continue;
    name_variants(a, worker, now, price);
    for (uint32_t v = 0; v < problem_->applications[a].variants.size(); ++v) {
      Move move;
      if (!batch_of(a, v, worker, now, price, move)) continue;
      const Time first = queries_[move.head].deadline;
      move.rank = order == Order::kUrgency ? static_cast<double>((first - move.run).nanos())
                                           : -move.earned / move.run.seconds();
      if (found && move.rank >= best.rank) continue;
      best = move;
      found = true;
    }
  }
  return found;
}

// Everyone who named the variant, or only as many as leave the first of them on time,
// whichever earns more a second.
bool LookaheadPlanner::batch_of(uint32_t application, uint32_t variant, uint32_t worker, Time now,
                                double price, Move& move) const {
  const GroupVariant& v = problem_->applications[application].variants[variant];
  uint32_t items = 0;
  for (size_t i = 0; i < available_.size(); ++i) {
    if (named_[i].variant != variant) continue;
    if (items++ == 0) move.head = available_[i];
  }
  if (items == 0) return false;
  move.application = application;
  move.variant = variant;
  const auto consider = [&](uint32_t count) {
    const Duration run = run_time(v, worker, count);
    const double earns = earned(variant, count, now + run) - price * run.seconds();
    if (move.items > 0 && earns * move.run.seconds() <= move.earned * run.seconds()) return;
    move.items = count;
    move.run = run;
    move.earned = earns;
  };
  items = std::min(items, max_batch(v, worker));
  consider(items);
  const Time deadline = queries_[move.head].deadline;
  if (now + move.run > deadline && now + run_time(v, worker, 1) <= deadline) {
    uint32_t fits = 1, late = items;
    while (late - fits > 1) {
      const uint32_t middle = (fits + late) / 2;
      (now + run_time(v, worker, middle) <= deadline ? fits : late) = middle;
    }
    consider(fits);
  }
  return move.earned > 0;
}

void LookaheadPlanner::run(const Move& move, uint32_t worker, Time now, double price) {
  const GroupVariant& variant = problem_->applications[move.application].variants[move.variant];
  name_variants(move.application, worker, now, price);
  taken_.clear();
  Time limit = Time::infinite();  // of who would be on time as it is
  for (size_t i = 0; i < available_.size() && taken_.size() < move.items; ++i) {
    if (named_[i].variant != move.variant) continue;
    const Time deadline = queries_[available_[i]].deadline;
    if (deadline >= now + move.run) limit = std::min(limit, deadline);
    taken_.push_back(available_[i]);
    available_[i] = kNobody;
  }
  join(move, variant, worker, now, limit, price);
  const auto items = static_cast<uint32_t>(taken_.size());
  const Time finish = now + run_time(variant, worker, items);
  const bool load = residency_[worker].use(variant.model);
  const auto first = static_cast<uint32_t>(played_.requests.size());
  for (const uint32_t q : taken_) {
    const Query& query = queries_[q];
    const double worth = utility(query, move.variant, finish);
    value_ += worth;
    if (!query.real) continue;
    real_value_ += worth;
    played_.requests.push_back(q);
    played_.expected_accuracy[q] = accuracies_[query.accuracies + move.variant];
  }
  const auto count = static_cast<uint32_t>(played_.requests.size()) - first;
  if (count > 0) {
    played_.batches.push_back(
        {worker, move.application, move.variant, first, count, load, now, finish});
  }
  free_at_[worker] = finish;
  forget_taken(move.application);
}

// Others of the application, in the order of their deadlines, whom the batch serves for less
// than their own choice would cost, and who make nobody in it late.
void LookaheadPlanner::join(const Move& move, const GroupVariant& variant, uint32_t worker,
                            Time now, Time limit, double price) {
  const uint32_t most = max_batch(variant, worker);
  Duration run = run_time(variant, worker, static_cast<uint32_t>(taken_.size()));
  for (size_t i = 0; i < available_.size() && taken_.size() < most; ++i) {
    if (available_[i] == kNobody) continue;
    const Query& query = queries_[available_[i]];
    const Duration longer = run_time(variant, worker, static_cast<uint32_t>(taken_.size()) + 1);
    if (now + longer > limit) return;
    const double net = utility(query, move.variant, now + longer) - query.fallback -
                       price * (longer - run).seconds();
    if (net <= named_[i].net) continue;
    taken_.push_back(available_[i]);
    if (query.deadline >= now + longer) limit = std::min(limit, query.deadline);
    run = longer;
  }
}

void LookaheadPlanner::forget_taken(uint32_t application) {
  for (const uint32_t q : taken_) queries_[q].taken = true;
  std::erase_if(waiting_[application], [this](uint32_t q) { return queries_[q].taken; });
  for (const uint32_t q : taken_) queries_[q].taken = false;
}

Time LookaheadPlanner::next_arrival(Time after) const {
  Time next = Time::infinite();
  for (const auto& queries : waiting_) {
    for (const uint32_t q : queries) {
      if (queries_[q].arrival > after) next = std::min(next, queries_[q].arrival);
    }
  }
  return next;
}

// Who no variant earns anything any more: short-circuited, or left to `finish`.
void LookaheadPlanner::leave_the_rest() {
  for (const auto& queries : waiting_) {
    for (const uint32_t q : queries) {
      const Query& query = queries_[q];
      value_ += query.fallback;
      if (!query.real || !query.short_circuit) continue;
      real_value_ += query.fallback;
      played_.short_circuited.push_back(q);
      played_.expected_accuracy[q] =
          problem_->applications[query.application].short_circuit->accuracy;
    }
  }
  played_.utility =
      problem_->requests.empty() ? 0 : real_value_ / static_cast<double>(problem_->requests.size());
}

// Every request is served: those that are worth nothing any more come last. Batches by worker.
void LookaheadPlanner::finish() {
  const GroupProblem& problem = *problem_;
  served_.assign(problem.requests.size(), false);
  for (const uint32_t q : best_.requests) served_[q] = true;
  for (const uint32_t q : best_.short_circuited) served_[q] = true;
  for (size_t w = 0; w < problem.workers.size(); ++w) {
    free_at_[w] = std::max(problem.now, problem.workers[w].free_at);
    residency_[w].reset(problem.workers[w], problem.models);
  }
  for (const GroupBatch& batch : best_.batches) {
    free_at_[batch.worker] = batch.finish;
    residency_[batch.worker].use(
        problem.applications[batch.application].variants[batch.variant].model);
  }
  for (uint32_t q = 0; q < problem.requests.size(); ++q) {
    if (!served_[q]) serve_last(q);
  }
  std::sort(best_.short_circuited.begin(), best_.short_circuited.end());
  std::stable_sort(best_.batches.begin(), best_.batches.end(),
                   [](const GroupBatch& a, const GroupBatch& b) { return a.worker < b.worker; });
}

// Alone, by the variant that ends first, on the worker that is free first.
void LookaheadPlanner::serve_last(uint32_t q) {
  const GroupRequest& request = problem_->requests[q];
  const GroupApplication& application = problem_->applications[request.application];
  const auto worker =
      static_cast<uint32_t>(std::min_element(free_at_.begin(), free_at_.end()) - free_at_.begin());
  uint32_t fastest = 0;
  for (uint32_t v = 1; v < application.variants.size(); ++v) {
    if (run_time(application.variants[v], worker, 1) <
        run_time(application.variants[fastest], worker, 1)) {
      fastest = v;
    }
  }
  const Time start = free_at_[worker];
  const Time finish = start + run_time(application.variants[fastest], worker, 1);
  const bool load = residency_[worker].use(application.variants[fastest].model);
  best_.batches.push_back({worker, request.application, fastest,
                           static_cast<uint32_t>(best_.requests.size()), 1, load, start, finish});
  best_.requests.push_back(q);
  best_.expected_accuracy[q] = accuracies_[queries_[q].accuracies + fastest];
  free_at_[worker] = finish;
}

}  // namespace fermata::policy

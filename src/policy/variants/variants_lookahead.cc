#include "policy/variants/variants_lookahead.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/algorithm/container.h"
#include "base/check.h"

namespace fermata::policy {
namespace {

// Of the price unit.
constexpr std::array kPrices = {0.0, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0, 16.0};
constexpr size_t kMostPlayed = 192;  // items of all plays of one decision that follows

bool is_timeless(const plan::GroupService& service) { return !service.penalty.depends_on_time(); }

double expected_accuracy(const plan::ExpectedArrivals& expected, const plan::GroupService& service,
                         size_t request, uint32_t variant) {
  if (expected.accuracies.empty()) return service.variants[variant].accuracy;
  return expected.accuracies[request * service.variants.size() + variant];
}

}  // namespace

const plan::GroupSchedule& VariantsLookahead::plan(const plan::GroupProblem& problem) {
  read(problem);
  most_ = -std::numeric_limits<double>::infinity();
  problem.expected.empty() ? try_all_prices() : try_few_prices();
  finish();
  return best_;
}

void VariantsLookahead::try_all_prices() {
  for (size_t price = 0; price < kPrices.size(); ++price) {
    for (const Order order : {Order::kUrgency, Order::kEarnings}) consider(price, order);
  }
}

void VariantsLookahead::try_few_prices() {
  constexpr size_t kOthers = 2 * kPrices.size();
  next_ = problem_->last_tried;
  consider(std::min<size_t>(problem_->last_price, kPrices.size() - 1), Order::kUrgency);
  const size_t plays =
      std::clamp<size_t>(kMostPlayed / std::max<size_t>(items_.size(), 1), 2, kOthers);
  for (size_t i = 1; i < plays; ++i) {
    next_ = (next_ + 1) % kOthers;
    consider(next_ / 2, next_ % 2 == 0 ? Order::kUrgency : Order::kEarnings);
  }
}

void VariantsLookahead::consider(size_t price, Order order) {
  const double value = play(kPrices[price] * price_unit_, order);
  if (value <= most_) return;
  most_ = value;
  near_ = price;
  std::swap(best_, played_);
}

void VariantsLookahead::read(const plan::GroupProblem& problem) {
  problem_ = &problem;
  items_.clear();
  accuracies_.clear();
  by_deadline_.resize(problem.services.size());
  for (auto& items : by_deadline_) items.clear();
  time_.clear(problem.workers[0].type, problem.worker_types.size(), problem.others_price);
  for (const plan::GroupService& service : problem.services) {
    for (const plan::GroupVariant& variant : service.variants) time_.add(variant.latency);
  }
  measure_items();
  sustained_price_ = price_of_all_ = sustained_price(false);
  if (absl::c_any_of(problem.services, is_timeless)) price_of_all_ = sustained_price(true);
  price_unit_ = sustained_price_ > 0 ? sustained_price_ : price_unit();
  asked_.assign(problem.services.size(), time_.others());
  for (const plan::GroupRequest& request : problem.requests) {
    add_request(request);
    add_pressure(request);
  }
  for (uint32_t a = 0; a < problem.expected.size(); ++a) add_expected(a);
  for (auto& items : by_deadline_) {
    std::stable_sort(items.begin(), items.end(), [this](uint32_t a, uint32_t b) {
      return items_[a].deadline < items_[b].deadline;
    });
  }
}

void VariantsLookahead::add_request(const plan::GroupRequest& request) {
  const plan::GroupService& service = problem_->services[request.service];
  Item item{request.arrival, request.deadline, request.service,
            static_cast<uint32_t>(accuracies_.size())};
  const bool aware = problem_->data_aware.value_or(true);
  belief_.set(service.prior, aware ? problem_->evidence_of(request) : std::span<const double>());
  for (const plan::GroupVariant& variant : service.variants) {
    accuracies_.push_back(belief_.accuracy(variant.accuracy, variant.recall));
  }
  if (request.evidence && service.short_circuit && problem_->short_circuit.value_or(true)) {
    const double late = service.penalty(item.deadline - item.arrival, problem_->now - item.arrival);
    item.fallback = service.short_circuit->accuracy * (1 - late);
    item.short_circuit = true;
  }
  add(item);
}

void VariantsLookahead::add_pressure(const plan::GroupRequest& request) {
  if (!is_timeless(problem_->services[request.service])) return;
  const Duration slo = request.deadline - request.arrival, waited = problem_->now - request.arrival;
  if (waited <= slo) return;
  double& asked = asked_[request.service];
  asked = std::max(asked, price_of_all_ * waited.seconds() / slo.seconds());
}

// Those that come before the last of the waiting ones would have to be answered.
void VariantsLookahead::add_expected(uint32_t a) {
  const plan::ExpectedArrivals& expected = problem_->expected[a];
  if (!(expected.rate_rps > 0) || expected.slo.is_infinite()) return;
  const plan::GroupService& service = problem_->services[a];
  const Duration gap = Duration::from_seconds(1 / expected.rate_rps);
  const auto accuracies = static_cast<uint32_t>(accuracies_.size());
  const auto variants = static_cast<uint32_t>(service.variants.size());
  const size_t rows = std::max<size_t>(expected.accuracies.size() / variants, 1);
  for (size_t row = 0; row < rows; ++row) {
    for (uint32_t v = 0; v < variants; ++v) {
      accuracies_.push_back(expected_accuracy(expected, service, row, v));
    }
  }
  Time arrival = problem_->now + gap;
  for (size_t i = 0; i < kMostExpected && arrival < problem_->now + expected.slo; ++i) {
    const auto row = static_cast<uint32_t>(i % rows);
    Item item{arrival, arrival + expected.slo, a, accuracies + row * variants};
    item.real = false;
    if (service.short_circuit && problem_->short_circuit.value_or(true)) {
      item.fallback = service.short_circuit->accuracy * (1 - service.penalty.on_time());
    }
    add(item);
    arrival = arrival + gap;
  }
}

void VariantsLookahead::add(const Item& item) {
  by_deadline_[item.service].push_back(static_cast<uint32_t>(items_.size()));
  items_.push_back(item);
}

// What a second earns by which one request gets the most accurate variant rather than the
// fastest; the largest of the services.
double VariantsLookahead::price_unit() const {
  double unit = 0;
  for (const plan::GroupService& service : problem_->services) {
    double least = 1, most = 0, fastest = 1e9, slowest = 0;
    for (const plan::GroupVariant& variant : service.variants) {
      const double run = variant.on(first_type())(1).seconds();
      least = std::min(least, variant.accuracy);
      most = std::max(most, variant.accuracy);
      fastest = std::min(fastest, run);
      slowest = std::max(slowest, run);
    }
    if (slowest == 0) continue;
    const bool differ = slowest > fastest && most > least;
    unit = std::max(unit, differ ? (most - least) / (slowest - fastest) : 1 / slowest);
  }
  return unit;
}

// How many workers of the first one's type do as much as all of them; prices are of their seconds.
double VariantsLookahead::first_type_workers() const {
  double sum = 0;
  for (const plan::GroupWorker& worker : problem_->workers) sum += time_.seconds_of(worker.type);
  return sum;
}

// The least at which the workers keep up with what comes and what waits, in efficient batches.
// Those whom time costs nothing take what the others leave, or are among them.
double VariantsLookahead::sustained_price(bool timeless) const {
  const double workers = WorkerTime::kBusy * first_type_workers() - problem_->others;
  const auto work_at = [&](double price) { return work(price, timeless); };
  return WorkerTime::sustained(workers, 64 * price_unit(), work_at).keeps;
}

double VariantsLookahead::least_price(uint32_t service) const {
  return WorkerTime::least(asked_[service], earns_[service]);
}

// What one of its own services pays for a second of the worker.
double VariantsLookahead::price_on(uint32_t worker, uint32_t service, double price) const {
  return time_.paid(price, least_price(service)) * time_.seconds_of(problem_->workers[worker].type);
}

void VariantsLookahead::measure_items() {
  item_seconds_.clear();
  earns_.assign(problem_->services.size(), 0);
  for (size_t a = 0; a < problem_->expected.size(); ++a) {
    const auto& evidence = problem_->services[a].short_circuit;
    const double fallback = evidence ? evidence->accuracy : 0;
    for (const plan::GroupVariant& variant : problem_->services[a].variants) {
      const LatencyTable& latency = variant.on(first_type());
      item_seconds_.push_back(WorkerTime::seconds_of_item(latency, problem_->expected[a].slo));
      const double gain = variant.accuracy - fallback;
      const Duration alone = latency(1) + problem_->models[variant.model].load;
      earns_[a] = std::max(earns_[a], gain / alone.seconds());
    }
  }
}

// Seconds of a worker that a second takes, where everybody names a variant at this price.
double VariantsLookahead::work(double price, bool timeless) const {
  double sum = 0;
  const double* items = item_seconds_.data();
  for (size_t a = 0; a < problem_->expected.size(); ++a) {
    const plan::ExpectedArrivals& e = problem_->expected[a];
    const plan::GroupService& service = problem_->services[a];
    const auto variants = static_cast<uint32_t>(service.variants.size());
    const bool pays = timeless || !is_timeless(service);
    if (pays && !e.slo.is_infinite() && e.slo > Duration()) {
      const double fallback = service.short_circuit ? service.short_circuit->accuracy : 0;
      const size_t rows = std::max<size_t>(e.accuracies.size() / variants, 1);
      double named = 0;
      for (size_t row = 0; row < rows; ++row) {
        double most = fallback, own = 0;
        for (uint32_t v = 0; v < variants; ++v) {
          const double net = expected_accuracy(e, service, row, v) - price * items[v];
          if (net > most) {
            most = net;
            own = items[v];
          }
        }
        named += own;
      }
      const double requests = is_timeless(service)
                                  ? e.rate_rps
                                  : WorkerTime::to_keep_up_with(e.rate_rps, e.waiting, e.slo);
      sum += requests * named / static_cast<double>(rows);
    }
    items += variants;
  }
  return sum;
}

// Every request is served: those that are worth nothing any more come last. Batches by worker.
void VariantsLookahead::finish() {
  const plan::GroupProblem& problem = *problem_;
  served_.assign(problem.requests.size(), false);
  for (const uint32_t q : best_.requests) served_[q] = true;
  for (const uint32_t q : best_.short_circuited) served_[q] = true;
  for (size_t w = 0; w < problem.workers.size(); ++w) {
    free_at_[w] = std::max(problem.now, problem.workers[w].free_at);
    residency_[w].reset(problem.workers[w], problem.models);
  }
  for (const plan::GroupBatch& batch : best_.batches) {
    free_at_[batch.worker] = batch.finish;
    residency_[batch.worker].use(problem.services[batch.service].variants[batch.variant].model);
  }
  for (uint32_t q = 0; q < problem.requests.size() && best_.feasible; ++q) {
    if (!served_[q]) serve_last(q);
  }
  if (!best_.feasible) return clear(best_);
  std::sort(best_.short_circuited.begin(), best_.short_circuited.end());
  std::stable_sort(
      best_.batches.begin(), best_.batches.end(),
      [](const plan::GroupBatch& a, const plan::GroupBatch& b) { return a.worker < b.worker; });
}

// Alone, where it ends first.
void VariantsLookahead::serve_last(uint32_t q) {
  const plan::GroupRequest& request = problem_->requests[q];
  const plan::GroupService& service = problem_->services[request.service];
  plan::GroupBatch batch{.service = request.service,
                         .first = static_cast<uint32_t>(best_.requests.size()),
                         .count = 1,
                         .finish = Time::infinite()};
  for (uint32_t w = 0; w < problem_->workers.size(); ++w) {
    for (uint32_t v = 0; v < service.variants.size(); ++v) {
      if (!residency_[w].fits(service.variants[v].model)) continue;
      const Time finish = free_at_[w] + run_times(service.variants[v], w)(1);
      if (finish >= batch.finish) continue;
      batch.worker = w;
      batch.variant = v;
      batch.finish = finish;
    }
  }
  if (batch.finish.is_infinite()) {
    best_.feasible = false;
    best_.unserved = request.service;
    return;
  }
  batch.start = free_at_[batch.worker];
  batch.load = residency_[batch.worker].use(service.variants[batch.variant].model);
  free_at_[batch.worker] = batch.finish;
  best_.batches.push_back(batch);
  best_.requests.push_back(q);
  best_.expected_accuracy[q] = accuracies_[items_[q].accuracies + batch.variant];
  best_.utility += utility(items_[q], batch.variant, batch.finish) /
                   static_cast<double>(problem_->requests.size());
}

}  // namespace fermata::policy

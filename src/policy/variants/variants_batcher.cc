#include "policy/variants/variants_batcher.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "policy/batch/instants.h"
#include "policy/pool/account.h"

namespace fermata::policy {
namespace {

constexpr size_t kMostPlanned = VariantsLookahead::kMostPlanned;
constexpr size_t kMostWorkers = 4;  // of a larger pool as many stand for all
constexpr size_t kMostUrgent = 8;   // of which one says how urgent an offer is
constexpr double kMostSlos = 8;  // that a request waits whom lateness costs nothing, with evidence

}  // namespace

VariantsBatcher::VariantsBatcher(KeyId key, DelayBound delay, const PoolView& pool,
                                 const ServiceSettings& settings)
    : SharedBatcher(key, delay, pool), settings_(settings), queue_(pool) {}

void VariantsBatcher::add_service(KeyId key, const ServiceInfo& info) {
  VariantsInfo seen = std::get<VariantsInfo>(info);
  if (!settings_.data_aware.value_or(true)) {
    for (VariantInfo& variant : seen.variants) variant.recall.clear();
  }
  if (!settings_.short_circuit.value_or(true)) seen.short_circuit.reset();
  queue_.add_service(key, seen);
}

void VariantsBatcher::nominated(const Task& task, Time now) {
  FERMATA_CHECK(task.items == 1);
  Waiting& waiting = queue_.insert(task, now);
  queue_.set_moment(waiting, last_moment(waiting));
  declined_.look_again(now);
}

void VariantsBatcher::learned(const Task& task, const Estimate& estimate, Time now,
                              Decisions& out) {
  const auto* evidence = std::get_if<Evidence>(&estimate);
  Waiting* waiting = evidence == nullptr ? nullptr : queue_.learned(task, *evidence);
  if (waiting == nullptr) return;
  if (knows_better(*waiting)) {
    queue_.erase(task);
    out.concluded.push_back({.task = task});
  } else {
    queue_.set_moment(*waiting, last_moment(*waiting));
  }
  declined_.look_again(now);
  end_the_late(now, out);
  update(now);
}

void VariantsBatcher::tick(Time now, Decisions& out) {
  end_the_late(now, out);
  update(now);
}

bool VariantsBatcher::latency_changed(KeyId key, Time now) {
  if (!queue_.latency_changed(key)) return false;
  for (const auto& [_, known] : queue_.waiting()) {
    Waiting& waiting = *queue_.find(known.task);
    queue_.set_moment(waiting, last_moment(waiting));
  }
  update(now);
  return true;
}

// Whether the evidence model is more often right than any variant would be, on this data.
bool VariantsBatcher::knows_better(const Waiting& w) {
  const plan::GroupService& service = queue_.services()[w.service];
  if (!service.short_circuit) return false;
  for (uint32_t v = 0; v < service.variants.size(); ++v) {
    if (queue_.accuracy(w, v) > service.short_circuit->accuracy) return false;
  }
  return true;
}

bool VariantsBatcher::short_circuits(const Waiting& w) const {
  return !w.evidence.empty() && queue_.services()[w.service].short_circuit.has_value();
}

// From then on nothing is worth anything to the task, or its short circuit, which can be on time,
// would be late, however little that costs: but for the delay until a decision is carried out.
Time VariantsBatcher::last_moment(const Waiting& w) const {
  const Time deadline = w.task.deadline;
  if (deadline.is_infinite()) return deadline;
  const plan::GroupService& service = queue_.services()[w.service];
  const plan::Penalty& penalty = service.penalty;
  if (!penalty.depends_on_time()) return short_circuits(w) ? deadline : Time::infinite();
  const Duration grace =
      penalty.shape == plan::PenaltyShape::kStep ? kTick : deadline - w.task.arrival;
  const Time of_use = deadline + grace - queue_.fastest(w.service);
  if (short_circuits(w)) return std::min(deadline, of_use);
  // Evidence may still come, and answer.
  return service.short_circuit ? std::max(deadline, of_use) : of_use;
}

// Lateness costs it nothing, and at the price of worker time some variant is worth more than the
// evidence's answer: the longer it has waited, the dearer is time, as the planner has it.
bool VariantsBatcher::waits_on(const Waiting& w, Time now) {
  const plan::GroupService& service = queue_.services()[w.service];
  if (service.penalty.depends_on_time()) return false;
  const Duration slo = std::max(w.task.deadline - w.task.arrival, kTick);
  const double pressure = std::max(1.0, (now - w.task.arrival).seconds() / slo.seconds());
  // Whoever else has the workers keeps them.
  if (std::round(pressure) >= kMostSlos) return false;
  for (uint32_t v = 0; v < service.variants.size(); ++v) {
    const LatencyTable& latency = *service.variants[v].latency.front();
    const double seconds = latency(latency.max_batch()).seconds() / latency.max_batch();
    const double cost = pressure * planner_.price_of_all() * seconds;
    if (queue_.accuracy(w, v) - cost > service.short_circuit->accuracy) return true;
  }
  return false;
}

void VariantsBatcher::end_the_late(Time now, Decisions& out) {
  while (queue_.first_moment() <= now + delay_(1)) {
    Waiting& w = queue_.first_due();
    const Task task = w.task;
    if (short_circuits(w) && waits_on(w, now)) {
      queue_.set_moment(w, now + delay_(1) + std::max(task.deadline - task.arrival, kTick));
      continue;
    }
    if (short_circuits(w)) {
      out.concluded.push_back({.task = task, .at_last = true});
    } else {
      out.dropped.push_back({task, Duration(), queue_.fastest(w.service), delay_(1)});
    }
    queue_.erase(task);
  }
}

void VariantsBatcher::update(Time now) {
  const Time moment = queue_.first_moment();
  wake_ = moment.is_infinite() ? moment : moment - delay_(1);
  renew(now, queue_.waiting().size());
  wake_ = std::min(wake_, declined_.until());
  if (queue_.waiting().empty()) return;
  const Waiting& first = queue_.waiting().begin()->second;
  if (first.task.deadline.is_infinite()) return offer_best_effort(now);
  offer_.run = queue_.fastest(first.service);
  offer_.urgency = urgency(now);
  if (offer_.urgency == kLast) return;
  const auto& [last, waiting] = *std::prev(queue_.first_in_time(Time::infinite()));
  set_waiting(queue_.urgent(), offer_.urgency, last.deadline - queue_.fastest(waiting.service));
}

// Of the first that can still be on time. Where all are late, those of other services who are
// not come first; and so they do where nobody has a deadline to compare.
Time VariantsBatcher::urgency(Time now) const {
  size_t looked = 0;
  for (auto it = queue_.first_in_time(now); it != queue_.waiting().end(); ++it) {
    if (it->first.deadline.is_infinite() || looked++ == kMostUrgent) break;
    const Time start = it->first.deadline - queue_.fastest(it->second.service);
    if (start >= now) return start;
  }
  return kLast;
}

void VariantsBatcher::offer_best_effort(Time now) {
  offer_.run = offer_.least = Duration();
  const plan::GroupService& service = queue_.services()[queue_.waiting().begin()->second.service];
  for (const plan::GroupVariant& variant : service.variants) {
    for (const auto& latency : variant.latency) {
      offer_.run = std::max(offer_.run, (*latency)(std::min(offer_.items, latency->max_batch())));
      offer_.least = std::max(offer_.least, (*latency)(1));
    }
  }
  set_best_effort(queue_.waiting().begin()->second.task.arrival, now);
  wake_ = std::min(wake_, asks_again());
}

// A plan serves everybody, those too for whom it is of no use.
bool VariantsBatcher::is_worth_running(const plan::GroupProblem& problem,
                                       const plan::GroupSchedule& plan,
                                       const plan::GroupBatch& batch) {
  const plan::Penalty& penalty = problem.services[batch.service].penalty;
  if (!penalty.depends_on_time()) return true;
  return absl::c_any_of(plan.requests_of(batch), [&](uint32_t i) {
    const plan::GroupRequest& r = problem.requests[i];
    return plan.expected_accuracy[i] > 0 &&
           penalty(r.deadline - r.arrival, batch.finish - r.arrival) < 1;
  });
}

bool VariantsBatcher::decide(const Grant& grant, Time start, Time now, Decisions& out) {
  end_the_late(now, out);
  if (queue_.waiting().empty()) return false;
  plan::GroupProblem& problem = kept_.next();
  queue_.share(grant.worker, now, start, kMostWorkers, kMostPlanned, problem);
  problem.policy = plan::GroupPolicy::kFermata;
  if (others_.known()) others_.count(now, 0);
  problem.others = others_.per_second() / 1e6 * static_cast<double>(problem.workers.size()) /
                   std::max(1.0, static_cast<double>(pool_.serving()));
  problem.others_price = price(pool_, offer_.key, now);
  problem.last_price = planner_.last_price();
  problem.last_tried = planner_.last_tried();
  kept_.keep();
  const plan::GroupSchedule& plan = planner_.plan(problem);
  const auto first =
      std::find_if(plan.batches.begin(), plan.batches.end(), [&](const plan::GroupBatch& b) {
        return b.worker == 0 && is_worth_running(problem, plan, b);
      });
  if (first != plan.batches.end() && first->start <= start) {
    bind(problem, plan, *first, grant.worker, out);
    return true;
  }
  // Not at this moment again, however long its data takes.
  const Time again = start + delay_(offer_.items) + kTick;
  const bool idle = first == plan.batches.end();
  declined_.decline(grant.worker_type, now,
                    idle ? again + kLookAgain : std::max(first->start, again));
  return false;
}

void VariantsBatcher::bound(const Batch& batch, bool own, Time now) {
  if (own) return;
  const auto has_deadline = [](const Task& task) { return !task.deadline.is_infinite(); };
  if (absl::c_none_of(batch.tasks, has_deadline)) return;  // it takes what is left
  others_.count(now, static_cast<uint32_t>((batch.finish - batch.start).micros()));
}

void VariantsBatcher::bind(const plan::GroupProblem& problem, const plan::GroupSchedule& plan,
                           const plan::GroupBatch& planned, WorkerId worker, Decisions& out) {
  for (size_t i = 0; i < plan.expected_accuracy.size(); ++i) {
    queue_.chosen(i).planned = plan.expected_accuracy[i];
  }
  Batch& batch = out.add_batch();
  batch.rule = StartRule::kChosen;
  batch.key = queue_.variant_key(planned.service, planned.variant);
  batch.worker = worker;
  batch.start = problem.now;
  batch.load = planned.load;
  batch.price = planned.price;
  const LatencyTable& latency = problem.services[planned.service].variants[planned.variant].on(
      problem.workers[planned.worker].type);
  batch.items = fitting(latency, planned.count, planned.finish);
  batch.finish = batch.start + (planned.finish - planned.start) -
                 (latency(planned.count) - latency(batch.items));
  // Requests are in the order of their deadlines: the nearest stay.
  taken_.assign(plan.requests_of(planned).begin(), plan.requests_of(planned).end());
  absl::c_sort(taken_);
  taken_.resize(batch.items);
  for (const uint32_t i : taken_) {
    batch.tasks.push_back(queue_.chosen(i).task);
    queue_.erase(batch.tasks.back());
  }
  batch.chosen = static_cast<uint32_t>(batch.tasks.size());
}

void VariantsBatcher::join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now) {
  const Time run_from = batch.finish - latency(batch.items);
  const size_t before = batch.tasks.size();
  auto it = queue_.first_in_time(now);
  for (size_t asked = 0; asked < kMostPlanned && it != queue_.waiting().end(); ++asked) {
    const Waiting& w = (it++)->second;
    if (batch.items >= latency.max_batch()) break;
    const Time finish = run_from + latency(batch.items + 1);
    if (finish > std::min(limit, w.task.deadline)) continue;
    const auto variant = queue_.variant_of(w.service, batch.key);
    if (!variant || queue_.accuracy(w, *variant) < w.planned) continue;
    batch.tasks.push_back(w.task);
    ++batch.items;
    batch.finish = finish;
    limit = std::min(limit, w.task.deadline);
    queue_.erase(batch.tasks.back());
  }
  if (batch.tasks.size() > before) update(now);
}

}  // namespace fermata::policy

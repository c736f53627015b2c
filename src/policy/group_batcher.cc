#include "policy/group_batcher.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "estimate/posterior.h"

namespace fermata::policy {
namespace {

constexpr size_t kMostPlanned = 48;  // tasks that one decision looks at
constexpr Duration kTick = Duration::nanos(1);
// After a plan had nothing for a free worker, and nothing has come since.
constexpr Duration kLookAgain = Duration::millis(2);
constexpr Time kLast = Time::from_nanos(Time::infinite().nanos() - 1);  // yet not never

// The lateness, in parts of the SLO, that takes 2 % of an answer's worth: a short circuit waits
// for as long, since a better answer may come.
double bearable(PenaltyShape shape) {
  switch (shape) {
    case PenaltyShape::kLinear:
      return 0.02;
    case PenaltyShape::kSigmoid:
      return 0.2146;  // x^3 / (x^3 + (1 - x)^3) = 0.02
    default:
      return 0;
  }
}

}  // namespace

void GroupBatcher::nominated(const Task& task, Time now, Decisions& out) {
  FERMATA_CHECK(task.items == 1);
  queue_.insert(task, now);
  wait_until_ = now;
  end_the_late(now, out);
  update(now);
}

bool GroupBatcher::withdrawn(const Task& task, Time now, Decisions& out) {
  if (!queue_.erase(task)) return false;
  end_the_late(now, out);
  update(now);
  return true;
}

void GroupBatcher::learned(const Task& task, Evidence evidence, Time now, Decisions& out) {
  if (!queue_.learned(task, std::move(evidence))) return;
  if (knows_better(task)) {
    queue_.erase(task);
    out.short_circuited.push_back(task);
  }
  wait_until_ = now;
  end_the_late(now, out);
  update(now);
}

void GroupBatcher::tick(Time now, Decisions& out) {
  end_the_late(now, out);
  update(now);
}

// Whether the evidence model is more often right than any variant would be, on this data.
bool GroupBatcher::knows_better(const Task& task) {
  const Waiting& w = *absl::c_find_if(
      queue_.waiting(), [&task](const Waiting& known) { return known.task.job == task.job; });
  const GroupApplication& application = queue_.last_problem().applications[w.application];
  if (!application.short_circuit) return false;
  theta_.resize(application.prior.size());
  estimate::posterior_mean(application.prior,
                           std::vector<double>(w.evidence.begin(), w.evidence.end()), theta_);
  return absl::c_all_of(application.variants, [&](const GroupVariant& variant) {
    const double accuracy = variant.recall.empty()
                                ? variant.accuracy
                                : estimate::expected_accuracy(theta_, variant.recall);
    return accuracy <= application.short_circuit->accuracy;
  });
}

bool GroupBatcher::short_circuits(const Waiting& w) const {
  return !w.evidence.empty() &&
         queue_.last_problem().applications[w.application].short_circuit.has_value();
}

Duration GroupBatcher::fastest(uint32_t application) const {
  Duration least = Duration::infinite();
  for (const GroupVariant& variant : queue_.last_problem().applications[application].variants) {
    for (const auto& latency : variant.latency) least = std::min(least, (*latency)(1));
  }
  return least;
}

// From then on nothing is worth anything to the task, or its short circuit would be late.
Time GroupBatcher::last_moment(const Waiting& w) const {
  const Time deadline = w.task.deadline;
  if (deadline.is_infinite()) return deadline;
  const GroupApplication& application = queue_.last_problem().applications[w.application];
  const Penalty& penalty = application.penalty;
  const Time on_time =
      deadline + (deadline - w.task.arrival).scaled(bearable(penalty.shape)) - delay_(1);
  if (short_circuits(w)) return on_time;
  if (!penalty.depends_on_time()) return Time::infinite();
  const Duration grace = penalty.shape == PenaltyShape::kStep ? kTick : deadline - w.task.arrival;
  const Time of_use = deadline + grace - fastest(w.application) - delay_(1);
  // Evidence may still come, and answer.
  return application.short_circuit ? std::max(on_time, of_use) : of_use;
}

void GroupBatcher::end_the_late(Time now, Decisions& out) {
  if (now < wake_) return;
  const auto& waiting = queue_.waiting();
  queue_.erase_if([&](size_t i) {
    const Waiting& w = waiting[i];
    if (now < last_moment(w)) return false;
    if (short_circuits(w)) {
      out.short_circuited.push_back(w.task);
    } else {
      out.dropped.push_back({w.task, Duration(), fastest(w.application)});
    }
    return true;
  });
  wake_ = Time::infinite();
}

void GroupBatcher::update(Time now) {
  const auto& waiting = queue_.waiting();
  wake_ = Time::infinite();
  for (const Waiting& w : waiting) wake_ = std::min(wake_, last_moment(w));
  offer_.items = static_cast<uint32_t>(waiting.size());
  offer_.epoch = epoch_;
  offer_.patient = false;
  if (waiting.empty()) return;
  offer_.run = fastest(waiting[0].application);
  offer_.start_at = std::max(now, wait_until_);
  // Who has no deadline has no slack to compare: last among those who want to start.
  const Time deadline = waiting[0].task.deadline;
  offer_.urgency = deadline.is_infinite() ? kLast : deadline - offer_.run;
}

// A plan serves everybody, those too for whom it is of no use.
bool GroupBatcher::is_worth_running(const GroupProblem& problem, const GroupSchedule& plan,
                                    const GroupBatch& batch) {
  const Penalty& penalty = problem.applications[batch.application].penalty;
  if (!penalty.depends_on_time()) return true;
  return absl::c_any_of(plan.requests_of(batch), [&](uint32_t i) {
    const GroupRequest& r = problem.requests[i];
    return plan.expected_accuracy[i] > 0 &&
           penalty(r.deadline - r.arrival, batch.finish - r.arrival) < 1;
  });
}

Answer GroupBatcher::granted(const Grant& grant, Time now, Decisions& out) {
  Answer answer{grant.worker, false, grant.free_at};
  if (grant.epoch != epoch_) return answer;
  ++epoch_;
  end_the_late(now, out);
  if (!queue_.waiting().empty()) {
    const Time start = std::max(now + delay_(1), grant.free_at);
    queue_.put_first(grant.worker, start);
    GroupProblem& problem = queue_.problem(start, kMostPlanned);
    problem.policy = GroupPolicy::kFermata;
    expected_.clear();
    for (uint32_t a = 0; a < problem.applications.size(); ++a) {
      expected_.push_back({queue_.rate(a).per_second(), queue_.typical_slo(a)});
    }
    const GroupSchedule& plan = planner_.follow(problem, expected_);
    const auto first =
        std::find_if(plan.batches.begin(), plan.batches.end(), [&](const GroupBatch& b) {
          return b.worker == grant.worker.index() && is_worth_running(problem, plan, b);
        });
    // Not at this moment again, however long its data takes.
    const Time again = start + delay_(offer_.items) + kTick;
    wait_until_ = first == plan.batches.end() ? again + kLookAgain : std::max(first->start, again);
    if (first != plan.batches.end() && first->start <= start) {
      bind(plan, *first, grant.worker, start, out);
      answer.started = true;
      answer.free_at = out.bound.back().finish;
    }
  }
  update(now);
  return answer;
}

void GroupBatcher::bind(const GroupSchedule& plan, const GroupBatch& planned, WorkerId worker,
                        Time start, Decisions& out) {
  for (size_t i = 0; i < plan.expected_accuracy.size(); ++i) {
    queue_.set_planned(i, plan.expected_accuracy[i]);
  }
  Batch& batch = out.add_batch();
  batch.key = queue_.variant_key(planned.application, planned.variant);
  batch.worker = worker;
  batch.start = start;
  batch.finish = start + (planned.finish - planned.start);
  batch.items = planned.count;
  taken_.assign(queue_.waiting().size(), false);
  for (const uint32_t i : plan.requests_of(planned)) {
    batch.tasks.push_back(queue_.waiting()[i].task);
    taken_[i] = true;
  }
  queue_.erase_if([this](size_t i) { return taken_[i]; });
  wait_until_ = Time();
}

void GroupBatcher::join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now) {
  const auto& waiting = queue_.waiting();
  const GroupProblem& problem = queue_.last_problem();
  const Time run_from = batch.finish - latency(batch.items);
  queue_.erase_if([&](size_t i) {
    const Waiting& w = waiting[i];
    if (batch.items >= latency.max_batch()) return false;
    const Time finish = run_from + latency(batch.items + 1);
    if (finish > std::min(limit, w.task.deadline)) return false;
    const GroupApplication& application = problem.applications[w.application];
    for (uint32_t v = 0; v < application.variants.size(); ++v) {
      if (queue_.variant_key(w.application, v) != batch.key) continue;
      if (application.variants[v].accuracy < w.planned) return false;
      batch.tasks.push_back(w.task);
      ++batch.items;
      batch.finish = finish;
      limit = std::min(limit, w.task.deadline);
      return true;
    }
    return false;
  });
  update(now);
}

}  // namespace fermata::policy

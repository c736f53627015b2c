#include "policy/rivals/window_scheduler.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/check.h"

namespace fermata::policy {
namespace {

constexpr size_t kEverything = std::numeric_limits<size_t>::max();
// Of one exact search, which then keeps the best that it has: a decision must not outlast
// what it decides about. About a millisecond.
constexpr uint64_t kWindowSteps = 20'000;

}  // namespace

KeyId WindowScheduler::add_key(KeyInfo info) {
  const KeyId key = pool_.new_key();
  const std::string name = info.name;
  pool_.add_model(key, std::move(info));
  queue_.add_service(key, {.name = name, .variants = {{.key = key, .accuracy = 1, .recall = {}}}});
  return key;
}

KeyId WindowScheduler::add_service(const ServiceInfo& info) {
  const KeyId key = pool_.new_key();
  queue_.add_service(key, std::get<VariantsInfo>(info));
  return key;
}

void WindowScheduler::remove_key(KeyId key) {
  FERMATA_CHECK(waiting_items(key) == 0);
  if (pool_.is_model(key)) pool_.remove_model(key);
  queue_.remove(key);
  pool_.free_key(key);
}

void WindowScheduler::update_latency(KeyId key, LatencyByType latency, Time, Decisions&) {
  pool_.set_latency(key, std::move(latency));
  queue_.latency_changed(key);
}

WorkerId WindowScheduler::add_worker(Time, Decisions&, uint32_t type, int64_t memory_bytes) {
  planned_.emplace_back();
  return pool_.add_worker(type, memory_bytes);
}

void WindowScheduler::nominate(const Task& task, Time now, Decisions& out) {
  queue_.insert(task, now);
  if (window_ == Duration()) return replan(now, out);
  if (!window_end_.is_infinite()) return;
  const int64_t windows = now.nanos() / window_.nanos() + 1;
  window_end_ = Time::from_nanos(windows * window_.nanos());
}

void WindowScheduler::learned(const Task& task, const Estimate& estimate, Time now,
                              Decisions& out) {
  const auto* evidence = std::get_if<Evidence>(&estimate);
  const bool known = evidence != nullptr && queue_.learned(task, *evidence) != nullptr;
  if (known && window_ == Duration()) replan(now, out);
}

bool WindowScheduler::withdraw(const Task& task, Time, Decisions&) {
  if (queue_.erase(task)) return true;
  for (size_t w = 0; w < planned_.size(); ++w) {
    Planning& planned = planned_[w];
    for (auto batch = planned.begin(); batch != planned.end(); ++batch) {
      const auto it = std::find_if(batch->tasks.begin(), batch->tasks.end(),
                                   [&task](const Task& t) { return t.job == task.job; });
      if (it == batch->tasks.end()) continue;
      batch->run -= (*batch->latency)(batch->items);
      batch->items -= it->items;
      batch->tasks.erase(it);
      if (batch->items > 0) {
        batch->run += (*batch->latency)(batch->items);
      } else {
        forget(w, batch);
      }
      return true;
    }
  }
  return false;
}

// A batch that nobody is left in; whoever needs what it would have loaded loads it instead.
void WindowScheduler::forget(size_t w, Planning::iterator batch) {
  const Planned gone = std::move(*batch);
  Planning& planned = planned_[w];
  const auto behind = planned.erase(batch);
  if (!gone.load) return;
  const auto next = std::find_if(behind, planned.end(), [&](const Planned& later) {
    return pool_.residents().model_of(later.key) == pool_.residents().model_of(gone.key);
  });
  if (next == planned.end())
    return pool_.residents().unload(WorkerId(static_cast<uint32_t>(w)), gone.key);
  next->load = true;
  next->run += gone.run;  // nothing but the load is left of it
}

void WindowScheduler::ended(const BatchEnd& batch, Time now, Decisions& out) {
  pool_.freed(batch.worker, now);
  serve(batch.worker.index(), now, out);
  if (window_ == Duration()) replan(now, out);
}

void WindowScheduler::tick(Time now, Decisions& out) {
  if (now >= window_end_) close_window(now, out);
}

Time WindowScheduler::next_wake() const { return window_end_; }

uint64_t WindowScheduler::waiting_items(KeyId key) const {
  uint64_t items = queue_.waiting_items(key);
  for (const Planning& plan : planned_) {
    for (const Planned& batch : plan) {
      for (const Task& task : batch.tasks) items += task.key == key ? task.items : 0;
    }
  }
  return items;
}

// Of everything that waits, behind what is planned; short circuits are taken at once.
const plan::GroupSchedule& WindowScheduler::plan(Time now, Decisions& out) {
  const Time start = now + delay_(1);
  plan::GroupProblem& problem = queue_.problem(start, kEverything);
  for (size_t w = 0; w < planned_.size(); ++w) {
    Time& free_at = problem.workers[w].free_at;
    free_at = idle(w) ? start : std::max(free_at, start);
    for (const Planned& batch : planned_[w]) free_at = free_at + batch.run;
  }
  problem.policy = policy_;
  problem.data_aware = settings_.data_aware;
  problem.short_circuit = settings_.short_circuit;
  problem.tau = settings_.tau;
  problem.max_group = settings_.max_group;
  problem.max_steps = kWindowSteps;
  kept_.next() = problem;
  kept_.keep();
  const plan::GroupSchedule& schedule = planner_.plan(problem);
  for (const uint32_t i : schedule.short_circuited) {
    out.concluded.push_back({.task = queue_.chosen(i).task});
    queue_.erase(out.concluded.back().task);
  }
  return schedule;
}

void WindowScheduler::close_window(Time now, Decisions& out) {
  window_end_ = Time::infinite();
  const plan::GroupSchedule& schedule = plan(now, out);
  for (const plan::GroupBatch& batch : schedule.batches) {
    append(schedule, batch);
  }
  for (size_t w = 0; w < planned_.size(); ++w) serve(w, now, out);
}

// Binds the first batch of each free worker's plan, nothing else of it.
void WindowScheduler::replan(Time now, Decisions& out) {
  const auto is_idle = [](const WorkerView& w) { return w.running == 0; };
  if (queue_.waiting().empty() || absl::c_none_of(pool_.workers(), is_idle)) return;
  const plan::GroupSchedule& schedule = plan(now, out);
  for (const plan::GroupBatch& batch : schedule.batches) {
    if (!idle(batch.worker) || !planned_[batch.worker].empty()) continue;
    append(schedule, batch);
  }
  for (size_t w = 0; w < planned_.size(); ++w) serve(w, now, out);
}

// Requests of several items may not all fit one batch.
void WindowScheduler::append(const plan::GroupSchedule& schedule, const plan::GroupBatch& batch) {
  const WorkerId worker(batch.worker);
  const KeyId key = queue_.variant_key(batch.service, batch.variant);
  const LatencyByType::Table table = pool_.info(key).latency.table(pool_.worker(worker).type);
  const LatencyTable& latency = *table;
  Planned planned{.key = key, .load = batch.load, .latency = table};
  pool_.residents().use(worker, key);
  Duration load = batch.finish - batch.start - latency(batch.count);
  const auto close = [&] {
    planned.run = load + latency(planned.items);
    planned_[worker.index()].push_back(std::exchange(planned, {.key = key, .latency = table}));
    load = Duration();
  };
  for (const uint32_t i : schedule.requests_of(batch)) {
    const Task task = queue_.chosen(i).task;
    if (planned.items > 0 && planned.items + task.items > latency.max_batch()) close();
    planned.tasks.push_back(task);
    planned.items += task.items;
    queue_.erase(task);
  }
  close();
}

void WindowScheduler::serve(size_t w, Time now, Decisions& out) {
  if (!idle(w) || planned_[w].empty()) return;
  Planned planned = std::move(planned_[w].front());
  planned_[w].pop_front();
  Batch& batch = out.add_batch();
  batch.rule = StartRule::kChosen;
  batch.key = planned.key;
  batch.worker = WorkerId(static_cast<uint32_t>(w));
  batch.start = now + delay_(planned.items);
  batch.finish = batch.start + planned.run;
  batch.items = planned.items;
  batch.tasks = std::move(planned.tasks);
  batch.chosen = static_cast<uint32_t>(batch.tasks.size());
  batch.load = planned.load;
  pool_.bound(batch.worker, batch.finish);
}

}  // namespace fermata::policy

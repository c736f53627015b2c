#include "policy/application_queue.h"

#include <algorithm>

#include "base/check.h"

namespace fermata::policy {
namespace {

// The deadline of a task that has none, as planners want one.
constexpr Duration kNoHurry = Duration::seconds(24 * 3600);

bool before(const Task& a, const Task& b) {
  return a.deadline != b.deadline ? a.deadline < b.deadline : a.job < b.job;
}

}  // namespace

std::vector<std::shared_ptr<const LatencyTable>> ApplicationQueue::tables(const KeyInfo& info) {
  return info.latency_by_type.empty() ? std::vector{info.latency} : info.latency_by_type;
}

uint32_t ApplicationQueue::model_of(const KeyInfo& info) {
  const auto next = static_cast<uint32_t>(problem_.models.size());
  const auto [it, added] = models_.try_emplace(info.variant, next);
  if (!added && !info.variant.is_none()) return it->second;
  it->second = next;  // keys of no variant share nothing
  problem_.models.push_back({info.name, info.load, info.memory_bytes});
  return next;
}

void ApplicationQueue::add_key(KeyId key, const KeyInfo& info) {
  const uint32_t model = model_of(info);
  keys_[key] = {info, model};
  for (GroupWorker& worker : problem_.workers) hold_for_good(worker, model);
}

// Where memory is no concern everything is loaded from the beginning, and what costs nothing
// always is.
void ApplicationQueue::hold_for_good(GroupWorker& worker, uint32_t model) const {
  const GroupModel& m = problem_.models[model];
  const bool free = m.memory_bytes == 0 && m.load == Duration();
  if (worker.memory_bytes != kUnlimitedMemory && !free) return;
  const auto it = std::find(worker.loaded.begin(), worker.loaded.end(), model);
  if (it == worker.loaded.end()) worker.loaded.push_back(model);
}

void ApplicationQueue::put_first(WorkerId worker, Time start) {
  for (GroupWorker& other : problem_.workers) {
    other.free_at = std::max(other.free_at, start + Duration::nanos(1));
  }
  set_free_at(worker, start);
}

bool ApplicationQueue::use(WorkerId id, KeyId key) {
  GroupWorker& worker = problem_.workers[id.index()];
  if (worker.memory_bytes == kUnlimitedMemory) return false;
  residency_.reset(worker, problem_.models);
  const bool load = residency_.use(keys_.at(key).model);
  worker.loaded.assign(residency_.loaded().begin(), residency_.loaded().end());
  return load;
}

void ApplicationQueue::set_latency(KeyId key, std::shared_ptr<const LatencyTable> latency) {
  Key& known = keys_.at(key);
  known.info.latency = std::move(latency);
  for (size_t a = 0; a < applications_.size(); ++a) {
    for (size_t v = 0; v < applications_[a].keys.size(); ++v) {
      if (applications_[a].keys[v] != key) continue;
      problem_.applications[a].variants[v].latency = tables(known.info);
    }
  }
}

void ApplicationQueue::add_application(KeyId key, const ApplicationInfo& info) {
  uint32_t at = 0;  // of a removed one, if there is any
  while (at < applications_.size() && !applications_[at].key.is_none()) ++at;
  applications_.resize(std::max<size_t>(applications_.size(), at + 1));
  problem_.applications.resize(applications_.size());
  applications_[at] = {.key = key};
  GroupApplication& application = problem_.applications[at];
  application = {.name = info.name, .penalty = info.penalty, .prior = info.prior};
  if (info.short_circuit) application.short_circuit = ShortCircuit{"evidence", *info.short_circuit};
  for (const ApplicationVariant& variant : info.variants) {
    const Key& known = keys_.at(variant.key);
    applications_[at].keys.push_back(variant.key);
    application.variants.push_back(
        {known.model, variant.accuracy, variant.recall, tables(known.info)});
  }
  application_of_[key] = at;
}

bool ApplicationQueue::is_application(KeyId key) const { return application_of_.contains(key); }

void ApplicationQueue::remove(KeyId key) {
  if (const auto it = application_of_.find(key); it != application_of_.end()) {
    FERMATA_CHECK(waiting_items(key) == 0);
    applications_[it->second].key = KeyId::none();
    applications_[it->second].keys.clear();
    application_of_.erase(it);
    return;
  }
  keys_.erase(key);
}

void ApplicationQueue::add_worker(uint32_t type, int64_t memory_bytes) {
  auto& types = problem_.worker_types;
  while (types.size() <= type) types.push_back(std::to_string(types.size()));
  GroupWorker& worker = problem_.workers.emplace_back();
  worker.name = std::to_string(problem_.workers.size() - 1);
  worker.type = type;
  worker.memory_bytes = memory_bytes;
  for (uint32_t model = 0; model < problem_.models.size(); ++model) hold_for_good(worker, model);
}

void ApplicationQueue::insert(const Task& task, Time now) {
  const uint32_t at = application_of_.at(task.key);
  Application& application = applications_[at];
  application.rate.count(now, task.items);
  if (!task.deadline.is_infinite()) {
    const Duration own = task.deadline - task.arrival;
    application.slo =
        application.slo.is_infinite() ? own : application.slo + (own - application.slo) / 16;
  }
  const auto place =
      std::upper_bound(waiting_.begin(), waiting_.end(), task,
                       [](const Task& wanted, const Waiting& w) { return before(wanted, w.task); });
  waiting_.insert(place, {task, at, {}});
}

bool ApplicationQueue::erase(const Task& task) {
  const auto it =
      std::lower_bound(waiting_.begin(), waiting_.end(), task,
                       [](const Waiting& w, const Task& wanted) { return before(w.task, wanted); });
  if (it == waiting_.end() || it->task.job != task.job) return false;
  waiting_.erase(it);
  return true;
}

bool ApplicationQueue::learned(const Task& task, Evidence evidence) {
  const auto it =
      std::lower_bound(waiting_.begin(), waiting_.end(), task,
                       [](const Waiting& w, const Task& wanted) { return before(w.task, wanted); });
  if (it == waiting_.end() || it->task.job != task.job) return false;
  const size_t classes = problem_.applications[it->application].prior.size();
  if (classes == 0 || evidence.size() != classes) return false;
  it->evidence = std::move(evidence);
  return true;
}

uint64_t ApplicationQueue::waiting_items(KeyId key) const {
  return static_cast<uint64_t>(std::count_if(
      waiting_.begin(), waiting_.end(), [key](const Waiting& w) { return w.task.key == key; }));
}

GroupProblem& ApplicationQueue::problem(Time now, size_t most) {
  problem_.now = now;
  problem_.requests.clear();
  problem_.evidence.clear();
  for (const Waiting& w : waiting_) {
    if (problem_.requests.size() == most) break;
    GroupRequest& request = problem_.requests.emplace_back();
    request.application = w.application;
    request.arrival = w.task.arrival;
    request.deadline = w.task.deadline.is_infinite() ? w.task.arrival + kNoHurry : w.task.deadline;
    request.deadline = std::max(request.deadline, request.arrival + Duration::nanos(1));
    if (w.evidence.empty()) continue;
    request.evidence = static_cast<uint32_t>(problem_.evidence.size());
    problem_.evidence.insert(problem_.evidence.end(), w.evidence.begin(), w.evidence.end());
  }
  return problem_;
}

}  // namespace fermata::policy

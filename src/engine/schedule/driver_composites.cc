// What the driver does alike for services of one variant, of any of several, and of some together.
#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "base/clock.h"
#include "engine/composite/variants_service.h"
#include "engine/schedule/driver_state.h"

namespace fermata::engine {

bool Driver::served(const Route& route) {
  if (route.composite == nullptr) return keys_.served(route.variant->id) != nullptr;
  return absl::c_all_of(route.composite->variants, [this](const auto& variant) {
    return keys_.served(variant->id) != nullptr;
  });
}

KeyId Driver::key_of(const Job& job, Time now) {
  const Route& route = job.route();
  if (route.composite != nullptr) return composites_.intern(route.composite, job.shape());
  ServedVariant& of = *keys_.served(route.variant->id);
  const InputsElsewhere* const elsewhere = job.request().elsewhere.get();
  if (elsewhere == nullptr || !is_cut(*elsewhere->holder)) return keys_.intern(of, job.shape());
  const KeyId key = keys_.intern(of, job.shape(), *elsewhere->holder);
  if (!key.is_none()) tell_ways(key, now);
  return key;
}

void Driver::task_added(KeyId key) {
  composites_.has(key) ? composites_.task_added(key) : keys_.task_added(key);
}

void Driver::task_ended(KeyId key) {
  composites_.has(key) ? composites_.task_ended(key) : keys_.task_ended(key);
}

// Where one of several variants answers and a batch has been bound already, the data no longer
// matters. What is known of a job that has not come yet waits with it.
void Driver::learned(Learned& learned, Time now) {
  Job& job = *learned.job;
  if (job.ended() || (job.decided && job.route().ensemble == nullptr)) return;
  job.estimates = std::move(learned.by_item);
  if (job.open_parts > 0) tell(job, now);
}

std::shared_ptr<Job> Driver::job_of(JobId id) const {
  if (const auto part = parts_.find(id); part != parts_.end()) return part->second.job;
  const auto split = split_jobs_.find(id);
  return split == split_jobs_.end() ? nullptr : split->second;
}

void Driver::learned(JobId id, std::vector<policy::Estimate> by_item) {
  post([this, id, by_item = std::move(by_item)]() mutable {
    std::shared_ptr<Job> job = job_of(id);
    const VariantsService* of = job == nullptr ? nullptr : job->route().variants;
    if (of == nullptr || !of->fits(by_item, job->items())) return;
    Learned learned_of{std::move(job), std::move(by_item)};
    learned(learned_of, monotonic_now());
  });
}

void Driver::tell(const Job& job, Time now) {
  if (job.estimates.empty()) return;
  for (const JobId id : job.parts()) {
    const auto part = parts_.find(id);
    if (part == parts_.end() || part->second.first >= job.estimates.size()) continue;
    scheduler_->learned(policy::Task(part->second.task), job.estimates[part->second.first], now,
                        decisions_);
  }
}

// Its evidence answers, and none of its variants.
void Driver::short_circuit(const policy::Concluded& concluded) {
  const policy::Task& task = concluded.task;
  const Part& part = parts_.at(task.job);
  const std::shared_ptr<Job> job = part.job;
  job->decided = true;
  const PartRun run{.started = monotonic_now(), .choice = {.at_last = concluded.at_last}};
  const auto& evidence = std::get<policy::Evidence>(job->estimates[part.first]);
  job->answered(part.index, job->route().variants->short_circuit(evidence), run);
  forget(task.job);
}

std::vector<policy::Problem> Driver::last_problems() {
  std::vector<policy::Problem> last;
  post_and_wait([&] { last = scheduler_->last_problems(); });
  for (policy::Problem& each : last) {
    if (auto* group = std::get_if<plan::GroupProblem>(&each)) name_all(*group);
    if (auto* task = std::get_if<plan::EnsembleTask>(&each)) name_all(task->problem);
    if (auto* pool = std::get_if<plan::PoolProblem>(&each)) name_all(*pool);
  }
  return last;
}

void Driver::name_all(plan::EnsembleProblem& problem) {
  for (size_t i = 0; i < problem.queries.size(); ++i) problem.queries[i].id = std::to_string(i);
}

void Driver::name_all(plan::PoolProblem& problem) const {
  // As below.
  for (size_t e = 1; e < problem.ensembles.size(); ++e) {
    problem.ensembles[e].name += "#" + std::to_string(e);
  }
  absl::flat_hash_set<std::string> names;
  for (size_t m = 0; m < problem.models.size(); ++m) {
    std::string& name = problem.models[m].name;
    if (!names.insert(name).second) name += "#" + std::to_string(m);
  }
  for (size_t t = 0; t < shared_.type_names.size(); ++t) {
    if (t < problem.worker_types.size()) problem.worker_types[t] = shared_.type_names[t];
  }
}

void Driver::name_all(plan::GroupProblem& problem) const {
  // One for each shape of its requests, and no two of a document may have the same name.
  for (size_t a = 1; a < problem.services.size(); ++a) {
    problem.services[a].name += "#" + std::to_string(a);
  }
  for (size_t i = 0; i < problem.requests.size(); ++i) problem.requests[i].id = std::to_string(i);
  for (size_t t = 0; t < problem.worker_types.size(); ++t) {
    problem.worker_types[t] = shared_.type_names[t];
  }
}

}  // namespace fermata::engine

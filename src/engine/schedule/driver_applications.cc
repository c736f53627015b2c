// What the driver does for services that several variants may answer.
#include "absl/algorithm/container.h"
#include "base/clock.h"
#include "engine/schedule/driver_state.h"
#include "engine/services/application.h"

namespace fermata::engine {

// Where a batch has been bound already the data no longer matters. What is known of a job that
// has not come yet waits with it.
void Driver::learned(const Learned& learned, Time now) {
  Job& job = *learned.job;
  if (job.decided || job.ended()) return;
  job.evidence = learned.by_item;
  if (job.open_parts > 0) tell_evidence(job, now);
}

void Driver::tell_evidence(const Job& job, Time now) {
  for (const JobId id : job.parts()) {
    const auto part = parts_.find(id);
    if (part == parts_.end() || part->second.first >= job.evidence.size()) continue;
    scheduler_->learned(policy::Task(part->second.task), job.evidence[part->second.first], now,
                        decisions_);
  }
}

void Driver::short_circuit(const policy::Task& task) {
  const Part& part = parts_.at(task.job);
  const std::shared_ptr<Job> job = part.job;
  job->decided = true;
  const PartRun run{.started = monotonic_now()};
  const policy::Evidence& evidence = job->evidence[part.first];
  job->answered(part.index, job->route().application->short_circuit(evidence), run);
  forget(task.job);
}

std::vector<plan::GroupProblem> Driver::last_problems() {
  std::vector<plan::GroupProblem> last;
  post_and_wait([&] { last = scheduler_->last_problems(); });
  for (plan::GroupProblem& problem : last) {
    // One for each shape of its requests, and no two of a document may have the same name.
    for (size_t a = 1; a < problem.applications.size(); ++a) {
      problem.applications[a].name += "#" + std::to_string(a);
    }
    for (size_t i = 0; i < problem.requests.size(); ++i) problem.requests[i].id = std::to_string(i);
    for (size_t t = 0; t < problem.worker_types.size(); ++t) {
      problem.worker_types[t] = shared_.type_names[t];
    }
  }
  return last;
}

}  // namespace fermata::engine

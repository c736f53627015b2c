// What the driver does for services that several variants may answer.
#include "absl/algorithm/container.h"
#include "base/clock.h"
#include "engine/schedule/driver_state.h"
#include "engine/services/application.h"

namespace fermata::engine {

void Driver::short_circuit(const policy::Concluded& concluded) {
  const policy::Task& task = concluded.task;
  const Part& part = parts_.at(task.job);
  const std::shared_ptr<Job> job = part.job;
  job->decided = true;
  const PartRun run{.started = monotonic_now(), .choice = {.at_last = concluded.at_last}};
  const auto& evidence = std::get<policy::Evidence>(job->estimates[part.first]);
  job->answered(part.index, job->route().application->short_circuit(evidence), run);
  forget(task.job);
}

}  // namespace fermata::engine

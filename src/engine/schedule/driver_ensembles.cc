// What the driver does for services that several base models answer together.
#include <fmt/format.h>

#include "absl/algorithm/container.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/composite/base_answers.h"
#include "engine/composite/ensemble_service.h"
#include "engine/schedule/driver_state.h"

namespace fermata::engine {

void Driver::join_query(const Part& part, InFlight& running, BatchPart& wanted) {
  const EnsembleService& ensemble = *part.job->route().ensemble;
  const auto at = absl::c_find_if(ensemble.variants, [&running](const auto& variant) {
    return variant->id == running.variant->id;
  });
  const auto model = static_cast<uint32_t>(at - ensemble.variants.begin());
  auto& query = queries_[part.task.job];
  if (query == nullptr) query = std::make_shared<Query>(ensemble.variants.size());
  running.shares.back().base_model = model;
  running.shares.back().query = query;
  running.shares.back().lost = query->answers[model].lost;
  wanted.alone = wanted.last = query->answers[model].lost > 0;
  wanted.outputs = &ensemble.outputs[model];
  if (ensemble.same_inputs || wanted.elsewhere != nullptr) return;
  std::vector<Tensor>& inputs = query->answers[model].inputs;
  inputs = ensemble.inputs_of(model, part.job->request().inputs);
  wanted.inputs = &inputs;
}

// What is no numbers is a failure of the base model: others are asked. Where answers are elsewhere,
// the worker has found that. On the worker's thread.
void Driver::take_answer(InFlight& running, size_t at, absl::StatusOr<std::vector<Tensor>> answer) {
  InFlight::Share& share = running.shares[at];
  if (answer.ok() && share.job->request().elsewhere == nullptr) {
    const EnsembleModel& model = *share.job->route().ensemble->model;
    if (const absl::Status fine = model.check_answer(answer->front()); !fine.ok()) answer = fine;
  }
  share.answer = std::move(answer);
}

// Before the scheduler hears that the batch has ended.
Driver::Unanswered Driver::take_answers(InFlight& running) {
  Unanswered without;
  for (InFlight::Share& share : running.shares) {
    const bool away = share.base_model && share.absence != Absence::kNone;
    if (share.failed) {
      const auto part = parts_.find(share.part);
      if (part != parts_.end()) (away ? without.away : without.failed).push_back(part->second.task);
    }
    if (!share.base_model) continue;
    const auto query = queries_.find(share.part);
    if (query == queries_.end()) continue;  // it has ended
    if (away) {
      query->second->answers[*share.base_model].lost += is_loss(share.absence) ? 1 : 0;
      continue;
    }
    if (query->second->run.variant == nullptr) query->second->run = running.run;
    if (share.answer.ok()) {
      query->second->join.take(*share.base_model, *std::move(share.answer));
    } else {
      query->second->answers[*share.base_model].failure = share.answer.status();
    }
  }
  return without;
}

// When its process is there again; until then the query may get other answers.
void Driver::ask_again(JobId query, InFlight& running) {
  const auto back = [this, id = query, model = running.key] {
    const auto part = parts_.find(id);
    if (part == parts_.end()) return;
    const Time now = monotonic_now();
    scheduler_->learned(policy::Task(part->second.task), policy::Again{model}, now, decisions_);
    act(now);
  };
  workers_[running.worker.index()]->executor->when_back(running.variant->id,
                                                        [this, back] { leave(back); });
}

void Driver::conclude(const policy::Concluded& concluded, Time now) {
  const JobId id = concluded.task.job;
  const Part& part = parts_.at(id);
  if (part.job->route().ensemble == nullptr) return short_circuit(concluded);
  const std::shared_ptr<Job> job = part.job;
  const std::shared_ptr<Query> held = queries_.at(id);
  Query& query = *held;
  PartRun run = query.run;
  run.input = run.output = Duration();
  run.run = monotonic_now() - run.started;  // of all of them
  run.ensemble = {.how = concluded};
  if (part.first < job->estimates.size())
    run.ensemble->difficulty = std::get<policy::Difficulty>(job->estimates[part.first]);
  const uint32_t index = part.index;
  if (concluded.ran == 0) {
    const auto failed =
        absl::c_find_if(query.answers, [](const auto& a) { return !a.failure.ok(); });
    job->answered(index,
                  absl::Status(failed->failure.code(),
                               fmt::format("no base model of '{}' answered: {}",
                                           job->route().service, message(failed->failure))),
                  run);
  } else if (!job->ended() && job->request().elsewhere != nullptr) {
    run.ensemble->how.ran &= query.join.taken();
    job->answered(index, Outputs{answered_by(run.ensemble->how.ran)}, run);
  } else if (!job->ended()) {
    // The variant that ran first is alive as long as the job's route is.
    query.join.aggregate(*job->route().ensemble->model, concluded.ran, std::move(run),
                         [job, index](absl::StatusOr<Outputs> outputs, const PartRun& run) {
                           job->answered(index, std::move(outputs), run);
                         });
  }
  forget(id);
  if (job->ended() && job->open_parts > 0) withdraw_parts(*job, now);
}

}  // namespace fermata::engine
